"""The house keeps its shape: direction of imports, light doors, docstrings."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import pytest

import synthleak

ROOT = Path(synthleak.__file__).parent
LAYERS = [
    "core",
    "encoders",
    "corpus",
    "pools",
    "plan",
    "releases",
    "evidence",
    "calibration",
    "metrics",
    "analyses",
    "report",
    "paper",
    "audit",
    "checks",
    "preflight",
    "selftest",
    "testing",
    "cli",
]
"""Packages in the order in which data passes through them: each imports only earlier ones."""
FORWARD = {("audit", "checks"), ("corpus", "paper")}
"""Imports against the order, each with its reason: an audit runs the checks of its files."""
MODULES = sorted(ROOT.rglob("*.py"))


def imported_packages(tree: ast.Module) -> Iterator[str]:
    """Yield the first part of every synthleak import that runs (not those for type checkers)."""
    typing_only = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if id(node) in typing_only:
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("synthleak."):
            yield str(node.module).split(".")[1]
        elif isinstance(node, ast.Import):
            for name in node.names:
                if name.name.startswith("synthleak."):
                    yield name.name.split(".")[1]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_package_imports_only_earlier_ones(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if package.startswith("__"):
        return
    imports = set(imported_packages(ast.parse(path.read_text(encoding="utf-8"))))
    allowed = set(LAYERS[: LAYERS.index(package) + 1])
    allowed |= {later for earlier, later in FORWARD if earlier == package}
    assert imports <= allowed, f"{package} imports {sorted(imports - allowed)}"


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_modules_stay_small() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES]
    assert median(lengths) < 200


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_synthleak_takes_under_a_second_and_loads_nothing_heavy() -> None:
    code = (
        "import sys, time; start = time.perf_counter(); import synthleak;"
        "print(time.perf_counter() - start < 1, 'numpy' in sys.modules, 'sklearn' in sys.modules)"
    )
    assert run_python(code) == "True False False"


def test_listing_the_shelves_loads_no_torch() -> None:
    code = (
        "import sys; from synthleak.cli.listing import REGISTRIES, rows_of;"
        "assert all(rows_of(registry) for registry in REGISTRIES);"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    assert run_python(code) == "False False"


def test_public_names_are_sorted_and_there() -> None:
    assert synthleak.__all__ == sorted(synthleak.__all__)
    assert set(synthleak.__all__) == set(synthleak._HOME)
    for name in synthleak.__all__:
        assert getattr(synthleak, name).__name__ == name
    with pytest.raises(AttributeError):
        synthleak.nonsense  # noqa: B018 - the access is the test


def test_the_catalogue_says_what_stands_on_the_shelves() -> None:
    docs = ROOT.parents[1] / "docs"
    asked = [
        sys.executable,
        "-c",
        "import make_catalogue; print(make_catalogue.catalogue(), end='')",
    ]
    made = subprocess.run(asked, cwd=docs, check=True, capture_output=True).stdout.decode()
    assert made == (docs / "catalogue.md").read_text(encoding="utf-8"), "run `make docs`"
