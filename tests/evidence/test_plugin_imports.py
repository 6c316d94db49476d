"""Plug-in authors import from the packages, and that loads nothing heavy."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORTS = {
    "evidence": "family, attacks, Attack, Arm, Observation, Targets, TextSet, Floats",
    "pools": "rules, Rule, Filter, Ground",
    "releases": "generators, Generator, Request, Synthetic",
    "corpus": "readers, Reader, Record",
    "analyses": "analysis, Study, Unavailable",
    "encoders": "encoders, Encoder, Vectors",
    "plan": "designs, Design, Plan, Trials, RecordSet, draw_plan",
}


@pytest.mark.parametrize("package", IMPORTS)
def test_packages_export_plugin_types_without_heavy_imports(package: str) -> None:
    code = (
        f"import sys; from synthleak.{package} import {IMPORTS[package]};"
        "print([m for m in ('torch', 'transformers', 'sklearn', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", IMPORTS)
def test_exports_survive_the_built_in_plugins(package: str) -> None:
    """A subpackage of the same name would replace an export once it is imported."""
    code = (
        "from synthleak.cli.about import REGISTRIES, rows_of;"
        "[rows_of(registry) for registry in REGISTRIES];"
        f"import types; import synthleak.{package} as p;"
        "print([n for n in p.__all__ if isinstance(getattr(p, n), types.ModuleType)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
