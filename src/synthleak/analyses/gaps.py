"""Differences between cells: their controls, paired bootstrap draws, intervals at Holm's level."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.analyses.analysis import Study
from synthleak.analyses.cell_data import CANARY, RANDOM, UNION, CellData
from synthleak.core.verdict import LEVEL
from synthleak.evidence.observation import Floats
from synthleak.metrics.null import holm

WHOLE = "all"
"""The scenario of a row that concerns the whole cell."""


@dataclass(frozen=True)
class Difference:
    """A difference of deployable AUCs, with a bootstrap standard error."""

    value: float
    error: float

    @property
    def p(self) -> float:
        """The two-sided p-value against no difference."""
        from scipy.stats import norm

        if self.error <= 0:
            return 1.0 if self.value == 0 else 0.0
        return float(2 * norm.sf(abs(self.value) / self.error))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the normal interval that misses with probability `level`."""
        from scipy.stats import norm

        reach = float(norm.isf(level / 2)) * self.error
        return self.value - reach, self.value + reach


def is_selected(cell: CellData) -> bool:
    """Say whether a cell's pool was selected by a property of its records."""
    return cell.pool.rule not in (RANDOM, UNION, CANARY)


def controls_of(study: Study, cell: CellData) -> list[CellData]:
    """Return the random controls of a cell: same corpus, generator and budget, no shared record.

    Controls that take their size from this pool are used alone if there are any.
    """
    found = [
        other
        for other in study.cell_data
        if other.pool.rule == RANDOM
        and other.cell.corpus == cell.cell.corpus
        and other.cell.generator == cell.cell.generator
        and other.cell.epsilon == cell.cell.epsilon
        and other.signals == cell.signals
        and not set(other.pool.records) & set(cell.pool.records)
    ]
    matched = [other for other in found if other.pool.match == cell.pool.name]
    return matched or found


def deployable_auc(cell: CellData, scenario: str) -> float | None:
    """Return the deployable AUC of a scenario, or of the whole cell."""
    measured = cell.measurements
    whole = scenario == WHOLE
    crossfit = (measured if whole else measured.rows[cell.scenarios.index(scenario)]).crossfit
    return None if crossfit is None else crossfit.value


def draws(cell: CellData, scenario: str) -> Floats:
    """Return the deployable AUC of a scenario, or of the whole cell, in bootstrap draws."""
    group = len(cell.scenarios) if scenario == WHOLE else cell.scenarios.index(scenario)
    drawn: Floats = cell.profile.resampled[group]
    return drawn


def combine(parts: Sequence[tuple[float, CellData]], scenario: str) -> Difference | None:
    """Return Σ weight · AUC with its standard error; None where a deployable AUC is missing.

    Cells that share a plan draw the same instances, so their draws are subtracted one by one; draws
    of different plans are independent, and subtracting them in the same way does no harm.
    """
    values = [deployable_auc(cell, scenario) for _, cell in parts]
    drawn = [draws(cell, scenario) for _, cell in parts]
    if any(value is None for value in values) or min(map(len, drawn)) < 2:
        return None
    value = sum(w * float(v) for (w, _), v in zip(parts, values, strict=True) if v is not None)
    together = np.sum([w * d for (w, _), d in zip(parts, drawn, strict=True)], axis=0)
    return Difference(value, float(np.nanstd(together, ddof=1)))


def holm_levels(p_values: Sequence[float | None]) -> list[tuple[float | None, float | None]]:
    """Return, for each test, Holm's adjusted p and the level of its confidence interval.

    The k-th smallest of m p-values is compared with 0.05 / (m − k + 1), up to the first that fails;
    all later ones use the level of that one. So an interval excludes 0 exactly where Holm rejects.

    >>> holm_levels([0.04, None, 0.001])
    [(0.04, 0.05), (None, None), (0.002, 0.025)]
    >>> [level for _, level in holm_levels([0.03, 0.04])]
    [0.025, 0.025]
    """
    levels: dict[float, float] = {}
    known = sorted(p for p in p_values if p is not None)
    for place, p in enumerate(known):
        failed = [q for q in levels if q > levels[q]]
        levels.setdefault(p, levels[failed[0]] if failed else LEVEL / (len(known) - place))
    return [
        (after, None if p is None else levels[p])
        for p, after in zip(p_values, holm(p_values), strict=True)
    ]


def mean_interval(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Return the mean, and its 95% normal interval where there are two values or more."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return mean, None, None
    reach = 1.96 * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return mean, mean - reach, mean + reach
