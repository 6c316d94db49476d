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
from functools import cached_property
from itertools import pairwise

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
from synthleak.metrics.types import Bools, Groups, Ints, Rng, Singles

MANY = 400
"""Records above which a release is compared in this way."""
REPEATS = 4
_CHUNK = 50
"""Bootstrap draws at a time."""


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
    """Who is compared: members and others, each with folds and weights.

    `fold[repeat, cell]` is one of `folds`, and `place[cell]` the place of a cell on its side, -1
    where it is on neither; `weight[side][draw, place]` says how often a record was drawn.
    """

    fold: NDArray[np.int8]
    folds: int
    place: NDArray[np.int32]
    member: Bools
    weight: tuple[Floats, Floats]
    inside: tuple[Floats, Floats]
    """Whether each record of a side is in each fold, as [place, repeat · folds + fold]."""

    @cached_property
    def some_on_neither_side(self) -> bool:
        """Whether some cells are not compared."""
        return bool((self.place < 0).any())

    @cached_property
    def size(self) -> tuple[Floats, Floats]:
        """The weight of each side, per draw."""
        members, others = (side.sum(axis=1, keepdims=True) for side in self.weight)
        return members, others

    @cached_property
    def part(self) -> tuple[Floats, Floats]:
        """The weight of each side in each fold, per draw."""
        return self.weight[0] @ self.inside[0], self.weight[1] @ self.inside[1]

    @cached_property
    def bounds(self) -> tuple[Ints, Ints]:
        """Where each fold begins on a side if its records stand fold by fold, by repeat."""
        members, others = (
            side.sum(axis=0).astype(np.int64).reshape(-1, self.folds).cumsum(axis=1)
            for side in self.inside
        )
        first = np.zeros((len(members), 1), dtype=np.int64)
        return np.hstack([first, members]), np.hstack([first, others])


def folded(
    assignment: Assignment,
    targets: int,
    inside: tuple[Singles, Singles],
    weight: tuple[Floats, Floats] | None = None,
) -> Folded:
    """Write folds and bootstrap weights of members and others by target."""
    sides = (assignment.members, assignment.others[0])
    repeats, folds = inside[0].shape[1:]
    fold = np.zeros((repeats, targets), dtype=np.int8)
    place, member = np.full(targets, -1, dtype=np.int32), np.zeros(targets, dtype=np.bool_)
    for side, where in zip(sides, inside, strict=True):
        fold[:, side] = where.argmax(axis=2).T
        place[side] = np.arange(len(side))
    member[sides[0]] = True
    drawn = weight or (np.ones((1, len(sides[0]))), np.ones((1, len(sides[1]))))
    flat = [where.reshape(len(where), -1).astype(np.float64) for where in inside]
    return Folded(fold, folds, place, member, drawn, (flat[0], flat[1]))


class _Lineup:
    """Records of both sides in the order of one signal, perhaps fold by fold.

    `own` and `others` are the places of the records of one side and of the other, in this order. Of
    the others, those before `below[m]` score lower than the m-th of its own, and those before
    `upto[m]` score no higher, or are in an earlier fold.
    """

    def __init__(self, own: Bools, place: NDArray[np.int32], first: Bools) -> None:
        at = np.flatnonzero(own)
        self.own, self.others = place.take(at), place.take(np.flatnonzero(~own))
        if first.all():  # before the m-th of its own come m of its own; the rest are others
            self.below = self.upto = at - np.arange(len(at))
            return
        edges = np.append(np.flatnonzero(first), len(own))
        passed = edges - np.searchsorted(at, edges)
        run = np.cumsum(first, dtype=np.int32).take(at)
        self.below, self.upto = passed.take(run - 1), passed.take(run)

    def outscored(self, running: Floats) -> Floats:
        """Return how many others score lower, plus how many score no higher, per draw."""
        both = running.take(self.below, axis=1)
        if self.upto is self.below:
            both *= 2
        else:
            both += running.take(self.upto, axis=1)
        return both


def _running(weight: Floats, order: NDArray[np.int32]) -> Floats:
    """Return the weight of all records that come before each place in an order, per draw."""
    sums = np.zeros((len(weight), len(order) + 1))
    np.cumsum(weight.take(order, axis=1), axis=1, out=sums[:, 1:])
    return sums


def signal_folds(ranks: Ranks, signal: int, where: Folded) -> SignalFolds:
    """Evaluate a signal in and without every fold.

    Weights are whole numbers, so every sum is exact, in whatever order it is added up.
    """
    order = np.empty(ranks.low.shape[1], dtype=np.int32)
    order[ranks.place[signal]] = np.arange(len(order), dtype=np.int32)
    if where.some_on_neither_side:
        order = order[where.place[order] >= 0]
    score = ranks.low[signal].take(order)
    place, member = where.place.take(order), where.member.take(order)
    total, involved = _won(place, member, _first(score), where)
    made = np.empty((3, *involved.shape))
    for repeat, fold in enumerate(where.fold):
        here = fold.take(order)
        own = np.argsort(here, kind="stable")
        first = _first(score.take(own), here.take(own))
        lineup = _Lineup(member.take(own), place.take(own), first)
        columns = slice(repeat * where.folds, (repeat + 1) * where.folds)
        mine, theirs = (part[:, columns] for part in where.part)
        wins, found = _within_folds(lineup, where, repeat, mine)
        left = total - involved[:, columns] + wins
        made[0, :, columns] = ratio(left, 2 * (where.size[0] - mine) * (where.size[1] - theirs))
        made[1, :, columns] = ratio(wins, 2 * mine * theirs)
        made[2, :, columns] = ratio(found, mine)
    return SignalFolds(*made)


def _first(score: NDArray[np.int32], fold: NDArray[np.int8] | None = None) -> Bools:
    """Say where a new score begins, or a new fold: ties within a fold form a run."""
    first = np.ones(len(score), dtype=np.bool_)
    np.not_equal(score[1:], score[:-1], out=first[1:])
    if fold is not None:
        first[1:] |= fold[1:] != fold[:-1]
    return first


def _won(
    place: NDArray[np.int32], member: Bools, first: Bools, where: Folded
) -> tuple[Floats, Floats]:
    """Return twice the wins of members over others: all, and those that involve each fold."""
    involved: list[Floats] = []
    for side, own in enumerate((member, ~member)):
        lineup = _Lineup(own, place, first)
        both = lineup.outscored(_running(where.weight[1 - side], lineup.others))
        if side == 1:
            np.subtract(2 * where.size[0], both, out=both)
        won = np.empty_like(where.weight[side])
        won[:, lineup.own] = both
        won *= where.weight[side]
        involved.append(won @ where.inside[side])
        if side == 0:
            total = won.sum(axis=1, keepdims=True)
    return total, involved[0] + involved[1]


def _within_folds(
    lineup: _Lineup, where: Folded, repeat: int, mine: Floats
) -> tuple[Floats, Floats]:
    """Return twice the wins of members, and the members found at 5% FPR, within each fold."""
    running = _running(where.weight[1], lineup.others)
    both, weight = lineup.outscored(running), where.weight[0].take(lineup.own, axis=1)
    wins, found = np.empty((2, *mine.shape))
    members, others = (pairwise(side[repeat].tolist()) for side in where.bounds)
    for fold, ((start, stop), (first, last)) in enumerate(zip(members, others, strict=True)):
        before, after = running[:, first, None], running[:, last, None]
        wins[:, fold] = np.einsum("dm,dm->d", weight[:, start:stop], both[:, start:stop])
        wins[:, fold] -= 2 * before[:, 0] * mine[:, fold]
        # A member counts if few enough others score as high: the others' order tells where.
        many = after - running[:, first:last] > (FPR_LIMIT + 1e-6) * (after - before)
        least = first + many.sum(axis=1)
        top = slice(start + int(np.searchsorted(lineup.below[start:stop], least.min())), stop)
        reached = lineup.below[top] >= least[:, None]
        found[:, fold] = np.where(reached, weight[:, top], 0.0).sum(axis=1)
    return wins, found


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
        every = [signal_folds(self.ranks, signal, where) for signal in distinct.tolist()]
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
