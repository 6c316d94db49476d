"""Tiny audits that every room's tests may use."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from synthleak.spec import LoadedSpec, parse_spec


def tiny_spec(**changes: Any) -> dict[str, Any]:
    """Return a spec that runs in a second or two."""
    spec: dict[str, Any] = {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 160},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "outlier", "rule": "outlier", "percentile": 92}],
        "game": {"instances": 12, "records": 30, "rounds": 4, "candidates": 5},
        "generator": [{"kind": "ngram", "epsilon": [float("inf"), 2]}],
        "evidence": {"families": ["cos", "bigram_logprob"]},
        "prior": [],
    }
    return spec | changes


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
