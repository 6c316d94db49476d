"""Whether a selected pool leaks more than ordinary records: the gap to its random controls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import RANDOM, CellData
from synthleak.analyses.cells import ProxyRow
from synthleak.analyses.gaps import (
    WHOLE,
    Difference,
    combine,
    controls_of,
    deployable_auc,
    holm_levels,
    is_selected,
)
from synthleak.core.cell import Cell, CellColumns


@dataclass(frozen=True)
class GapRow(CellColumns):
    """A row of `control_gap.csv`: a selected pool minus its random controls in one scenario.

    `scenario` is `all` for the whole cell. `auc` … `gap_spread` are the paper's: best proxies in
    hindsight, the control's chosen on all its draws together, and 1.96·√(se² + se²) over rounds.
    The more trials a side has, the less it gains by choosing, so this gap lies above 0 by chance
    alone. `crossfit…` … `p_value` compare the deployable AUCs, with a bootstrap over instances on
    both sides that chooses again. `flagged` says whether the interval at Holm's level, `holm_low`
    to `holm_high`, excludes 0; one row per cell is tested.
    """

    scenario: str
    controls: int
    control_pools: str
    auc: float
    view: str
    auc_spread: float | None
    control_auc: float
    control_view: str
    control_spread: float | None
    gap: float
    gap_spread: float | None
    crossfit_auc: float | None
    control_crossfit: float | None
    crossfit_gap: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_holm: float | None
    holm_low: float | None
    holm_high: float | None
    flagged: str


@analysis(
    "control_gap",
    version=1,
    row=GapRow,
    shown="pool generator epsilon scenario gap gap_spread crossfit_gap low high p_holm flagged",
)
def control_gap(study: Study) -> Sequence[GapRow]:
    """Whether a selected pool is easier to tell apart than its random controls, per scenario."""
    tables: dict[Cell, list[ProxyRow]] = {}
    for row in study.proxies:
        tables.setdefault(Cell.of(row), []).append(row)
    selected = [cell for cell in study.cell_data if is_selected(cell)]
    if not selected:
        raise Unavailable("needs a pool of a rule other than random or union")
    found = [(cell, controls) for cell in selected if (controls := controls_of(study, cell))]
    if not found:
        raise Unavailable(_missing_controls(study))
    rows, gaps = [], []
    for cell, controls in found:
        for scenario in (*cell.scenarios, WHOLE):
            parts = [(1.0, cell), *((-1.0 / len(controls), control) for control in controls)]
            gap = combine(parts, scenario)
            rows.append(_row(cell, controls, scenario, gap, tables))
            gaps.append(gap)
    levels = holm_levels([row.p_value for row in rows])
    return [_flag(*item) for item in zip(rows, gaps, levels, strict=True)]


def _missing_controls(study: Study) -> str:
    if not any(cell.pool.rule == RANDOM for cell in study.cell_data):
        return 'needs random pools to compare with: add a pool of the rule "random"'
    return "needs a random pool without a selected record, of the same corpus, generator and budget"


def _row(
    cell: CellData,
    controls: Sequence[CellData],
    scenario: str,
    gap: Difference | None,
    tables: dict[Cell, list[ProxyRow]],
) -> GapRow:
    rows = [
        [row for row in tables[data.cell] if scenario in (WHOLE, row.scenario)]
        for data in (cell, *controls)
    ]
    rounds = cell.game.rounds if cell.plan.trials.rounds > 1 else 1
    auc, view, error = _best([rows[0]], rounds)
    usual, usual_view, usual_error = _best(rows[1:], rounds)
    spread = None if error is None or usual_error is None else 1.96 * np.hypot(error, usual_error)
    low, high = gap.interval() if gap else (None, None)
    of_controls = [deployable_auc(control, scenario) for control in controls]
    known = [value for value in of_controls if value is not None]
    return GapRow(
        **cell.cell.columns,
        scenario=scenario,
        controls=len(controls),
        control_pools=" ".join(control.cell.pool for control in controls),
        auc=auc,
        view=view,
        auc_spread=None if error is None else 1.96 * error,
        control_auc=usual,
        control_view=usual_view,
        control_spread=None if usual_error is None else 1.96 * usual_error,
        gap=auc - usual,
        gap_spread=None if spread is None else float(spread),
        crossfit_auc=deployable_auc(cell, scenario),
        control_crossfit=float(np.mean(known)) if len(known) == len(controls) else None,
        crossfit_gap=gap.value if gap else None,
        low=low,
        high=high,
        # One test per cell: its scenarios look at the same releases.
        p_value=gap.p if gap and scenario == WHOLE else None,
        p_holm=None,
        holm_low=None,
        holm_high=None,
        flagged="",
    )


def _best(pools: Sequence[Sequence[ProxyRow]], rounds: int) -> tuple[float, str, float | None]:
    """Return AUC, view and standard error of the proxy that is best over some pools together.

    The error is that of the mean over all rounds of all pools, so it includes the difference
    between draws of a control. There is none for a single round.
    """
    aucs = np.array([[row.auc for row in rows] for rows in pools])
    rates = np.array([[row.tpr_at_fpr05 for row in rows] for rows in pools])
    order = np.lexsort((-rates.mean(axis=0), -aucs.mean(axis=0).round(9)))
    best = int(order[0])
    value, view = float(aucs[:, best].mean()), pools[0][best].view
    if rounds < 2:
        return value, view, None
    within = [(rows[best].auc_spread * rounds**0.5 / 1.96) ** 2 for rows in pools]
    variance = np.mean(within) + aucs[:, best].var()
    return value, view, float((variance / (rounds * len(pools))) ** 0.5)


def _flag(row: GapRow, gap: Difference | None, levels: tuple[float | None, float | None]) -> GapRow:
    adjusted, level = levels
    if gap is None or adjusted is None or level is None:
        return row
    low, high = gap.interval(level)
    flagged = "yes" if low > 0 or high < 0 else "no"
    return replace(row, p_holm=adjusted, holm_low=low, holm_high=high, flagged=flagged)
