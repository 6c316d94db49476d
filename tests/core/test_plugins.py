"""Plug-ins from single files and other packages: they are listed, they run, they are refused."""

from __future__ import annotations

import importlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from support.command_line import assert_one_line_mistake, synthleak
from support.specs import tiny_spec
from synthleak import Audit, open_run, run
from synthleak.audit.stages import set_up
from synthleak.cli.about import rows_of
from synthleak.core.errors import ContractError, SpecError, StoreError, UserError
from synthleak.core.registry import GROUP, PluginFile, load_installed, read_files, use_files
from synthleak.core.runtime import Runtime
from synthleak.core.spec import dump_toml, load_spec
from synthleak.core.store import MemoryStore
from synthleak.evidence import Attack, families
from synthleak.evidence.attack import observe
from synthleak.releases import generators

EVERY_KIND = '''
"""A plug-in of every kind."""

from dataclasses import dataclass

import numpy as np
from synthleak.analyses.analysis import analysis
from synthleak.corpus.corpus import Reader, Record, readers
from synthleak.encoders.encoder import Encoder, encoders
from synthleak.evidence.family import family
from synthleak.plan.lone import Lone
from synthleak.plan.plan import designs
from synthleak.pools import Rule, rules
from synthleak.releases import Generator, Synthetic, generators


@readers.register("my-reader", version=1)
class MyReader(Reader):
    """Numbered sentences."""

    def read(self):
        for i in range(90):
            yield Record(str(i), f"record {i} of site {i % 7} weighs {i * i} stones", (str(i % 3),))


@encoders.register("my-encoder", version=1)
class MyEncoder(Encoder):
    """Length and last digit."""

    def encode(self, texts):
        rows = [[len(t), sum(map(ord, t)) % 97] for t in texts]
        return np.array(rows, dtype=np.float32).reshape(-1, 2)


@rules.register("my-rule", version=1)
class MyRule(Rule):
    """Every ninth record."""

    def select(self, ground):
        return list(range(0, len(ground.corpus), 9))


@generators.register("my-generator", version=3)
class MyGenerator(Generator):
    """Private records in capitals, in a seeded order."""

    def generate(self, request):
        from synthleak.core.seeds import stream

        order = stream(request.seed, "mine").permutation(len(request.records))[: request.size]
        return [Synthetic(request.records[i].text.upper()) for i in order]


@family("my_family", version=1, view="lexical", scale="ratio", proxies={"my_proxy": "same length"})
def my_family(targets, observation):
    """Whether a text of the observation is as long as the target."""
    lengths = {len(text) for text in observation.folded}
    return np.array([[float(len(text) in lengths)] for text in targets.folded])


@designs.place("my-design", version=1)
class MyDesign(Lone):
    """The paper's game under another name."""


@dataclass(frozen=True)
class MyRow:
    """The strongest figure of a pool."""

    pool: str
    auc: float


@analysis("my_analysis", version=1, row=MyRow)
def my_analysis(study):
    """The strongest figure of each pool."""
    pools = dict.fromkeys(row.pool for row in study.cells)
    return [MyRow(p, max(row.auc for row in study.cells if row.pool == p)) for p in pools]
'''

MINE = {
    "plugins": ["mine.py"],
    "corpus": {"reader": "my-reader"},
    "encoders": {"pools": "my-encoder", "evidence": "my-encoder"},
    "pool": [{"name": "ninth", "rule": "my-rule"}],
    "game": {"design": "my-design", "instances": 6, "records": 30, "rounds": 3, "candidates": 5},
    "generator": [{"kind": "my-generator"}],
    "evidence": {"families": ["my_family", "cos"]},
}
Write = Callable[[str], Path]


@pytest.fixture
def audit_file(tmp_path: Path) -> Write:
    """Write a plug-in file, and beside it a spec that names a plug-in of every kind in it."""

    def write(code: str) -> Path:
        (tmp_path / "mine.py").write_text(code, encoding="utf-8")
        (tmp_path / "audit.toml").write_text(dump_toml(tiny_spec(**MINE)), encoding="utf-8")
        return tmp_path / "audit.toml"

    return write


@pytest.fixture(autouse=True)
def no_plugin_files() -> Iterator[None]:
    yield
    use_files([])


def run_it(spec: Path, out: str = "run", workers: int = 1) -> Audit:
    return run(spec, spec.parent / out, runtime=Runtime(workers=workers))


def test_plugins_of_every_kind_run_from_a_file(
    audit_file: Write,
) -> None:
    spec = audit_file(EVERY_KIND)
    one = run_it(spec, "one")
    two = run_it(spec, "two", workers=2)
    assert one.cells == two.cells
    assert {row.proxy for row in one.proxies} >= {"my_proxy", "cos_max"}
    table = (spec.parent / "two/results/my_analysis.csv").read_text(encoding="utf-8")
    assert table == f"pool,auc\nninth,{max(row.auc for row in two.cells)!r}\n"
    again = open_run(spec.parent / "one", trust_plugins=True)
    assert again.cells == one.cells


def test_every_kind_is_listed_with_its_file(audit_file: Write) -> None:
    spec = audit_file(EVERY_KIND)
    for registry, name in {
        "readers": "my-reader",
        "encoders": "my-encoder",
        "pools": "my-rule",
        "designs": "my-design",
        "generators": "my-generator",
        "proxies": "my_proxy",
        "analyses": "my_analysis",
    }.items():
        done = synthleak("list", registry, "--plugins", "mine.py", "--json", cwd=spec.parent)
        rows = {row["name"]: row for row in json.loads(done.stdout)}
        assert rows[name]["from"] == "mine.py"
        assert [row["from"] for row in rows.values()].count("mine.py") == 1


def test_an_edited_file_is_another_plugin(audit_file: Write) -> None:
    spec = audit_file(EVERY_KIND)
    run_it(spec)
    assert run_it(spec).cells
    audit_file(EVERY_KIND.replace(".upper()", ".lower()"))
    with pytest.raises(StoreError, match=r"belongs to another spec.*my-generator\.version was 3\+"):
        run_it(spec)


def test_plugin_files_are_unloaded_for_the_next_audit(audit_file: Write) -> None:
    spec = audit_file(EVERY_KIND)
    before = [entry.name for entry in families]
    set_up(load_spec(spec), MemoryStore())
    assert [entry.name for entry in families] == [*before, "my_family"]
    plain = spec.with_name("plain.toml")
    plain.write_text(dump_toml(tiny_spec()), encoding="utf-8")
    setup = set_up(load_spec(plain), MemoryStore())
    assert [entry.name for entry in families] == before
    assert "my-generator" not in generators.names()
    assert [member.name for member in setup.plugins.families] != []


def test_plugin_names_are_unique_within_an_audit(tmp_path: Path) -> None:
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(f"# {name}\n{EVERY_KIND}", encoding="utf-8")
    one, two = read_files(["a.py", "b.py"], tmp_path, "plugins")
    use_files([one])
    use_files([two])
    with pytest.raises(
        SpecError, match=r"plugins\[1\]: b\.py: two plug-ins are called 'my-reader'"
    ):
        use_files([one, two])


def test_setup_carries_its_plugin_files(audit_file: Write) -> None:
    spec = audit_file(EVERY_KIND)
    packed = pickle.dumps(set_up(load_spec(spec), MemoryStore()))
    (spec.parent / "mine.py").unlink()
    code = (
        "import pickle, sys; from synthleak.audit.setup import encoding;"
        "setup = pickle.loads(sys.stdin.buffer.read());"
        "print(setup.plugins.generators[0][1].identity(), encoding(setup)(['abc']).shape)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=packed, capture_output=True, check=True
    )
    assert "my-generator" in done.stdout.decode() and "(1, 2)" in done.stdout.decode()


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("x = (\n", r"plugins\[0\]: mine\.py, line 1: not valid Python \('\(' was never closed\)"),
        ("x = 1\n", r"mine\.py: .*docs/plugins\.md"),
        ("\n1 / 0\n", r"mine\.py, line 2: ZeroDivisionError: division by zero"),
        ("import no_such_thing\n", r"line 1: ModuleNotFoundError: No module named"),
        ("raise SystemExit(3)\n", r"line 1: SystemExit: 3"),
        ("\x00", r"mine\.py.*: (not valid Python|ValueError)"),
        (
            EVERY_KIND.replace("my-generator", "echo"),
            r"two plug-ins are called 'echo': synthleak\.releases\.generators\.echo and .*mine\.py;"
            " give it another name",
        ),
        (
            EVERY_KIND.replace('    """Every ninth record."""\n', ""),
            r"ContractError: pool rule 'my-rule' has no docstring",
        ),
    ],
)
def test_a_bad_plugin_file_names_its_line(audit_file: Write, code: str, expected: str) -> None:
    spec = audit_file(code)
    with pytest.raises(SpecError, match=expected) as caught:
        run_it(spec)
    lines = spec.read_text(encoding="utf-8").splitlines()
    line = next(n for n, text in enumerate(lines, start=1) if text.startswith("plugins = "))
    assert str(caught.value).startswith(f"{spec}, line {line}, plugins[0]: ")
    assert "\n" not in str(caught.value)
    assert not (spec.parent / "run").exists()
    assert "my-rule" not in [row["name"] for row in rows_of("pools")]


def test_a_missing_plugin_file_is_named(audit_file: Write) -> None:
    spec = audit_file(EVERY_KIND)
    (spec.parent / "mine.py").unlink()
    with pytest.raises(SpecError, match=r"plugins\[0\]: mine\.py: cannot be read \(No such file"):
        run_it(spec)


def test_what_a_file_merely_imports_is_not_its_own() -> None:
    code = b"from synthleak.releases.generators.echo import Echo\n" + EVERY_KIND.encode()
    use_files([PluginFile(Path("mine.py"), code)])
    entries = {entry.name: entry for entry in generators}
    assert entries["echo"].built_in and entries["echo"].version == 1
    assert str(entries["my-generator"].version).startswith("3+")


PACKAGE = {
    "guest.py": EVERY_KIND,
    "guest-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n",
    "guest-1.0.dist-info/entry_points.txt": f"[{GROUP}]\nguest = guest\n",
}


@pytest.fixture
def guest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package that announces plug-ins, installed as pip would."""
    site = tmp_path / "site"
    for name, text in PACKAGE.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(site)
    monkeypatch.setenv("PYTHONPATH", str(site))
    importlib.invalidate_caches()
    load_installed.cache_clear()
    yield site
    from synthleak.core.registry import REGISTRIES

    for registry in REGISTRIES:
        registry.drop(["guest"])
    sys.modules.pop("guest", None)
    load_installed.cache_clear()


def test_plugins_of_every_kind_run_from_a_package(guest: Path, tmp_path: Path) -> None:
    spec = tmp_path / "audit.toml"
    spec.write_text(dump_toml(tiny_spec(**{**MINE, "plugins": []})), encoding="utf-8")
    run_it(spec, "one")
    # Workers of this process may have been started before the package was installed.
    words = ["run", "audit.toml", "--out", "two", "--workers", "2", "--quiet"]
    subprocess.run([sys.executable, "-m", "synthleak", *words], check=True, cwd=tmp_path)
    one, two = ((tmp_path / out / "results/cells.csv").read_bytes() for out in ("one", "two"))
    assert one == two
    assert {row["from"] for row in rows_of("generators")} == {"synthleak", "guest"}
    assert next(e for e in generators if e.name == "my-generator").version == 3


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("import no_such_thing", "ModuleNotFoundError"),
        (EVERY_KIND.replace("my-generator", "ngram"), "ContractError: two plug-ins are called"),
    ],
)
def test_a_broken_package_is_named(guest: Path, code: str, reason: str) -> None:
    (guest / "guest.py").write_text(code, encoding="utf-8")
    with pytest.raises(
        UserError,
        match=rf"package guest: the plug-in 'guest' cannot be loaded \({reason}.*uninstall",
    ):
        generators.names()


NONSENSE = '"nonsense"'
RETURNS = {
    "reader 'my-reader'": 'yield Record(str(i), f"record',
    "encoder 'my-encoder'": "return np.array(rows",
    "pool rule 'my-rule'": "return list(range(0",
    "generator 'my-generator'": "return [Synthetic(",
    "family 'my_family'": "return np.array([[",
    "analysis 'my_analysis'": "return [MyRow(",
}
"""How the line begins with which a plug-in of each kind ends."""


def ending(title: str, statement: str) -> str:
    """Return the plug-ins of every kind, one of which ends otherwise."""
    line = next(line for line in EVERY_KIND.splitlines() if RETURNS[title] in line)
    indent = line[: len(line) - len(line.lstrip())]
    return EVERY_KIND.replace(line, indent + statement)


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("title", RETURNS)
def test_a_plugin_that_raises_is_named_with_its_kind(
    audit_file: Write, title: str, workers: str
) -> None:
    code = ending(title, 'raise ZeroDivisionError("a private text")')
    line = code.splitlines().index(next(x for x in code.splitlines() if "a private" in x)) + 1
    home = audit_file(code).parent
    words = ("run", "audit.toml", "--out", "run", "--workers", workers, "--quiet")
    done = synthleak(*words, cwd=home)
    place = f"the {title} of the plug-in {home / 'mine.py'}, line {line}: ZeroDivisionError"
    assert_one_line_mistake(done, place)
    assert "private" not in done.stderr


@pytest.mark.parametrize("result", ["None", "7", NONSENSE, "[None, None]", "[[float('nan')]]"])
@pytest.mark.parametrize("title", RETURNS)
def test_a_plugin_that_returns_nonsense_is_named(
    audit_file: Write, title: str, result: str
) -> None:
    word = "yield" if title.startswith("reader") else "return"
    spec = audit_file(ending(title, f"{word} {result}"))
    with pytest.raises(ContractError, match=title.partition(" ")[2].removeprefix("rule ")):
        run_it(spec)


def test_a_prior_attack_that_raises_is_named(audit_file: Write) -> None:
    class Broken(Attack):
        """Raises."""

        arms, columns = (), 1

        def look(self, targets: Any, observation: Any, references: Any) -> Any:
            raise KeyError("a private text")

    Broken.kind = "broken"
    with pytest.raises(ContractError, match=r"the prior attack 'broken' of .*, line \d+: KeyError"):
        observe(Broken(), [], None, None)  # type: ignore[arg-type]


def test_a_package_whose_plugin_raises_is_named(guest: Path, tmp_path: Path) -> None:
    code = ending("generator 'my-generator'", "raise ZeroDivisionError")
    (guest / "guest.py").write_text(code, encoding="utf-8")
    spec = tmp_path / "audit.toml"
    spec.write_text(dump_toml(tiny_spec(**{**MINE, "plugins": []})), encoding="utf-8")
    words = [sys.executable, "-m", "synthleak", "run", "audit.toml", "--out", "run", "--quiet"]
    done = subprocess.run(
        [*words, "--workers", "2"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [guest, *sys.path]))},
    )
    assert_one_line_mistake(done, f"the generator 'my-generator' of the plug-in {guest}/guest.py")


def test_a_plugin_without_its_method_is_named(audit_file: Write) -> None:
    code = EVERY_KIND.replace("def generate(self", "def generale(self")
    with pytest.raises(ContractError, match="'my-generator' does not define generate"):
        run_it(audit_file(code))
