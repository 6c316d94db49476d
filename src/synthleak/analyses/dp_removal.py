"""How much leakage a budget removes, from a selected pool and from its random controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import CellData
from synthleak.analyses.gaps import WHOLE, combine, controls_of, is_selected
from synthleak.metrics.null import holm


@dataclass(frozen=True)
class RemovalRow:
    """A row of `dp_removal.csv`: AUC(∞) − AUC(ε) of one pool, beside that of its controls.

    Without a suffix, of the deployable figure, with a bootstrap over instances that pairs the two
    budgets; `best_…` of the best proxy in hindsight. `difference` is this pool minus its controls.
    """

    corpus: str
    pool: str
    generator: str
    epsilon: float
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
    shown=(
        "pool",
        "generator",
        "epsilon",
        "scenario",
        "removed",
        "removed_low",
        "removed_high",
        "control_removed",
        "difference",
        "low",
        "high",
        "p_holm",
    ),
)
def dp_removal(study: Study) -> Sequence[RemovalRow]:
    """How much AUC a budget removes, and whether it removes more from a selected pool."""
    rows = [
        row
        for cell in study.cell_data
        if math.isfinite(cell.epsilon) and (bare := _without_privacy(study, cell)) is not None
        for row in _rows(study, cell, bare)
    ]
    if not rows:
        raise Unavailable("needs a generator that was audited both at ε = ∞ and at a finite ε")
    adjusted = holm([row.p_value for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def _without_privacy(study: Study, cell: CellData) -> CellData | None:
    """Return the same pool and generator at ε = ∞."""
    wanted = replace(cell.cell, epsilon=math.inf)
    found = (other for other in study.cell_data if other.cell == wanted)
    return next((bare for bare in found if bare.scenarios == cell.scenarios), None)


def _rows(study: Study, cell: CellData, bare: CellData) -> Iterator[RemovalRow]:
    pairs = []
    if is_selected(cell):
        for control in controls_of(study, cell):
            open_one = _without_privacy(study, control)
            if open_one is not None:
                pairs.append((open_one, control))
    parts = [(1.0, bare), (-1.0, cell)]
    ordinary = [
        (sign / len(pairs), one)
        for pair in pairs
        for sign, one in zip((1.0, -1.0), pair, strict=True)
    ]
    for scenario in (*cell.scenarios, WHOLE):
        own = combine(parts, scenario)
        low, high = own.interval() if own else (None, None)
        theirs = combine(ordinary, scenario) if pairs else None
        minus = [(-weight, one) for weight, one in ordinary]
        gap = combine([*parts, *minus], scenario) if pairs else None
        gap_low, gap_high = gap.interval() if gap else (None, None)
        removed = _best(bare, scenario) - _best(cell, scenario)
        usual = sum(w * _best(one, scenario) for w, one in ordinary) if pairs else None
        yield RemovalRow(
            **asdict(cell.cell),
            scenario=scenario,
            removed=own.value if own else None,
            removed_low=low,
            removed_high=high,
            controls=len(pairs),
            control_removed=theirs.value if theirs else None,
            difference=gap.value if gap else None,
            low=gap_low,
            high=gap_high,
            p_value=gap.p if gap and scenario == WHOLE else None,
            p_holm=None,
            best_removed=removed,
            best_control_removed=usual,
            best_difference=None if usual is None else removed - usual,
        )


def _best(cell: CellData, scenario: str) -> float:
    """Return the AUC of the best proxy in hindsight, of a scenario or of the whole cell."""
    rows = cell.measurements.rows
    if scenario == WHOLE:
        return max(row.auc.value for row in rows)
    return rows[cell.scenarios.index(scenario)].auc.value
