"""All figures of an audit: those of each cell, and those of the study as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synthleak.analyses.cells import Cell
from synthleak.analyses.prior import is_of
from synthleak.report.figures.figure import Figure
from synthleak.report.figures.proxies import proxies_figure, scenarios_figure
from synthleak.report.figures.roc import roc_figures

if TYPE_CHECKING:
    from synthleak.analyses.analysis import Study
    from synthleak.audit import Audit


def cell_figures(audit: Audit, cell: Cell) -> list[Figure]:
    """Return the figures of one cell, in the order in which a reader wants them."""
    rows = [row for row in audit.cells if is_of(row, cell)]
    proxies = [
        row
        for row in audit.proxies
        if Cell(row.corpus, row.pool, row.generator, row.epsilon) == cell
    ]
    curves, claim = audit.curves(cell), audit.claim(cell)
    adjacency = audit.bench.plans[cell.pool].adjacency
    return [
        *roc_figures(cell, curves, rows, claim, adjacency),
        scenarios_figure(cell, rows),
        proxies_figure(cell, proxies),
    ]


def study_figures(study: Study) -> list[Figure]:
    """Return the figures of all cells together, from tables alone; those that have data."""
    return []
