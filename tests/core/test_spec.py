"""A user's mistake in the spec is one line: key, value, what would do."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from synthleak.audit.stages import set_up
from synthleak.core.errors import SpecError, UserError
from synthleak.core.spec import load_spec, parse_spec, point
from synthleak.core.store import MemoryStore

GOOD = """\
seed = 1

[corpus]
reader = "demo"
size = 120

[[pool]]
name = "outlier"
rule = "outlier"
percentile = 90

[[pool]]
name = "random"
rule = "random"
match = "outlier"

[game]
instances = 10
records = 20

[[generator]]
kind = "ngram"
epsilon = [inf, 4]
"""


def problem(path: Path) -> str:
    with pytest.raises(UserError) as caught:
        set_up(load_spec(path), MemoryStore())
    line = str(caught.value)
    assert "\n" not in line
    return line.replace(str(path), "audit.toml")


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("seed = 1", "sed = 1", "audit.toml, line 1, sed: unknown key; did you mean 'seed'?"),
        ("seed = 1", "float = 1", "audit.toml, line 1, float: unknown key; known: seed"),
        ("seed = 1", '"a[0]" = 1', "a[0]: unknown key; known: seed"),
        (
            "instances = 10",
            "instnces = 10",
            "audit.toml, line 18, game.instnces: unknown key; did you mean 'instances'?",
        ),
        (
            "percentile = 90",
            "percentle = 90",
            "audit.toml, line 10, pool[0].percentle: unknown key; did you mean 'percentile'?",
        ),
        (
            "percentile = 90",
            "percentile = 120",
            "audit.toml, line 10, pool[0].percentile: 120: should be less than 100",
        ),
        (
            'kind = "ngram"',
            'kind = "ngrm"',
            "audit.toml, line 22, generator[0].kind: unknown generator 'ngrm';"
            " did you mean 'ngram'?",
        ),
        (
            'rule = "random"',
            'rule = "rand"',
            "audit.toml, line 14, pool[1].rule: unknown pool rule 'rand';",
        ),
        (
            "epsilon = [inf, 4]",
            "epsilon = [inf, -1]",
            "audit.toml, line 23, generator[0].epsilon[1]: -1: use a number above 0,"
            ' or "inf" for no privacy',
        ),
        (
            "epsilon = [inf, 4]",
            "epsilon = 0",
            "audit.toml, line 23, generator[0].epsilon[0]: 0: use a number above 0",
        ),
        ("epsilon = [inf, 4]", "epsilon = [4, 4]", "generator[0].epsilon: [4, 4]: name each"),
        (
            "epsilon = [inf, 4]",
            'epsilon = ["four"]',
            "generator[0].epsilon[0]: 'four': should be a valid number",
        ),
        (
            "records = 20",
            "records = 2000",
            "audit.toml, line 19, game.records: 2000 records are wanted for each private set",
        ),
        ("records = 20", "records = 1", "game.records: 1: use a whole number from 2"),
        (
            'match = "outlier"',
            'match = "outlyer"',
            "pool[1]: match = 'outlyer' names no pool above this one; did you mean 'outlier'?",
        ),
        ('match = "outlier"', "", "pool[1]: set either match (a pool's name) or size"),
        ('name = "random"', 'name = "outlier"', "pool[1].name: 'outlier' is already used"),
        ('name = "random"', 'name = "a b"', "pool[1].name: 'a b': use letters, digits"),
        (
            'rule = "outlier"\npercentile = 90',
            'rule = "rare"\nmin_labels = 9',
            "audit.toml, line 7, pool[0]: the pool 'outlier' has 0 records of 120; loosen its rule",
        ),
        (
            'reader = "demo"\nsize = 120',
            'reader = "jsonl"\npath = "gone.jsonl"',
            "gone.jsonl: no such file; check corpus.path",
        ),
        ('reader = "demo"\nsize = 120', 'reader = "jsonl"', "corpus.path: this key is required"),
        ("[game]", "[game", "not valid TOML"),
        (
            "instances = 10",
            'instances = "16"',
            "audit.toml, line 18, game.instances: '16': use a number, without quotation marks",
        ),
        (
            "instances = 10",
            "instances = true",
            "audit.toml, line 18, game.instances: True: use a number, not true or false",
        ),
        ("records = 20", 'records = "20"', "game.records: '20': use a number, without"),
        ("seed = 1", "seed = false", "audit.toml, line 1, seed: False: use a number, not"),
        ("epsilon = [inf, 4]", 'epsilon = [inf, "4"]', "generator[0].epsilon: [inf, '4']: use a"),
        ("epsilon = [inf, 4]", "delta = 2", "generator[0].delta: 2: should be less than 1"),
        ("epsilon = [inf, 4]", 'delta = "1e-5"', "generator[0].delta: '1e-5': use a number"),
        (
            "percentile = 90",
            'percentile = "90"',
            "audit.toml, line 10, pool[0].percentile: '90': use a number, without quotation marks",
        ),
        ("size = 120", "size = true", "audit.toml, line 5, corpus.size: True: use a number, not"),
        (
            '[[generator]]\nkind = "ngram"\nepsilon = [inf, 4]',
            "",
            "generator: this key is required",
        ),
        (
            'kind = "ngram"',
            'kind = "echo"',
            "generator[0].epsilon: 4: the generator 'echo' has no privacy mechanism",
        ),
        (
            'kind = "ngram"',
            'kind = "command"\nargv = ["sh", "{train}", "{out}"]',
            'use "inf", or state with private = true that the program honours epsilon',
        ),
        (
            "[game]",
            '[evidence]\nfamilies = ["cosine"]\n[game]',
            "evidence.families[0]: unknown proxy family 'cosine'",
        ),
        ("[game]", "[evidence]\nfamilies = []\n[game]", "evidence.families: []: name one family"),
        ("seed = 1", f"seed = {'9' * 5000}", "audit.toml: not valid TOML: nested too deeply, or"),
        ("seed = 1", f"seed = 0x{'f' * 5000}", "line 1, seed: the number is too large"),
        ("seed = 1", f"x = {'[' * 5000}", "audit.toml: not valid TOML: nested too deeply, or"),
        ("seed = 1", f"{'a.' * 3000}b = 1", "keys and lists are nested more than 50 deep"),
        ("size = 120", f"size = {'[' * 60}{']' * 60}", "nested more than 50 deep"),
        ("instances = 10", "instances = 1e8", "line 18, game.instances: 100,000,000: the plan of"),
        ("instances = 10", "rounds = 100000000", "game.rounds: 100,000,000: the plan of the pool"),
        ("instances = 10", "references = 100000000", "game.references: 100,000,000: the plan of"),
        ("instances = 10", "release_size = 9000000000", "game.release_size: a release of 9,000"),
        (
            'reader = "demo"\nsize = 120',
            'reader = "jsonl"\npath = "a\\u0000b"',
            "corpus.path: 'a\\x00b': a path cannot hold a NUL",
        ),
        (
            "[game]",
            '[encoders]\npools = "statik"\n[game]',
            "encoders.pools.kind: unknown encoder 'statik'; did you mean 'static'?",
        ),
    ],
)
def test_mistakes(spec_file: Callable[[str], Path], old: str, new: str, expected: str) -> None:
    assert old in GOOD
    line = problem(spec_file(GOOD.replace(old, new)))
    assert expected in line, line


def test_the_good_spec_is_good(spec_file: Callable[[str], Path]) -> None:
    setup = set_up(load_spec(spec_file(GOOD)), MemoryStore())
    assert list(setup.pools) == ["outlier", "random0", "random1", "random2"]
    assert len(setup.cells) == 8


def test_a_missing_spec(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.toml: .*`synthleak init`"):
        load_spec(tmp_path / "none.toml")


def test_a_spec_that_is_not_a_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path, said in (
        (tmp_path / "pipe", "not a regular file"),
        (Path("/dev/zero"), "not a regular file"),
        (tmp_path, "Is a directory"),
        (tmp_path / ("x" * 5000), "too long"),
    ):
        with pytest.raises(UserError, match=said):
            load_spec(path)


def test_epsilon_may_be_a_number_or_inf() -> None:
    content = {
        "corpus": {"reader": "demo"},
        "pool": [{"name": "p", "rule": "outlier"}],
        "generator": [{"kind": "ngram", "epsilon": "inf"}, {"kind": "ngram", "name": "b"}],
    }
    spec = parse_spec(content)
    assert [section.epsilon for section in spec.generator] == [(math.inf,), (math.inf,)]
    assert [section.name for section in spec.generator] == ["ngram", "b"]


def test_a_spec_cannot_be_changed() -> None:
    spec = parse_spec(
        {
            "corpus": {"reader": "demo"},
            "pool": [{"name": "p", "rule": "outlier"}],
            "generator": [{"kind": "echo"}],
        }
    )
    with pytest.raises(ValueError, match="frozen"):
        spec.seed = 4  # type: ignore[misc]
    with pytest.raises(SpecError):
        parse_spec({"corpus": {"reader": "demo"}})


SUBTABLES = """seed = 1
[encoders.pools]
kind = "static"
[encoders.evidence]
kind = "statc"
[[generator]]
kind = "augpe"
[generator.encoder]
kind = "static"
[[generator]]
kind = "dpsgd"
epsilon = [1,
  -2]
"""


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("seed", 1),
        ("encoders.evidence.kind", 5),
        ("encoders.pools.model", 2),
        ("generator[0].kind", 7),
        ("generator[0].encoder.kind", 9),
        ("generator[1].kind", 11),
        ("generator[1].epsilon[1]", 12),
        ("generator[1].nothing", 10),
    ],
)
def test_errors_point_at_keys_of_subtables(key: str, line: int) -> None:
    error = point(SpecError("wrong", key), Path("audit.toml"), SUBTABLES)
    assert str(error) == f"audit.toml, line {line}, {key}: wrong"
