"""All figures of an audit: those of each cell, and those of the study as a whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from synthleak.analyses.cell_data import CellData
from synthleak.analyses.vulnerability import VulnerabilityRow
from synthleak.core.cell import Cell, is_of
from synthleak.metrics.curves import SortedV
from synthleak.report.figures.attributes import attributes_figure
from synthleak.report.figures.consistency import generators_figure
from synthleak.report.figures.figure import Figure
from synthleak.report.figures.gaps import (
    budgets_figure,
    control_gap_figure,
    merged_figure,
    removal_figure,
)
from synthleak.report.figures.prior import prior_attacks_figure, prior_figure
from synthleak.report.figures.proxies import proxies_figure, scenarios_figure
from synthleak.report.figures.roc import roc_figures
from synthleak.report.figures.scaling import scaling_figures
from synthleak.report.figures.vulnerability import (
    panels_figure,
    representative,
    vulnerability_figure,
)
from synthleak.report.results import Results


@dataclass(frozen=True)
class Drawn:
    """What figures of a study need beside its tables.

    `sorted_v` gives the sorted V of a cell and the ids of its targets; `cell_data` holds V of
    every record under every signal.
    """

    sorted_v: Callable[[Cell], tuple[SortedV, Sequence[str]]]
    cell_data: Sequence[CellData] = ()


def cell_figures(results: Results, cell: Cell) -> list[Figure]:
    """Return the figures of one cell, in the order in which a reader wants them."""
    study, curves = results.study, results.curves[cell]
    rows = [row for row in study.cells if is_of(row, cell)]
    proxies = [row for row in study.proxies if is_of(row, cell)]
    statistics = next(one.measurements.statistics for one in results.cells if one.cell == cell)
    made = [
        *roc_figures(cell, curves, rows),
        scenarios_figure(cell, rows),
        proxies_figure(cell, proxies, statistics),
        *_there(prior_figure(cell, rows, [row for row in study.prior if is_of(row, cell)])),
        *_there(vulnerability_figure(cell, curves.vulnerability, results.ids(cell.pool))),
    ]
    own = results.name_of(cell)
    return [replace(figure, title=figure.title.replace(cell.name, own)) for figure in made]


def _there(figure: Figure | None) -> list[Figure]:
    return [] if figure is None else [figure]


def study_figures(tables: Mapping[str, Sequence[Any]], drawn: Drawn | None = None) -> list[Figure]:
    """Return the figures of all cells together, from the tables by name; those that have data.

    Without `drawn`, figures that show single records are left out.
    """

    def rows(name: str) -> Sequence[Any]:
        return tables.get(name, ())

    made = [
        budgets_figure(rows("cells")),
        control_gap_figure(rows("control_gap")),
        removal_figure(rows("dp_removal")),
        merged_figure([*rows("merged"), *rows("adjudication")]),
        _panels(representative(rows("vulnerability")), drawn),
        attributes_figure(rows("attributes_combined")),
        generators_figure(rows("consistency"), drawn.cell_data if drawn else ()),
        *scaling_figures(rows("scenario_scaling"), rows("cells")),
        prior_attacks_figure(rows("comparison"), rows("prior_attacks")),
    ]
    return [figure for figure in made if figure is not None]


def _panels(chosen: Sequence[VulnerabilityRow], drawn: Drawn | None) -> Figure | None:
    if drawn is None:
        return None
    found = [drawn.sorted_v(Cell.of(r)) for r in chosen]
    return panels_figure(chosen, [v for v, _ in found], [ids for _, ids in found])


def drawn_by(*audits: Results) -> Drawn:
    """Return what `study_figures` asks of the audits that its tables are of."""
    home = {cell: results for results in audits for cell in results.curves}
    return Drawn(
        lambda cell: (home[cell].curves[cell].vulnerability, home[cell].ids(cell.pool)),
        [cell for results in audits for cell in results.study.cell_data],
    )
