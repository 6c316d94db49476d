"""Who is compared with whom: the one place where the designs' statistics differ.

`WholePool` compares members with non-members of the pool; `WithinRecords` compares each record's
releases with and without it. Both offer the same four things, so that whatever is built on them
(verdict, deployable figure, intervals, power) is written once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.dealt import Dealt
from synthleak.metrics.pooled import Pair
from synthleak.metrics.ranks import Ranks, ranks_of
from synthleak.metrics.selection import Signals


@dataclass(frozen=True)
class Deployable:
    """The cross-fitted AUC and TPR at 5% FPR, as [group, dealing]."""

    auc: Floats
    tpr: Floats


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

    def __init__(self, values: Floats) -> None:
        self.values = values
        self.sets, self.targets, signals = values.shape
        self.ranks: Ranks = ranks_of(values.reshape(-1, signals))

    @abstractmethod
    def pair(self, hands: Sequence[Dealt]) -> Pair:
        """Return level and tail of every signal in every dealing."""

    @abstractmethod
    def deployable(
        self, hands: Sequence[Dealt], groups: Sequence[Signals], rng: np.random.Generator
    ) -> Deployable | None:
        """Cross-fit every dealing; None where there is too little to fold."""

    @abstractmethod
    def standard_error(self, hand: Dealt, signal: int, rng: np.random.Generator) -> float:
        """Return the bootstrap standard error of one signal's level, named before the data."""

    @abstractmethod
    def spreads(
        self, hand: Dealt, groups: Sequence[Signals], rng: np.random.Generator
    ) -> Spreads | None:
        """Return bootstrap standard errors of the deployable AUC, choosing anew in each draw."""

    @abstractmethod
    def resampled(
        self, hand: Dealt, groups: Sequence[Signals], rng: np.random.Generator, draws: int
    ) -> Floats | None:
        """Return the deployable AUC in bootstrap draws as [group, draw], choosing anew in each.

        What is drawn depends on the plan and `rng` alone: two cells of one plan, given the same
        stream, draw the same instances, so that their difference is paired.
        """

    @abstractmethod
    def planted(self, hands: Sequence[Dealt], signal: int, shift: float) -> Floats:
        """Return a signal's level per dealing, its members' normal scores raised by `shift`."""


def normal_scores(low: Floats, high: Floats) -> Floats:
    """Return normal scores of mid-ranks: what needs magnitudes uses these (METHOD §7)."""
    from scipy.stats import norm

    made: Floats = norm.ppf((low + high) / (2 * low.shape[-1]))
    return made


def resample(units: int, draws: int, rng: np.random.Generator) -> Floats:
    """Return how often each unit is drawn in each bootstrap draw, as [draw, unit]."""
    return rng.multinomial(units, np.full(units, 1 / units), size=draws).astype(np.float64)
