"""The architecture: direction of imports, light public modules, docstrings.

Data passes through the packages from top to bottom, and each imports only itself and those above
it, in code that runs as well as for type checkers:

| package      | what it holds                                                    |
|--------------|------------------------------------------------------------------|
| core         | spec, errors, identity, store, artefact, registry, cell, verdict |
| encoders     | texts to vectors                                                 |
| corpus       | readers and records                                              |
| pools        | the records that are asked about                                 |
| plan         | sets, trials and baselines                                       |
| releases     | generators and claims                                            |
| evidence     | proxies and prior attacks                                        |
| calibration  | evidence to scores                                               |
| metrics      | scores and labels to measurements                                |
| analyses     | measurements to tables                                           |
| report       | results to files, page, figures and comparisons                  |
| audit        | the pipeline that joins all of the above, and its folder         |
| checks       | the audit of a release that already exists                       |
| explanations | why a record scored as it did: opens the releases of an audit    |
| paper        | the study's tables and readers                                   |
| preflight    | what is known before any work starts                             |
| selftest     | audits whose truth is known                                      |
| testing      | contracts for plug-ins of others                                 |
| cli          | the command line                                                 |
| __init__     | the public names                                                 |
| __main__     | python -m synthleak                                              |
"""

from __future__ import annotations

import ast
import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

import synthleak

ROOT = Path(synthleak.__file__).parent
LAYERS = re.findall(r"^\| (\w+) +\| .*\|$", str(__doc__), re.MULTILINE)[1:]
MODULES = sorted(ROOT.rglob("*.py"))
PLUGIN_PAGE = (ROOT.parents[1] / "docs" / "plugins.md").read_text(encoding="utf-8")


def layer(module: str) -> str:
    """Return the layer of a module, or of a name imported from the top."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "__init__"


def imported_layers(tree: ast.Module) -> Iterator[str]:
    """Yield the layer of every synthleak import, those for type checkers included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [str(node.module)]
        elif isinstance(node, ast.Import):
            # The version and the folder of the package are everybody's.
            names = [name.name for name in node.names if name.name != "synthleak"]
        else:
            continue
        yield from (layer(name) for name in names if name.split(".")[0] == "synthleak")


def test_the_table_names_every_package() -> None:
    there = {path.relative_to(ROOT).parts[0].removesuffix(".py") for path in MODULES}
    assert there == set(LAYERS)


def test_contributing_lists_the_packages_in_this_order() -> None:
    text = (ROOT.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^  (\w+)(?:/|\.py) ", text, re.MULTILINE)
    assert listed == [name for name in LAYERS if not name.startswith("__")]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_package_imports_only_earlier_ones(path: Path) -> None:
    package = path.relative_to(ROOT).parts[0].removesuffix(".py")
    later = set(LAYERS[LAYERS.index(package) + 1 :])
    wrong = later & set(imported_layers(ast.parse(path.read_text(encoding="utf-8"))))
    assert not wrong, f"{package} imports {sorted(wrong)}"


LABEL_READERS = {
    "metrics/membership.py",  # where labels meet scores
    "audit/steps/preconditions.py",  # texts alone: the test of the split, and copies
    "audit/steps/disclosures.py",  # texts alone: what releases copy and disclose
    "audit/steps/exposed.py",  # which release held a record that is named already
    "preflight/preview.py",  # counts, before there is a score
    "testing/records.py",  # the contract of a design
}


def test_labels_meet_scores_in_one_file() -> None:
    read = re.compile(r"\b(trials|coins)\.member\b")
    readers = {str(path.relative_to(ROOT)) for path in MODULES if read.search(path.read_text())}
    assert {name for name in readers if not name.startswith("plan/")} <= LABEL_READERS


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


def test_modules_stay_small() -> None:
    lengths = [len(path.read_text(encoding="utf-8").splitlines()) for path in MODULES]
    assert median(lengths) < 200


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_synthleak_loads_nothing_heavy() -> None:
    heavy = ("numpy", "scipy", "sklearn", "pandas", "pyarrow", "torch", "transformers")
    code = f"import sys, synthleak; print([n for n in {heavy} if n in sys.modules])"
    assert run_python(code) == "[]"


def test_listing_plugins_loads_no_torch() -> None:
    code = (
        "import sys; from synthleak.cli.about import REGISTRIES, rows_of;"
        "assert all(rows_of(registry) for registry in REGISTRIES);"
        "print('torch' in sys.modules, 'transformers' in sys.modules)"
    )
    assert run_python(code) == "False False"


def test_public_names_are_sorted_and_exist() -> None:
    assert synthleak.__all__ == sorted(synthleak.__all__)
    assert set(synthleak.__all__) == set(synthleak._HOME)
    assert dir(synthleak) == sorted([*synthleak.__all__, "__version__"])
    for name in synthleak.__all__:
        assert getattr(synthleak, name).__name__ == name
        assert not (ROOT / name).is_dir(), f"the package {name} would hide the function"
    with pytest.raises(AttributeError):
        synthleak.nonsense  # noqa: B018 - the access is the test


PUBLIC = (
    *("analyses", "core.engine", "corpus", "encoders", "evidence", "plan", "pools", "releases"),
    "testing",
)
"""The packages that authors of plug-ins import from."""


@pytest.mark.parametrize("name", ["docs/plugins.md", "CONTRIBUTING.md"])
def test_plugins_are_shown_with_imports_that_stay(name: str) -> None:
    promised = re.search(r"\nImport from (.*?)\.\s+These names stay", PLUGIN_PAGE, re.DOTALL)
    assert promised is not None
    stays = set(re.findall(r"`synthleak\.([\w.]+)`", promised[1]))
    assert stays == {*PUBLIC, "core.seeds", "core.validation"}
    text = (ROOT.parents[1] / name).read_text(encoding="utf-8")
    assert set(re.findall(r"^from synthleak\.([\w.]+) import", text, re.MULTILINE)) <= stays


@pytest.mark.parametrize("name", ["synthleak", *(f"synthleak.{package}" for package in PUBLIC)])
def test_public_functions_document_their_parameters(name: str) -> None:
    module = importlib.import_module(name)
    for public in module.__all__:
        function = getattr(module, public)
        if inspect.isfunction(function) and inspect.signature(function).parameters:
            described = (inspect.getdoc(function) or "").partition("Args:")[2]
            for parameter in inspect.signature(function).parameters:
                assert re.search(rf"^ *\**{parameter}\b.*:", described, re.MULTILINE), (
                    f"{name}.{public}: {parameter}"
                )


def public_methods(name: str) -> Iterator[tuple[str, Any]]:
    """Yield the methods that the public classes of a package define, by name."""
    module = importlib.import_module(name)
    for public in filter(inspect.isclass, map(vars(module).get, module.__all__)):
        for method, function in vars(public).items():
            if inspect.isfunction(function) and not method.startswith("_"):
                yield f"{public.__qualname__}.{method}", function


@pytest.mark.parametrize("name", [f"synthleak.{package}" for package in PUBLIC])
def test_public_methods_document_their_parameters(name: str) -> None:
    for method, function in public_methods(name):
        described = (inspect.getdoc(function) or "").partition("Args:")[2]
        for parameter in list(inspect.signature(function).parameters)[1:]:
            assert re.search(rf"^ *\**{parameter}\b.*:", described, re.MULTILINE), (
                f"{name}: {method}, {parameter}"
            )


def test_help_leads_with_the_three_calls() -> None:
    said = pydoc.plain(pydoc.render_doc(synthleak))
    places = [said.index(call) for call in ("run(spec, out)", "check(members,", "open_run(out)")]
    assert places == sorted(places) and places[-1] < 800
