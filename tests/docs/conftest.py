"""The folder that a reader of a page works in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from synthleak.core.registry import use_files


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the folder that a reader works in."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("click.launch", lambda *_: 0)  # no browser is opened
    yield tmp_path
    use_files([])
