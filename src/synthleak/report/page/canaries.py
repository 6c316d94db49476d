"""Canaries: what the mechanism does to a worst case, apart from people's records."""

from __future__ import annotations

from dataclasses import dataclass

from synthleak.core.cell import Cell
from synthleak.report.page.material import Material


@dataclass(frozen=True)
class CanaryLine:
    """A cell whose targets were written for the test: its row in `cells`, and its copies."""

    cell: Cell
    place: int
    targets: int
    copies: int


def canaries(material: Material) -> list[CanaryLine]:
    """Return the cells of pools that were written for the test (docs/method.md §13)."""
    pools, places = material.summary["pools"], material.places("cells")
    return [
        CanaryLine(cell, places[cell][0], pools[cell.pool]["written"], pools[cell.pool]["copies"])
        for cell in material.cells
        if "written" in pools.get(cell.pool, {})
    ]
