"""The interface of a comparison: the only place where the statistics of the designs differ.

`PoolComparison` compares members with non-members of the pool; `WithinRecords` compares each
record's releases with and without it. Verdict, deployable AUC, intervals and power are built on
this interface.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.crossfit.folds import REPEATS, Deployable
from synthleak.metrics.ranks import Ranks, ranks_of
from synthleak.metrics.statistics.table import Statistics
from synthleak.metrics.types import Groups, Ints, Rng


@dataclass(frozen=True)
class Spreads:
    """Standard errors of the deployable AUC per group: for this pool, and for records like these.

    `over` says what was resampled for the first.
    """

    pool: Floats
    records: Floats
    over: str


class Comparison(ABC):
    """The scores of one cell, `values[set, target, signal]`, and how they are compared."""

    repeats: int = REPEATS
    """How many foldings the deployable AUC is averaged over."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.sets, self.targets, signals = values.shape
        self.ranks: Ranks = ranks_of(values.reshape(-1, signals))

    @abstractmethod
    def statistics(self, assignments: Sequence[Assignment]) -> Statistics:
        """Return every statistic of every signal in every assignment."""

    @abstractmethod
    def sides(self, assignment: Assignment) -> tuple[float, float]:
        """Return the effective numbers of independent units of members and of others."""

    @abstractmethod
    def deployable(
        self, assignments: Sequence[Assignment], groups: Groups, rng: Rng
    ) -> Deployable | None:
        """Cross-fit every assignment; None where there are too few units to fold."""

    @abstractmethod
    def standard_error(self, assignment: Assignment, signal: int, rng: Rng) -> float:
        """Return the bootstrap standard error of the AUC of one signal, fixed in advance."""

    @abstractmethod
    def spreads(self, assignment: Assignment, groups: Groups, rng: Rng) -> Spreads | None:
        """Return bootstrap standard errors of the deployable AUC, choosing again in each draw."""

    @abstractmethod
    def resampled(
        self, assignment: Assignment, groups: Groups, rng: Rng, draws: int
    ) -> Floats | None:
        """Return the deployable AUC in bootstrap draws as [group, draw], choosing again in each.

        The draws depend on the plan and `rng` alone: two cells of one plan with the same stream
        draw the same instances, so their difference is paired.
        """


def normal_scores(low: Floats, high: Floats) -> Floats:
    """Return normal scores of mid-ranks, for whatever needs magnitudes (docs/method.md §7)."""
    from scipy.stats import norm

    scores: Floats = norm.ppf((low + high) / (2 * low.shape[-1]))
    return scores


def resample(units: int, draws: int, rng: Rng, group: Ints | None = None) -> Floats:
    """Return how often each unit is drawn in each bootstrap draw, as [draw, unit].

    Units of one `group` are drawn together: records of one person are not independent.
    """
    if group is None:
        return rng.multinomial(units, np.full(units, 1 / units), size=draws).astype(np.float64)
    names, place = np.unique(group, return_inverse=True)
    return resample(len(names), draws, rng)[:, place]
