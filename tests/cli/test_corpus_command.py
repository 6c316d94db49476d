"""`synthleak corpus` and the presets, as a user sees them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.command_line import assert_one_line_mistake, synthleak
from synthleak.audit.stages import build_plugins
from synthleak.cli.before import corpus, init
from synthleak.core.errors import CorpusError, PoolError
from synthleak.core.spec import load_spec

PRESETS = ("psytar", "dmsafn", "n2c2", "eurlex")
SPEC = """
[corpus]
reader = "jsonl"
path = "records.jsonl"
[encoders]
pools = "hashing"
[[pool]]
name = "rare"
rule = "rare"
max_frequency = 9
[[pool]]
name = "old"
rule = "where"
where = "age >= 60"
[[pool]]
name = "random"
rule = "random"
match = "rare"
draws = 2
[[generator]]
kind = "echo"
"""


def records(folder: Path) -> None:
    """Write 80 records, two of them copies, with a rare label on 8."""
    lines = []
    for n in range(80):
        text = f"Patient {n} sleeps badly and counts to {n * n}" if n < 78 else "Patient 1 sleeps"
        labels = ["odd"] if n % 10 == 0 else ["sleep"]
        lines.append(json.dumps({"id": n, "text": text, "labels": labels, "age": n}))
    (folder / "records.jsonl").write_text("\n".join(lines))


def test_json_holds_every_number(tmp_path: Path, spec_file: Callable[[str], Path]) -> None:
    records(tmp_path)
    result = CliRunner().invoke(corpus, [str(spec_file(SPEC)), "--json"])
    assert result.exception is None
    found = json.loads(result.output)
    assert found["statistics"]["records"] == 79
    assert found["statistics"]["duplicates_dropped"] == 1
    assert (found["statistics"]["labels"], found["statistics"]["combinations"]) == (2, 2)
    assert found["combinations"] == [
        {"labels": ["sleep"], "records": 71},
        {"labels": ["odd"], "records": 8},
    ]
    assert found["near_duplicates"]["encoder"] == "hashing"
    assert 0 <= found["near_duplicates"]["records"] <= 79
    sizes = {pool["pool"]: (pool["rule"], pool["targets"]) for pool in found["pools"]}
    assert sizes == {
        "rare": ("rare", 8),
        "old": ("where", 19),
        "random0": ("random", 8),
        "random1": ("random", 8),
    }
    shared = {(o["pool"], o["other"]): o["shared"] for o in found["overlaps"]}
    assert shared["rare", "old"] == 2
    assert shared["random0", "random1"] == 0
    assert "sleeps badly" not in result.output


def test_table_shows_the_same_numbers(tmp_path: Path, spec_file: Callable[[str], Path]) -> None:
    records(tmp_path)
    result = CliRunner().invoke(corpus, [str(spec_file(SPEC))])
    assert result.exception is None
    for words in ("records", "79", "near-duplicates", "tokenizer of the encoder static", "random1"):
        assert words in result.output
    assert "sleeps badly" not in result.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["audit.toml", "records.jsonl"]


def test_near_duplicates_are_skipped_in_a_huge_corpus(
    tmp_path: Path, spec_file: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    records(tmp_path)
    monkeypatch.setattr("synthleak.preflight.preview.MOST_COMPARED", 10)
    path = spec_file(SPEC)
    assert "not looked for" in CliRunner().invoke(corpus, [str(path)]).output
    found = json.loads(CliRunner().invoke(corpus, [str(path), "--json"]).output)
    assert found["near_duplicates"]["records"] is None


def test_a_mistake_is_pointed_at_in_the_spec(
    tmp_path: Path, spec_file: Callable[[str], Path]
) -> None:
    records(tmp_path)
    path = spec_file(SPEC.replace("age >= 60", "age >= 600"))
    result = CliRunner().invoke(corpus, [str(path)])
    assert isinstance(result.exception, PoolError)
    said = str(result.exception)
    assert said.startswith(f"{path}, line 11, pool[1]: no record satisfies where = 'age >= 600'")
    assert said.endswith("age is from 0 to 78")
    assert result.output == ""


def test_a_broken_file_exits_with_code_2(tmp_path: Path, spec_file: Callable[[str], Path]) -> None:
    (tmp_path / "records.jsonl.gz").write_bytes(gzip.compress(b'{"text": "secret"}\n' * 50)[:30])
    path = spec_file(SPEC.replace("records.jsonl", "records.jsonl.gz"))
    done = synthleak("corpus", path, cwd=tmp_path)
    assert_one_line_mistake(done, "the gzip file is broken")
    assert "secret" not in done.stderr


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_a_whole_spec(tmp_path: Path, preset: str) -> None:
    path = tmp_path / "audit.toml"
    result = CliRunner().invoke(init, [str(path), "--preset", preset])
    assert result.exception is None
    loaded = load_spec(path)
    plugins = build_plugins(loaded)
    assert plugins.pool_encoder.kind == "sentence-transformers"
    assert loaded.spec.corpus.name == preset
    rules = {order.name: order.rule.model_dump() for order in plugins.orders}
    assert rules["random"]["draws"] == 3
    wanted = {
        "psytar": (99, 10, {"max_frequency": 10}),
        "dmsafn": (99, 3, None),
        "n2c2": (97, 3, {"min_labels": 8}),
        "eurlex": (99, None, {"max_frequency": 3}),
    }
    percentile, lof, rare = wanted[preset]
    assert (rules["outlier"]["percentile"], rules["outlier"]["lof"]) == (percentile, lof)
    assert ("rare" in rules) == (rare is not None)
    if rare is not None:
        assert {key: rules["rare"][key] for key in rare} == rare


def test_a_preset_names_its_missing_file(tmp_path: Path) -> None:
    path = tmp_path / "audit.toml"
    CliRunner().invoke(init, [str(path), "--preset", "dmsafn"])
    result = CliRunner().invoke(corpus, [str(path)])
    assert isinstance(result.exception, CorpusError)
    assert "all-data.csv: no such file; check corpus.path" in str(result.exception)
