"""How much leakage a privacy budget removes, from a selected pool and from its controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import CellData
from synthleak.analyses.gaps import WHOLE, combine, controls_of, is_selected
from synthleak.core.cell import CellColumns
from synthleak.metrics.null import holm


@dataclass(frozen=True)
class RemovalRow(CellColumns):
    """A row of `dp_removal.csv`: AUC(∞) − AUC(ε) of one pool, beside that of its controls.

    Columns without prefix are for the deployable AUC, with a bootstrap over instances that pairs
    the two budgets; `best_…` is for the best proxy in hindsight. `difference` is this pool minus
    its controls.
    """

    scenario: str
    removed: float | None
    removed_low: float | None
    removed_high: float | None
    controls: int
    control_removed: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_holm: float | None
    best_removed: float
    best_control_removed: float | None
    best_difference: float | None


@analysis(
    "dp_removal",
    version=1,
    row=RemovalRow,
    shown="pool generator epsilon scenario removed removed_low removed_high control_removed "
    "difference low high p_holm",
)
def dp_removal(study: Study) -> Sequence[RemovalRow]:
    """How much AUC a budget removes, and whether it removes more from a selected pool."""
    rows = [
        row
        for cell in study.cell_data
        if math.isfinite(cell.epsilon) and (without := _without_privacy(study, cell)) is not None
        for row in _rows(study, cell, without)
    ]
    if not rows:
        raise Unavailable("needs a generator that was audited both at ε = ∞ and at a finite ε")
    adjusted = holm([row.p_value for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def _without_privacy(study: Study, cell: CellData) -> CellData | None:
    """Return the same pool and generator at ε = ∞."""
    wanted = replace(cell.cell, epsilon=math.inf)
    found = (other for other in study.cell_data if other.cell == wanted)
    return next((other for other in found if other.scenarios == cell.scenarios), None)


def _rows(study: Study, cell: CellData, without: CellData) -> Iterator[RemovalRow]:
    controls = controls_of(study, cell) if is_selected(cell) else []
    pairs = [
        (other, control)
        for control in controls
        if (other := _without_privacy(study, control)) is not None
    ]
    parts = [(1.0, without), (-1.0, cell)]
    control_parts = [
        (sign / len(pairs), data)
        for pair in pairs
        for sign, data in zip((1.0, -1.0), pair, strict=True)
    ]
    minus = [(-weight, data) for weight, data in control_parts]
    for scenario in (*cell.scenarios, WHOLE):
        removed = combine(parts, scenario)
        low, high = removed.interval() if removed else (None, None)
        of_controls = combine(control_parts, scenario) if pairs else None
        gap = combine([*parts, *minus], scenario) if pairs else None
        gap_low, gap_high = gap.interval() if gap else (None, None)
        best = _best(without, scenario) - _best(cell, scenario)
        usual = sum(w * _best(data, scenario) for w, data in control_parts) if pairs else None
        yield RemovalRow(
            **cell.cell.columns,
            scenario=scenario,
            removed=removed.value if removed else None,
            removed_low=low,
            removed_high=high,
            controls=len(pairs),
            control_removed=of_controls.value if of_controls else None,
            difference=gap.value if gap else None,
            low=gap_low,
            high=gap_high,
            p_value=gap.p if gap and scenario == WHOLE else None,
            p_holm=None,
            best_removed=best,
            best_control_removed=usual,
            best_difference=None if usual is None else best - usual,
        )


def _best(cell: CellData, scenario: str) -> float:
    """Return the AUC of the best proxy in hindsight, of a scenario or of the whole cell."""
    rows = cell.measurements.rows
    if scenario == WHOLE:
        return max(row.auc.value for row in rows)
    return rows[cell.scenarios.index(scenario)].auc.value
