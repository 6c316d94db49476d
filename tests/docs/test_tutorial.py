"""The tutorial: every command prints what the page shows."""

from __future__ import annotations

from pathlib import Path

from support.doc_blocks import Reader, follow

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_tutorial_prints_what_it_shows(folder: Path) -> None:
    follow(PAGE, Reader(folder))
