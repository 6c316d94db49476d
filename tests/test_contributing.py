"""The recipes of CONTRIBUTING.md: each is pasted as the text says, and works without a change."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.examples import plain_text
from support.specs import tiny_spec
from synthleak import run
from synthleak.analyses import analyses
from synthleak.core.registry import Registry, read_files, use_files
from synthleak.core.runtime import Runtime
from synthleak.core.spec import dump_toml, load_spec
from synthleak.corpus import readers
from synthleak.encoders import encoders
from synthleak.evidence import families
from synthleak.pools import rules
from synthleak.releases import generators
from synthleak.testing import (
    check_analysis,
    check_encoder,
    check_family,
    check_generator,
    check_reader,
    check_rule,
)

ROOT = Path(__file__).parents[1]
RECIPE = re.compile(
    r"^## Add an? (?P<kind>[\w ]+)\n.*?Folder:\s+`(?P<folder>[^`]+)`\n\n"
    r"```python\n(?P<code>.*?)^```",
    re.DOTALL | re.MULTILINE,
)
TESTS = (
    *("tests/core/test_registry.py", "tests/test_architecture.py", "tests/test_stored_keys.py"),
    *("tests/test_method_page.py", "tests/evidence/test_catalogue.py"),
)
"""The tests that look at every plug-in."""
NAME = re.compile(r'^@[\w.]+\(\s*"(?P<name>\w+)"', re.MULTILINE)
KINDS: dict[str, tuple[Registry[Any], Any]] = {
    "proxy": (families, check_family),
    "generator": (generators, check_generator),
    "pool rule": (rules, check_rule),
    "encoder": (encoders, check_encoder),
    "reader": (readers, check_reader),
    "analysis": (analyses, check_analysis),
}


@dataclass(frozen=True)
class Recipe:
    """A file of CONTRIBUTING.md and the folder that it names."""

    kind: str
    folder: str
    name: str
    code: str


def recipes() -> dict[str, Recipe]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = {}
    for match in RECIPE.finditer(text):
        name = NAME.search(match["code"])
        assert name is not None, match["kind"]
        found[match["kind"]] = Recipe(match["kind"], match["folder"], name["name"], match["code"])
    return found


RECIPES = recipes()


@pytest.fixture
def pasted(tmp_path: Path) -> Iterator[Path]:
    """A folder with each recipe in a file of its own, as plug-ins next to a spec."""
    for recipe in RECIPES.values():
        (tmp_path / f"{recipe.name}.py").write_text(recipe.code, encoding="utf-8")
    yield tmp_path
    use_files([])


def test_every_kind_has_a_recipe() -> None:
    assert set(RECIPES) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_recipe_passes_its_contract_as_a_plugin_file(kind: str, pasted: Path) -> None:
    recipe, (registry, check) = RECIPES[kind], KINDS[kind]
    use_files(read_files([f"{recipe.name}.py"], pasted, "plugins"))
    plugin = registry.get(recipe.name).plugin
    if isinstance(plugin, type):
        plugin = plugin(**(plain_text(pasted) if kind == "reader" else {}))
    check(plugin)


def test_an_audit_runs_with_all_recipes(pasted: Path) -> None:
    lines = (f"patient {i} of {i % 7} took {i * i} pills {'again ' * (i % 30)}" for i in range(120))
    (pasted / "records.txt").write_text("\n\n".join(lines), encoding="utf-8")
    names = {kind: recipe.name for kind, recipe in RECIPES.items()}
    spec = tiny_spec(
        plugins=[f"{name}.py" for name in names.values()],
        corpus={"reader": names["reader"], "path": "records.txt"},
        encoders={"pools": names["encoder"], "evidence": names["encoder"]},
        pool=[{"name": "long", "rule": names["pool rule"], "size": 8}],
        generator=[{"kind": names["generator"]}],
        evidence={"families": [names["proxy"], "cos"]},
    )
    path = pasted / "audit.toml"
    path.write_text(dump_toml(spec), encoding="utf-8")
    audit = run(load_spec(path), pasted / "run", runtime=Runtime(workers=1))
    assert {row.proxy for row in audit.proxies} >= {"length_match", "cos_max"}
    table = (pasted / "run" / "results" / f"{names['analysis']}.csv").read_text(encoding="utf-8")
    assert table.startswith("pool,proxy,auc\nlong,")


def test_recipes_pass_the_project_tests_in_the_package(tmp_path: Path) -> None:
    """Paste every file into the folder that its recipe names, in a copy of the project."""
    for name in ("src", "tests", "docs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for recipe in RECIPES.values():
        path = tmp_path / recipe.folder / f"{recipe.name}.py"
        assert path.parent.is_dir() and not path.exists()
        path.write_text(recipe.code, encoding="utf-8")
    names = (recipe.name for recipe in RECIPES.values())
    chosen = " or ".join([*names, "catalogue", "stored", "method_page"])
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "src")}
    for words in (
        ["-m", "ruff", "check", "-q", "src/synthleak"],
        ["-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, "-k", chosen],
    ):
        done = subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "skipped" not in done.stdout
