"""Many records of one release, compared without a table of all pairs (docs/method.md §11).

Ten thousand members against ten thousand others make a hundred million pairs per signal. But
counting wins needs no pairs: in sorted order, a running sum of the others gives the number that
each member outscores. Sorted by fold first, one running sum serves all folds, and the values
without a fold follow from the sums over all records; so time grows with the number of records.
Values are those of `PoolComparison` with 4 repeats of the folding: with many records the folding
hardly matters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.comparison.base import Spreads, resample
from synthleak.metrics.comparison.pool import DRAWS, RESELECTING_DRAWS, PoolComparison
from synthleak.metrics.crossfit.folds import Deployable
from synthleak.metrics.crossfit.pool import mean_known, ratio
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.roc import FPR_LIMIT
from synthleak.metrics.types import Groups, Ints, Rng, Singles

MANY = 400
"""Records above which a release is compared in this way."""
REPEATS = 4
_CHUNK = 50
"""Bootstrap draws at a time."""


@dataclass(frozen=True)
class FoldMeasurements:
    """One signal: AUC without each fold, AUC and TPR at 5% FPR within it, as [draw, fold].

    The folds of all repeats are in one axis, repeat after repeat.
    """

    rest: Floats
    held: Floats
    rate: Floats


@dataclass(frozen=True)
class Folded:
    """The fold of each record, `fold[target, repeat]`, of `folds` in each repeat.

    `members` and `others` hold how often each record was drawn, as [draw, target]; 0 for records of
    the other side.
    """

    fold: NDArray[np.int8]
    folds: int
    members: Floats
    others: Floats


def folded(
    assignment: Assignment,
    targets: int,
    inside: tuple[Singles, Singles],
    weight: tuple[Floats, Floats] | None = None,
) -> Folded:
    """Write folds and bootstrap weights of members and others by target."""
    sides = (assignment.members, assignment.others[0])
    repeats, folds = inside[0].shape[1:]
    fold = np.zeros((targets, repeats), dtype=np.int8)
    drawn = weight or (np.ones((1, len(sides[0]))), np.ones((1, len(sides[1]))))
    weights = np.zeros((2, len(drawn[0]), targets))
    for place, (side, where, count) in enumerate(zip(sides, inside, drawn, strict=True)):
        fold[side] = where.argmax(axis=2)
        weights[place][:, side] = count
    return Folded(fold, folds, weights[0], weights[1])


class _Sorted:
    """Records in the order of one signal, or fold by fold: ties within a fold form a run."""

    def __init__(self, order: Ints, score: NDArray[np.int32], fold: NDArray[np.int8]) -> None:
        self.order = order
        tied = (score[order][1:] == score[order][:-1]) & (fold[order][1:] == fold[order][:-1])
        first = np.concatenate([[True], ~tied])
        self._run = np.cumsum(first) - 1
        self._starts = np.flatnonzero(first)
        self._ends = np.concatenate([self._starts[1:], [len(order)]])

    def counts(self, weight: Floats) -> tuple[Floats, Floats]:
        """Return, per record, the weight of all that score lower, and of all that score no higher.

        `weight` is [draw, target]; the results are in sorted order.
        """
        sums = np.zeros((len(weight), len(self.order) + 1))
        np.cumsum(weight[:, self.order], axis=1, out=sums[:, 1:])
        return sums[:, self._starts][:, self._run], sums[:, self._ends][:, self._run]


def fold_measurements(ranks: Ranks, signal: int, where: Folded) -> FoldMeasurements:
    """Evaluate a signal in and without every fold."""
    score, members, others = ranks.low[signal], where.members, where.others
    order = np.empty(len(score), dtype=np.int64)
    order[ranks.place[signal]] = np.arange(len(score))
    everybody = _Sorted(order, score, np.zeros(len(score), dtype=np.int8))
    sizes = members.sum(axis=1, keepdims=True), others.sum(axis=1, keepdims=True)
    below, upto = everybody.counts(others)
    won = np.zeros_like(members)  # twice the wins of members over others that involve each record
    won[:, order] = members[:, order] * (below + upto)
    total = won.sum(axis=1, keepdims=True)
    below, upto = everybody.counts(members)
    won[:, order] += others[:, order] * (2 * sizes[0] - below - upto)
    rest, held, rate = [], [], []
    for fold in where.fold.T:
        own = _Sorted(order[np.argsort(fold[order], kind="stable")], score, fold)
        place = fold[own.order]
        mine, theirs = (
            _by_fold(side[:, own.order], place, where.folds) for side in (members, others)
        )
        start = np.concatenate([np.zeros((len(theirs), 1)), theirs.cumsum(axis=1)[:, :-1]], axis=1)
        below, upto = (side - start[:, place] for side in own.counts(others))
        weight = members[:, own.order]
        wins = _by_fold(weight * (below + upto), place, where.folds)
        alarms = theirs[:, place] - below
        found = weight * (alarms <= (FPR_LIMIT + 1e-6) * theirs[:, place])
        left = total - _by_fold(won[:, own.order], place, where.folds) + wins
        rest.append(ratio(left, 2 * (sizes[0] - mine) * (sizes[1] - theirs)))
        held.append(ratio(wins, 2 * mine * theirs))
        rate.append(ratio(_by_fold(found, place, where.folds), mine))
    return FoldMeasurements(*(np.concatenate(part, axis=1) for part in (rest, held, rate)))


def _by_fold(values: Floats, fold: NDArray[np.int8], folds: int) -> Floats:
    """Return the sum of `values[draw, record]` in each fold; records are sorted by fold."""
    ends = np.searchsorted(fold, np.arange(folds + 1))
    sums = np.zeros((len(values), values.shape[1] + 1))
    np.cumsum(values, axis=1, out=sums[:, 1:])
    return sums[:, ends[1:]] - sums[:, ends[:-1]]


class SortedPoolComparison(PoolComparison):
    """Records are the units: each is either a member or a non-member."""

    repeats: int = REPEATS

    def deployable(
        self, assignments: Sequence[Assignment], groups: Groups, rng: Rng
    ) -> Deployable | None:
        """Cross-fit over records."""
        results = [
            self._fitted(assignment, groups, self.folds(assignment, rng, self.repeats))
            for assignment in assignments
        ]
        if results[0] is None:
            return None
        # A redraw that cannot be folded counts against the finding.
        worst = np.ones((2, len(groups), 1))
        together = np.concatenate([worst if item is None else item for item in results], axis=2)
        return Deployable(together[0], together[1])

    def _fitted(
        self,
        assignment: Assignment,
        groups: Groups,
        inside: tuple[Singles, Singles] | None,
        weight: tuple[Floats, Floats] | None = None,
    ) -> Floats | None:
        """Return AUC and TPR as [2, group, draw]; None where there are too few records to fold."""
        if inside is None:
            return None
        where = folded(assignment, self.targets, inside, weight)
        distinct = self.ranks.distinct
        every = [fold_measurements(self.ranks, signal, where) for signal in distinct.tolist()]
        rest, held, rate = (
            np.stack([getattr(item, name) for item in every]) for name in ("rest", "held", "rate")
        )
        results = []
        for group in groups:
            places = np.unique(np.searchsorted(distinct, self.ranks.same[group]))
            best = np.nan_to_num(rest[places], nan=-1.0).round(9).argmax(axis=0)
            chosen = places[best][None]
            results.append(
                [mean_known(np.take_along_axis(side, chosen, axis=0)[0]) for side in (held, rate)]
            )
        return np.array(results).transpose(1, 0, 2)

    def standard_error(self, assignment: Assignment, signal: int, rng: Rng) -> float:
        """Resample members and others, each within its side."""
        if not assignment.members.size or not assignment.others.size:
            return 0.0
        members, others = assignment.members, assignment.others[0]
        low, high = self.ranks.low[signal, members], self.ranks.high[signal, members]
        results = []
        for start in range(0, DRAWS, _CHUNK):
            rows, columns = self.drawn(assignment, min(_CHUNK, DRAWS - start), rng)
            running = np.zeros((len(rows), self.ranks.low.shape[1] + 1))
            running[:, self.ranks.place[signal, others] + 1] = columns
            np.cumsum(running, axis=1, out=running)
            wins = (rows * (running[:, low] + running[:, high])).sum(axis=1)
            results.append(wins / (2 * rows.sum(axis=1) * columns.sum(axis=1)))
        return float(np.concatenate(results).std())

    def spreads(self, assignment: Assignment, groups: Groups, rng: Rng) -> Spreads | None:
        """Resample records: within each side for this pool, all together for records like these."""
        pool = self.resampled(assignment, groups, rng, RESELECTING_DRAWS)
        if pool is None:
            return None
        weight = resample(self.targets, RESELECTING_DRAWS, rng, self._group)
        inside = self.folds(assignment, rng, self.repeats)
        drawn = (weight[:, assignment.members], weight[:, assignment.others[0]])
        records = self._reweighted(assignment, groups, inside, drawn)
        return Spreads(np.nanstd(pool, axis=1), np.nanstd(records, axis=1), "records")

    def resampled(
        self, assignment: Assignment, groups: Groups, rng: Rng, draws: int
    ) -> Floats | None:
        """Resample records within each side, and choose again."""
        inside = self.folds(assignment, rng, self.repeats)
        if inside is None:
            return None
        return self._reweighted(assignment, groups, inside, self.drawn(assignment, draws, rng))

    def _reweighted(
        self,
        assignment: Assignment,
        groups: Groups,
        inside: tuple[Singles, Singles] | None,
        weight: tuple[Floats, Floats],
    ) -> Floats:
        results = []
        for start in range(0, len(weight[0]), _CHUNK):
            part = slice(start, start + _CHUNK)
            fitted = self._fitted(assignment, groups, inside, (weight[0][part], weight[1][part]))
            assert fitted is not None
            results.append(fitted[0])
        return np.concatenate(results, axis=1)
