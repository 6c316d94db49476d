"""One (scenario, proxy) per pool and generator, and V pooled over budgets (docs/method.md §10).

Four rules choose the pair. The 80% split is conservative, and the default; `all` chooses in
hindsight; two rules are fixed in advance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.analyses.analysis import Study
from synthleak.analyses.cell_data import CellData, PoolFacts, Signal
from synthleak.evidence.observation import Floats
from synthleak.evidence.persons import person_name
from synthleak.metrics.records.vulnerability import FEWEST

SPLIT, HINDSIGHT = "split80", "all"
FIXED = {"containment_max S2": ("S2", "containment_max"), "cos_max S1": ("S1", "cos_max")}
RULES = (SPLIT, HINDSIGHT, *FIXED)
TOO_FEW = f"needs {FEWEST} records per pool that are in some releases and out of others"


@dataclass(frozen=True)
class Group:
    """The cells of one pool and generator, one for each budget."""

    pool: PoolFacts
    generator: str
    cells: tuple[CellData, ...]

    def choose(self, rule: str = SPLIT) -> Signal | None:
        """Return the signal that a rule chooses over all budgets; None if a fixed one is absent."""
        signals = self.cells[0].signals
        if rule in FIXED:
            scenario, proxy = FIXED[rule]
            names = (proxy, person_name(proxy))
            found = [s for s in signals if s.scenario == scenario and s.proxy in names]
            return found[0] if found else None
        best = np.max([_levels(cell, rule) for cell in self.cells], axis=0)
        return signals[int(best.round(9).argmax())]

    def v(self, signal: Signal) -> Floats:
        """Return V under one signal, over all episodes of all budgets; NaN where none qualifies.

        All budgets of a plan have the same coins, so the mean over episodes is the mean over
        budgets.
        """
        place = self.cells[0].signals.index(signal)
        pooled: Floats = np.mean([cell.profile.v[place] for cell in self.cells], axis=0)
        return pooled


def _levels(cell: CellData, rule: str) -> Floats:
    if rule == SPLIT:
        return cell.profile.split_auc
    return np.array([signal.auc for signal in cell.measurements.signals])


def groups_of(study: Study) -> list[Group]:
    """Group the cells by pool and generator; cells with different plans are never grouped."""
    found: dict[tuple[object, ...], list[CellData]] = {}
    for cell in study.cell_data:
        key = (cell.pool, cell.cell.generator, cell.plan.fingerprint, cell.signals)
        found.setdefault(key, []).append(cell)
    return [Group(cells[0].pool, cells[0].cell.generator, tuple(cells)) for cells in found.values()]


def by_pool(groups: Sequence[Group]) -> list[list[Group]]:
    """Return the groups that share a pool and its plan: one for each generator."""
    found: dict[tuple[object, ...], list[Group]] = {}
    for group in groups:
        first = group.cells[0]
        found.setdefault((group.pool, first.plan.fingerprint, first.signals), []).append(group)
    return list(found.values())
