"""How much an attacker gains from knowing more, scenario by scenario (docs/method.md §10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import EVERY
from synthleak.analyses.gaps import mean_interval
from synthleak.core.cell import Cell, CellColumns


@dataclass(frozen=True)
class ScalingRow:
    """A row of `scenario_scaling.csv`: one step, for one view and one kind of proxy.

    `proxy` is `best` or `median` (of a view, or of `any`), or `crossfit`: the deployable AUC.
    The interval is over cells; cells that share a plan are not independent. `pools` says which
    cells: those of `selected` pools, of `controls`, or `all`.
    """

    generator: str
    step: str
    view: str
    proxy: str
    cells: int
    change: float
    low: float | None
    high: float | None
    pools: str = EVERY


@dataclass(frozen=True)
class _CellAucs(CellColumns):
    """The AUCs of a cell: `of[view, proxy][scenario]`."""

    of: dict[tuple[str, str], dict[str, float]]


@analysis(
    "scenario_scaling",
    version=2,
    row=ScalingRow,
    shown="pools generator step view proxy cells change low high",
)
def scenario_scaling(study: Study) -> Sequence[ScalingRow]:
    """How much AUC an attacker gains at each step: change of the best and the median proxy."""
    scenarios = sorted({row.scenario for row in study.cells})
    if len(scenarios) < 2:
        raise Unavailable("needs two scenarios or more")
    rows = []
    for pools, generator, cells in study.grouped(_aucs_by_cell(study)):
        for one, other in combinations(scenarios, 2):
            for view, proxy in dict.fromkeys(key for cell in cells for key in cell.of):
                known = [cell.of.get((view, proxy), {}) for cell in cells]
                changes = [aucs[other] - aucs[one] for aucs in known if {one, other} <= set(aucs)]
                if changes:
                    step, spread = f"{one} to {other}", mean_interval(changes)
                    count = len(changes)
                    rows.append(ScalingRow(generator, step, view, proxy, count, *spread, pools))
    return rows


def _aucs_by_cell(study: Study) -> list[_CellAucs]:
    """Return best and median AUC per view and scenario, and the deployable AUC, of each cell."""
    by_cell: dict[Cell, dict[tuple[str, str], list[float]]] = {}
    for row in study.proxies:
        aucs = by_cell.setdefault(Cell.of(row), defaultdict(list))
        aucs[row.view, row.scenario].append(row.auc)
        aucs["any", row.scenario].append(row.auc)
    crossfit = {(Cell.of(row), row.scenario): row.crossfit_auc for row in study.cells}
    cells = []
    for cell, aucs in by_cell.items():
        of: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
        for (view, scenario), values in aucs.items():
            of[view, "best"][scenario] = max(values)
            of[view, "median"][scenario] = median(values)
            deployable = crossfit.get((cell, scenario))
            if deployable is not None:
                of["any", "crossfit"][scenario] = deployable
        cells.append(_CellAucs(**cell.columns, of=of))
    return cells
