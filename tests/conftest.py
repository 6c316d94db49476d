"""Tiny audits that all tests may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.specs import tiny_spec
from synthleak.core.spec import LoadedSpec, parse_spec

os.environ.pop("COLUMNS", None)  # the width that a test runner sets would break tables
os.environ["SYNTHLEAK_CACHE"] = "none"  # tests leave nothing in the user's cache
os.environ["HF_HUB_OFFLINE"] = "1"  # a model that is not here is missing at once, not after retries


@pytest.fixture
def tiny() -> Callable[..., LoadedSpec]:
    """Make a tiny spec, with some sections replaced."""

    def make(**changes: Any) -> LoadedSpec:
        return LoadedSpec(parse_spec(tiny_spec(**changes)))

    return make


@pytest.fixture
def spec_file(tmp_path: Path) -> Callable[[str], Path]:
    """Write a spec file and return its path."""

    def write(text: str) -> Path:
        path = tmp_path / "audit.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return write
