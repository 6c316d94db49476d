"""How much leakage a budget removes, from a selected pool and from its random controls."""

from __future__ import annotations

from dataclasses import dataclass


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
