"""A machine without a package index gets everything that a slice imports."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from support.scripts import script

ROOT = Path(__file__).parents[2]
NOT_IMPORTED = {"vl-convert-python"}
"""Draws figures, which no slice does."""


def test_every_dependency_of_the_core_travels_or_is_said_to_be_there() -> None:
    offline = script("offline")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {canonicalize_name(Requirement(text).name) for text in project["dependencies"]}
    carried = {name for group in offline.TOGETHER for name in group} | set(offline.FILES)
    there = {canonicalize_name(name) for name in carried | set(offline.ASSUMED)}
    assert needed - there == NOT_IMPORTED


def test_a_folder_of_an_earlier_version_is_refused_before_anything_is_unpacked(
    tmp_path: Path,
) -> None:
    offline = script("offline")
    wheels = tmp_path / "carry/1/wheels"
    wheels.mkdir(parents=True)
    for name in (name for group in offline.TOGETHER for name in group if name != "tomli-w"):
        (wheels / f"{name.replace('-', '_')}-1.0-py3-none-any.whl").write_bytes(b"")
    with pytest.raises(SystemExit, match="tomli_w is not among the wheels; collect again"):
        offline.main(["install", str(tmp_path / "carry/1"), "--to", str(tmp_path / "site")])
    assert not list((tmp_path / "site").iterdir())
