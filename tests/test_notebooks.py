"""The notebooks run, and what they show is what they give today."""

from __future__ import annotations

import math
import os
import re
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[1] / "docs"
NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


@pytest.fixture
def one_core() -> Iterator[None]:
    """Let the kernel work alone: starting workers would cost more than they save."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    yield
    os.sched_setaffinity(0, before)


def shown(notebook: Any) -> list[str]:
    """Return what every cell with code shows, as text."""
    return [
        "".join(part.get("text") or part["data"]["text/plain"] for part in cell.outputs)
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


def test_both_notebooks_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["audit-a-generator", "check-a-release"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.usefixtures("one_core")
def test_a_notebook_shows_what_it_gives(path: Path) -> None:
    pytest.importorskip("nbclient", reason="needs the extra dev: nbclient")
    nbformat = pytest.importorskip("nbformat", reason="needs the extra dev: nbclient")
    kept = shown(nbformat.read(path, as_version=4))
    made = shown(runpy.run_path(str(DOCS / "make_notebooks.py"))["executed"](path))
    assert any(kept), "run `make docs`"
    for old, new in zip(kept, made, strict=True):
        words = [" ".join(NUMBER.sub("#", text).split()) for text in (old, new)]
        assert words[0] == words[1], "run `make docs`"
        for was, now in zip(NUMBER.findall(old), NUMBER.findall(new), strict=True):
            assert math.isclose(float(was), float(now), abs_tol=0.02), "run `make docs`"
