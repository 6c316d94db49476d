"""All figures of an audit: those of each cell, and those of the study as a whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synthleak.analyses.cells import Cell
from synthleak.analyses.prior import is_of
from synthleak.report.figures.figure import Figure
from synthleak.report.figures.prior import prior_figure
from synthleak.report.figures.proxies import proxies_figure, scenarios_figure
from synthleak.report.figures.roc import roc_figures
from synthleak.report.figures.vulnerability import vulnerability_figure

if TYPE_CHECKING:
    from synthleak.analyses.analysis import Study
    from synthleak.audit import Audit


def cell_figures(audit: Audit, cell: Cell) -> list[Figure]:
    """Return the figures of one cell, in the order in which a reader wants them."""
    rows = [row for row in audit.cells if is_of(row, cell)]
    proxies = [row for row in audit.proxies if is_of(row, cell)]
    curves, claim = audit.curves(cell), audit.claim(cell)
    adjacency = audit.bench.plans[cell.pool].adjacency
    return [
        *roc_figures(cell, curves, rows, claim, adjacency),
        scenarios_figure(cell, rows),
        proxies_figure(cell, proxies),
        *_there(prior_figure(cell, rows, [row for row in audit.prior if is_of(row, cell)])),
        *_there(vulnerability_figure(cell, curves.vulnerability, ids_of(audit, cell))),
    ]


def ids_of(audit: Audit, cell: Cell) -> list[str]:
    """Return the ids of a cell's targets, in the order of its plan."""
    records = audit.bench.corpus.records
    return [records[target].id for target in audit.bench.plans[cell.pool].targets]


def _there(figure: Figure | None) -> list[Figure]:
    return [] if figure is None else [figure]


def study_figures(study: Study) -> list[Figure]:
    """Return the figures of all cells together, from tables alone; those that have data."""
    return []
