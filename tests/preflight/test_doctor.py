"""`synthleak doctor`: what is installed, what is missing, and how to install it."""

from __future__ import annotations

import builtins
import importlib.util
import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from synthleak.cli.about import doctor
from synthleak.preflight import doctor as machine


def examine() -> dict[str, Any]:
    result = CliRunner().invoke(doctor, ["--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


def test_doctor_lists_machine_packages_and_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_cores", lambda: 7)
    monkeypatch.setattr(machine.shutil, "disk_usage", lambda path: SimpleNamespace(free=5 << 30))
    found = examine()
    assert found["machine"]["cores"] == 7
    assert found["machine"]["disk_free_gib"] == 5.0
    packages = {row["package"]: row for row in found["packages"]}
    assert packages["numpy"]["state"] == "ok" and packages["numpy"]["remedy"] == ""
    assert packages["numpy"]["version"].count(".") == 2
    assert found["device"]["device"] in ("cpu", "cuda")
    assert "dev" in {row["extra"] for row in found["extras"]}


class Extras:
    """The metadata of a package with one extra."""

    def get_all(self, name: str) -> list[str]:
        return {"Provides-Extra": ["pads"]}[name]


def test_what_is_missing_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["numpy>=1.26", "left-pad>=2; extra == 'pads'", "click>=99 ; extra == 'pads'", "gone"]
    versions = {"numpy": "1.26.0rc1", "click": "8.1.7"}

    def version(name: str) -> str:
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr(machine, "requires", lambda name: lines)
    monkeypatch.setattr(machine, "version", version)
    monkeypatch.setattr(machine, "metadata", lambda name: Extras())
    found = examine()
    packages = {row["package"]: (row["state"], row["remedy"]) for row in found["packages"]}
    assert packages == {
        "numpy": ("wrong version", "pip install 'numpy>=1.26'"),
        "gone": ("missing", "pip install 'gone'"),
    }
    (pads,) = found["extras"]
    assert (pads["state"], pads["remedy"]) == ("missing", "pip install 'synthleak[pads]'")
    text = CliRunner().invoke(doctor, []).output
    assert "install or update: numpy, gone" in text


def test_torch_is_not_imported_unless_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    find, load = importlib.util.find_spec, builtins.__import__

    def hide(name: str, *rest: Any) -> Any:
        return None if name == "torch" else find(name, *rest)

    def refuse(name: str, *rest: Any, **more: Any) -> Any:
        assert name.partition(".")[0] != "torch"
        return load(name, *rest, **more)

    monkeypatch.setattr(importlib.util, "find_spec", hide)
    monkeypatch.setattr(builtins, "__import__", refuse)
    device = machine.device()
    assert device["device"] == "cpu" and device["remedy"] == "pip install torch"


def test_doctor_lists_a_broken_plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "guest-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: guest\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[synthleak.plugins]\nodd = guest_module\n")
    monkeypatch.syspath_prepend(tmp_path)
    (row,) = examine()["plugins"]
    assert row["package"] == "guest" and "No module named 'guest_module'" in row["state"]
    assert row["remedy"] == "update it, or pip uninstall guest"
