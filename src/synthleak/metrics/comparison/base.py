"""What every comparison offers: the one place where the designs' statistics differ.

`PoolComparison` compares members with non-members of the pool; `WithinRecords` compares each
record's releases with and without it. What is built on them (verdict, deployable AUC, intervals,
power) is written once.
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
    """The scores of one cell, `values[set, target, signal]`, under one way of comparing."""

    repeats: int = REPEATS
    """How often the deployable figure folds again."""

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.sets, self.targets, signals = values.shape
        self.ranks: Ranks = ranks_of(values.reshape(-1, signals))

    @abstractmethod
    def statistics(self, assignments: Sequence[Assignment]) -> Statistics:
        """Return every statistic of every signal in every assignment."""

    @abstractmethod
    def sides(self, assignment: Assignment) -> tuple[float, float]:
        """Return how many independent units members and others of an assignment are worth."""

    @abstractmethod
    def deployable(
        self, assignments: Sequence[Assignment], groups: Groups, rng: Rng
    ) -> Deployable | None:
        """Cross-fit every assignment; None where there is too little to fold."""

    @abstractmethod
    def standard_error(self, assignment: Assignment, signal: int, rng: Rng) -> float:
        """Return the bootstrap standard error of one signal's level, named before the data."""

    @abstractmethod
    def spreads(self, assignment: Assignment, groups: Groups, rng: Rng) -> Spreads | None:
        """Return bootstrap standard errors of the deployable AUC, choosing again in each draw."""

    @abstractmethod
    def resampled(
        self, assignment: Assignment, groups: Groups, rng: Rng, draws: int
    ) -> Floats | None:
        """Return the deployable AUC in bootstrap draws as [group, draw], choosing again in each.

        What is drawn depends on the plan and `rng` alone: two cells of one plan, given the same
        stream, draw the same instances, so that their difference is paired.
        """


def normal_scores(low: Floats, high: Floats) -> Floats:
    """Return normal scores of mid-ranks: what needs magnitudes uses these (docs/method.md §7)."""
    from scipy.stats import norm

    made: Floats = norm.ppf((low + high) / (2 * low.shape[-1]))
    return made


def resample(units: int, draws: int, rng: Rng, group: Ints | None = None) -> Floats:
    """Return how often each unit is drawn in each bootstrap draw, as [draw, unit].

    Units of one `group` are drawn together: records of one person are not independent.
    """
    if group is None:
        return rng.multinomial(units, np.full(units, 1 / units), size=draws).astype(np.float64)
    names, place = np.unique(group, return_inverse=True)
    return resample(len(names), draws, rng)[:, place]
