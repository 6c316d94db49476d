"""Many records of one release, compared without a table of all pairs (docs/method.md §11).

Ten thousand members against ten thousand others make a hundred million pairs per signal. But
counting wins needs no pairs: in sorted order, a running sum of the others gives the number that
each member outscores. Sorted by fold first, one running sum serves all folds, and the values
without a fold follow from the sums over all records; so time grows with the number of records.
Values are those of `PoolComparison` with 4 repeats of the folding: with many records the folding
hardly matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.member_comparison import (
    DRAWS,
    RESELECTING_DRAWS,
    Deployable,
    PoolComparison,
    Spreads,
    choose_in_folds,
    mean_known,
    ratio,
    resample,
    take_chosen,
)
from synthleak.metrics.membership import FPR_LIMIT, Assignment, Ranks, Small
from synthleak.metrics.types import Groups, Ints, Rng, Singles

MANY = 400
"""Records above which a release is compared in this way."""
REPEATS = 4
_CHUNK = 50
"""Bootstrap draws at a time."""

Weights = NDArray[np.floating[Any]]


@dataclass(frozen=True)
class SignalFolds:
    """One signal: AUC without each fold, AUC and TPR at 5% FPR within it, as [draw, fold].

    The folds of all repeats are in one axis, repeat after repeat.
    """

    rest: Floats
    held: Floats
    rate: Floats


@dataclass(frozen=True)
class Folded:
    """Who is compared: the folds of all records, and how often each was drawn.

    `fold[repeat, entry]` is one of `folds`, and `inside[entry, repeat · folds + fold]` says the
    same as 0 and 1. `members[draw, entry]` and `others[draw, entry]` are 0 for whoever is not on
    that side. They are whole numbers, in single precision if all sums of them are exact in it.
    """

    fold: NDArray[np.int8]
    folds: int
    inside: Floats
    members: Weights
    others: Weights

    @cached_property
    def sizes(self) -> tuple[Floats, Floats]:
        """The weight of members and of others, per draw."""
        members, others = (
            side.sum(axis=1, keepdims=True, dtype=np.float64)
            for side in (self.members, self.others)
        )
        return members, others

    @cached_property
    def parts(self) -> tuple[Floats, Floats]:
        """The weight of members and of others in each fold, per draw."""
        return self.members @ self.inside, self.others @ self.inside


def folded(
    assignment: Assignment,
    targets: int,
    inside: tuple[Singles, Singles],
    weight: tuple[Floats, Floats] | None = None,
) -> Folded:
    """Write folds and bootstrap weights of members and others by target."""
    sides = (assignment.members, assignment.others[0])
    drawn = weight or (np.ones((1, len(sides[0]))), np.ones((1, len(sides[1]))))
    largest = 2 * targets * max(side.max(initial=0.0) for side in drawn)
    kind = np.float32 if largest < 2**24 else np.float64
    repeats, folds = inside[0].shape[1:]
    fold = np.zeros((repeats, targets), dtype=np.int8)
    in_folds = np.zeros((targets, repeats * folds))
    weights: list[Weights] = []
    for side, where, times in zip(sides, inside, drawn, strict=True):
        fold[:, side] = where.argmax(axis=2).T
        in_folds[side] = where.reshape(len(side), -1)
        by_target: Weights = np.zeros((len(times), targets), dtype=kind)
        by_target[:, side] = times
        weights.append(by_target)
    return Folded(fold, folds, in_folds, weights[0], weights[1])


def signal_folds(ranks: Ranks, signal: int, where: Folded) -> SignalFolds:
    """Evaluate a signal in and without every fold.

    Weights are whole numbers, so every sum is exact, in whatever order it is added up.
    """
    order = np.empty(ranks.low.shape[1], dtype=np.int64)
    order[ranks.position[signal]] = np.arange(len(order))
    score = ranks.low[signal].take(order)
    members, others = (side.take(order, axis=1) for side in (where.members, where.others))
    total, involved = _doubled_wins(members, others, score, order, where)
    result = np.empty((3, *involved.shape))
    for repeat, fold_of in enumerate(where.fold):
        by_fold = np.argsort(fold_of.take(order), kind="stable")
        fold = fold_of.take(order.take(by_fold))
        start, end = _runs(score.take(by_fold), fold)
        bounds = np.searchsorted(fold, np.arange(where.folds + 1))
        drawn, running = members.take(by_fold, axis=1), _running(others.take(by_fold, axis=1))
        columns = slice(repeat * where.folds, (repeat + 1) * where.folds)
        mine, theirs = (part[:, columns] for part in where.parts)
        below = running.take(start, axis=1)
        # A member counts at 5% FPR if few enough others of its fold score as high.
        least = running[:, bounds[1:]] - np.floor((FPR_LIMIT + 1e-6) * theirs)
        reached = below >= least.astype(running.dtype).take(fold, axis=1)
        rate = _fold_sums(np.where(reached, drawn, drawn.dtype.type(0)), bounds)
        below += running.take(end, axis=1)
        wins = _fold_sums(drawn * below, bounds) - 2 * running[:, bounds[:-1]] * mine
        rest_pairs = (where.sizes[0] - mine) * (where.sizes[1] - theirs)
        result[0, :, columns] = ratio(total - involved[:, columns] + wins, 2 * rest_pairs)
        result[1, :, columns] = ratio(wins, 2 * mine * theirs)
        result[2, :, columns] = ratio(rate, mine)
    return SignalFolds(*result)


def _doubled_wins(
    members: Weights, others: Weights, score: Small, order: Ints, where: Folded
) -> tuple[Floats, Floats]:
    """Return twice the wins of members over others: all, and those that involve each fold."""
    start, end = _runs(score)
    running = _running(others)
    won = members * (running.take(start, axis=1) + running.take(end, axis=1))
    total = won.sum(axis=1, keepdims=True, dtype=np.float64)
    running = _running(members)
    won += others * (2 * running[:, -1:] - running.take(start, axis=1) - running.take(end, axis=1))
    by_target = np.empty(won.shape)
    by_target[:, order] = won
    return total, by_target @ where.inside


def _running(weight: Weights) -> Weights:
    """Return the weight of all records that come before each place, per draw."""
    sums = np.zeros((len(weight), weight.shape[1] + 1), dtype=weight.dtype)
    np.cumsum(weight, axis=1, out=sums[:, 1:])
    return sums


def _runs(score: Small, fold: NDArray[np.int8] | None = None) -> tuple[Ints, Ints]:
    """Return where the run of each place starts and ends: equal scores of one fold."""
    first = np.ones(len(score), dtype=np.bool_)
    np.not_equal(score[1:], score[:-1], out=first[1:])
    if fold is not None:
        first[1:] |= fold[1:] != fold[:-1]
    edges = np.append(np.flatnonzero(first), len(score))
    run = np.cumsum(first)
    return edges.take(run - 1), edges.take(run)


def _fold_sums(weight: Weights, bounds: Ints) -> Floats:
    """Return the sum over each fold, per draw."""
    return np.add.reduceat(weight, bounds[:-1], axis=1, dtype=np.float64)


class SortedPoolComparison(PoolComparison):
    """Records are the units: each is either a member or a non-member."""

    repeats: int = REPEATS

    def _crossfit(
        self, assignment: Assignment, groups: Groups, inside: tuple[Singles, Singles] | None
    ) -> Deployable | None:
        if inside is None:
            return None
        auc, tpr = self._refit_draws(assignment, groups, inside)
        return Deployable(auc[:, 0], tpr[:, 0])

    def _refit_draws(
        self,
        assignment: Assignment,
        groups: Groups,
        inside: tuple[Singles, Singles],
        weight: tuple[Floats, Floats] | None = None,
    ) -> Floats:
        """Return AUC and TPR as [2, group, draw]."""
        where = folded(assignment, self.targets, inside, weight)
        signals = self.ranks.distinct
        evaluated = [signal_folds(self.ranks, signal, where) for signal in signals.tolist()]
        rest, held, rate = (
            np.stack([getattr(item, name) for item in evaluated])
            for name in ("rest", "held", "rate")
        )
        choices = [choose_in_folds(rest, signals, self.ranks, group) for group in groups]
        return np.array(
            [
                [mean_known(take_chosen(values, chosen)) for chosen in choices]
                for values in (held, rate)
            ]
        )

    def standard_error(self, assignment: Assignment, signal: int, rng: Rng) -> float:
        if not assignment.members.size or not assignment.others.size:
            return 0.0
        members, others = assignment.members, assignment.others[0]
        low, high = self.ranks.low[signal, members], self.ranks.high[signal, members]
        results = []
        for start in range(0, DRAWS, _CHUNK):
            rows, columns = self.drawn(assignment, min(_CHUNK, DRAWS - start), rng)
            running = np.zeros((len(rows), self.ranks.low.shape[1] + 1))
            running[:, self.ranks.position[signal, others] + 1] = columns
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
        drawn = (weight[:, assignment.members], weight[:, assignment.others[0]])
        inside = self.folds(assignment, rng, self.repeats)
        assert inside is not None
        records = self._reweighted(assignment, groups, inside, drawn)
        return Spreads(np.nanstd(pool, axis=1), np.nanstd(records, axis=1), "records")

    def resampled(
        self, assignment: Assignment, groups: Groups, rng: Rng, draws: int
    ) -> Floats | None:
        inside = self.folds(assignment, rng, self.repeats)
        if inside is None:
            return None
        return self._reweighted(assignment, groups, inside, self.drawn(assignment, draws, rng))

    def _reweighted(
        self,
        assignment: Assignment,
        groups: Groups,
        inside: tuple[Singles, Singles],
        weight: tuple[Floats, Floats],
    ) -> Floats:
        results = []
        for start in range(0, len(weight[0]), _CHUNK):
            part = (weight[0][start : start + _CHUNK], weight[1][start : start + _CHUNK])
            results.append(self._refit_draws(assignment, groups, inside, part)[0])
        return np.concatenate(results, axis=1)
