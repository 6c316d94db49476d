"""Members against non-members: statistics, the deployable AUC and intervals (docs/method.md §8).

`MemberComparison` is the only place where the statistics of the designs differ: verdict, deployable
AUC, intervals and power are built on it. `PoolComparison` compares members with non-members of the
pool (designs `lone` and `given`), `SortedPoolComparison` does so for many records of one release,
and `within_records.py` compares each record with itself (`cohort`).

The deployable AUC chooses a proxy on four folds and evaluates it on the fifth. Scores of different
proxies are never pooled: each fold has its own AUC, and the deployable AUC is their mean. A fold is
a part of the members and of the others (instances; records where there is one release). Every fold
needs only the wins of each member over each other unit, so they are counted once per assignment
and summed by blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.membership import FPR_LIMIT, Assignment, Ranks, Small, ranks_of
from synthleak.metrics.types import Groups, Ints, Rng, Signals, Singles
from synthleak.metrics.verdict_statistics import (
    FEW_OTHERS,
    PoolStatistic,
    Statistics,
    pool_statistics,
)

REPEATS = 20
FOLDS = 5


@dataclass(frozen=True)
class Deployable:
    """The cross-fitted AUC and TPR at 5% FPR per group of signals, and perhaps assignment."""

    auc: Floats
    tpr: Floats


def split_folds(
    units: int, folds: int, rng: Rng, repeats: int = REPEATS, group: Ints | None = None
) -> Singles:
    """Return `inside[unit, repeat, fold]`: 1 where the unit is evaluated, each once per repeat.

    Units of one `group` share a fold: a proxy chosen on one record of a person would otherwise be
    evaluated on another.
    """
    if group is not None:
        names, group_of = np.unique(group, return_inverse=True)
        return split_folds(len(names), folds, rng, repeats)[group_of]
    base = np.arange(units) % folds
    fold = np.stack([rng.permutation(base) for _ in range(repeats)], axis=1)
    return np.asarray((fold[:, :, None] == np.arange(folds)).astype(np.float32))


@dataclass(frozen=True)
class Spreads:
    """Standard errors of the deployable AUC per group: for this pool, and for records like these.

    `over` says what was resampled for the first.
    """

    pool: Floats
    records: Floats
    over: str


class MemberComparison(ABC):
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

        The draws depend on the plan and `rng` alone: two entries of one plan with the same stream
        draw the same instances, so their difference is paired.
        """


def normal_scores(low: Floats, high: Floats) -> Floats:
    """Return normal scores of mid-ranks, for whatever needs magnitudes (docs/method.md §7)."""
    from scipy.stats import norm

    return np.asarray(norm.ppf((low + high) / (2 * low.shape[-1])))


def resample(units: int, draws: int, rng: Rng, group: Ints | None = None) -> Floats:
    """Return how often each unit is drawn in each bootstrap draw, as [draw, unit].

    Units of one `group` are drawn together: records of one person are not independent.
    """
    if group is None:
        return rng.multinomial(units, np.full(units, 1 / units), size=draws).astype(np.float64)
    names, group_of = np.unique(group, return_inverse=True)
    return resample(len(names), draws, rng)[:, group_of]


@dataclass(frozen=True)
class Wins:
    """`doubled[signal, member, other]`: twice the rounds a member outscores a unit, ties once.

    Whole numbers, so that sums over folds are exact. `mass[other]` is the total weight of a unit's
    rounds, `signals` the distinct signals that were counted.
    """

    doubled: Singles
    mass: Floats
    signals: Signals


def wins_of(
    ranks: Ranks, assignment: Assignment, targets: int, record_weight: Floats | None = None
) -> Wins:
    """Count the wins of every member over every other unit, for each distinct signal.

    `record_weight[target]` counts the non-members of a unit by record, to resample records.
    """
    entries, weight = _distinct_others(assignment)
    if record_weight is not None:
        weight = weight * record_weight[entries % targets].astype(np.uint16)
    signals = ranks.distinct
    low = ranks.low.astype(np.int16) if ranks.low.shape[1] < 2**15 else ranks.low
    member = low[np.ix_(signals, assignment.members)][:, :, None]
    doubled = np.zeros((len(signals), len(assignment.members), len(entries)), dtype=np.uint16)
    for k in range(entries.shape[1]):
        other = low[np.ix_(signals, entries[:, k])][:, None, :]
        better = (member > other).view(np.uint8)
        better += (member >= other).view(np.uint8)
        doubled += better * weight[:, k]
    return Wins(doubled.astype(np.float32), weight.sum(axis=1, dtype=np.float64), signals)


def _distinct_others(assignment: Assignment) -> tuple[Ints, NDArray[np.uint16]]:
    """Return each unit's distinct entries, padded, and the number of rounds that drew each."""
    ordered = np.sort(assignment.others.T, axis=1)
    changed = np.ones_like(ordered, dtype=np.bool_)
    changed[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    slot = changed.cumsum(axis=1) - 1
    width = int(slot.max()) + 1
    entries = np.repeat(ordered[:, :1], width, axis=1)
    counts = np.zeros((len(ordered), width), dtype=np.uint16)
    rows = np.broadcast_to(np.arange(len(ordered))[:, None], ordered.shape)
    entries[rows, slot] = ordered
    np.add.at(counts, (rows, slot), 1)
    return entries, counts


def fold_aucs(
    wins: Wins, inside: tuple[Singles, Singles], weight: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats]:
    """Return (AUC without the fold, AUC in the fold) as [signal, repeat, fold].

    `inside` places members and other units into folds; `weight` is how often each was drawn.
    An empty fold is NaN.
    """
    rows, columns = inside
    row_weight, column_weight = weight or (np.ones(len(rows)), np.ones(len(columns)))
    rows = rows * row_weight.astype(np.float32)[:, None, None]
    columns = columns * column_weight.astype(np.float32)[:, None, None]
    repeats, folds = rows.shape[1:]
    signals, members, others = wins.doubled.shape
    right = wins.doubled.reshape(-1, others) @ columns.reshape(others, -1)
    right = right.reshape(signals, members, repeats, folds)
    blocks = np.matmul(rows.transpose(1, 2, 0), right.transpose(0, 2, 1, 3)).astype(np.float64)
    row_mass = rows.sum(axis=0, dtype=np.float64)
    column_mass = (columns * wins.mass[:, None, None]).sum(axis=0)
    diagonal = np.arange(folds)
    held = blocks[:, :, diagonal, diagonal]
    rest = blocks.sum(axis=(2, 3))[..., None] - blocks.sum(axis=3) - blocks.sum(axis=2) + held
    rest_mass = (row_mass.sum(1, keepdims=True) - row_mass) * (
        column_mass.sum(1, keepdims=True) - column_mass
    )
    return ratio(rest, 2 * rest_mass), ratio(held, 2 * row_mass * column_mass)


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, NaN where there is nothing to divide by."""
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 1e-12)


def mean_known(values: Floats) -> Floats:
    """Return the mean over the last axis; empty folds (NaN) do not count."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1).astype(np.float64))


def crossfit(
    ranks: Ranks,
    assignment: Assignment,
    targets: int,
    groups: Groups,
    inside: tuple[Singles, Singles] | None,
) -> Deployable | None:
    """Cross-fit one assignment, for every group of signals; None where there are no folds."""
    if inside is None:
        return None
    wins = wins_of(ranks, assignment, targets)
    rest, held = fold_aucs(wins, inside)
    choices = [choose_in_folds(rest, wins.signals, ranks, group) for group in groups]
    aucs = [float(np.nanmean(take_chosen(held, chosen))) for chosen in choices]
    rates = _held_tpr(ranks, assignment, wins.signals, choices, inside)
    return Deployable(np.asarray(aucs), rates)


def choose_in_folds(rest: Floats, signals: Signals, ranks: Ranks, group: Signals) -> Signals:
    """Return the place in `signals` of each fold's best signal of a group, first on ties."""
    places = np.unique(np.searchsorted(signals, ranks.same[group]))
    best = np.nan_to_num(rest[places], nan=-1.0).round(9).argmax(axis=0)
    return np.asarray(places[best])


def take_chosen(held: Floats, chosen: Signals) -> Floats:
    """Return the held-out value of each fold's chosen signal."""
    return np.asarray(np.take_along_axis(held, chosen[None], axis=0)[0])


def _held_tpr(
    ranks: Ranks,
    assignment: Assignment,
    signals: Signals,
    choices: Sequence[Signals],
    inside: tuple[Singles, Singles],
) -> Floats:
    """Return TPR at 5% FPR within folds, rounds pooled, since a fold has few units per round."""
    rows, columns = inside
    entries, weight = _distinct_others(assignment)
    share = weight / np.float32(len(assignment.others))
    hits = np.zeros((len(choices), *choices[0].shape))
    for column in np.unique(choices):
        low = ranks.low[signals[column]]
        reach = low[entries] >= low[assignment.members][:, None, None]
        reached = np.einsum("mok,ok->mo", reach, share)
        rate = (reached @ columns.reshape(len(columns), -1)).reshape(-1, *hits.shape[1:])
        n_found = ((rate <= (FPR_LIMIT + 1e-6) * columns.sum(axis=0)) * rows).sum(axis=0)
        hits += np.where(np.stack(choices) == column, n_found, 0.0)
    return np.asarray((hits / rows.sum(axis=0)).mean(axis=(1, 2)))


DRAWS = 500
RESELECTING_DRAWS = 100
RESELECTING_REPEATS = 4


class PoolComparison(MemberComparison):
    """Instances are the units: each holds one member, or the rounds of one non-member.

    Where there is one release, records are the units. Records of one `group[target]` then share
    folds and bootstrap draws.
    """

    def __init__(
        self,
        values: Floats,
        group: Ints | None = None,
        wanted: Sequence[PoolStatistic] = FEW_OTHERS,
    ) -> None:
        super().__init__(values)
        self._group = group
        self._wanted = wanted

    def statistics(self, assignments: Sequence[Assignment]) -> Statistics:
        return pool_statistics(self.ranks, assignments, self._wanted)

    def _units(self, assignment: Assignment) -> tuple[Ints, Ints]:
        """Return the unit of each member and of each other: records of one group are one unit."""
        if self._group is None:
            return np.arange(len(assignment.members)), np.arange(assignment.others.shape[1])
        return self._group[assignment.members], self._group[assignment.others[0]]

    def sides(self, assignment: Assignment) -> tuple[float, float]:
        """Return the effective number of units of either side.

        Groups of n₁, n₂, … records count as (Σn)²/Σn² groups of equal size: a few large ones
        dominate.
        """
        members, others = (
            np.unique(unit, return_counts=True)[1] for unit in self._units(assignment)
        )
        return _effective(members), _effective(others)

    def folds(
        self, assignment: Assignment, rng: Rng, repeats: int
    ) -> tuple[Singles, Singles] | None:
        """Assign members and others to folds; None where there are too few units."""
        members, others = self._units(assignment)
        folds = min(FOLDS, len(np.unique(members)), len(np.unique(others)))
        if folds < 2:
            return None
        return (
            split_folds(len(members), folds, rng, repeats, members),
            split_folds(len(others), folds, rng, repeats, others),
        )

    def drawn(self, assignment: Assignment, draws: int, rng: Rng) -> tuple[Floats, Floats]:
        """Resample members and others, each within its side."""
        members, others = self._units(assignment)
        return (
            resample(len(members), draws, rng, members),
            resample(len(others), draws, rng, others),
        )

    def deployable(
        self, assignments: Sequence[Assignment], groups: Groups, rng: Rng
    ) -> Deployable | None:
        """Cross-fit over instances, or over records where there is one release."""
        first, *redrawn = [
            self._crossfit(assignment, groups, self.folds(assignment, rng, self.repeats))
            for assignment in assignments
        ]
        if first is None:
            return None
        # A redraw that cannot be folded counts against the finding.
        worst = Deployable(np.ones(len(groups)), np.ones(len(groups)))
        results = [first, *(item or worst for item in redrawn)]
        return Deployable(
            np.stack([item.auc for item in results], axis=1),
            np.stack([item.tpr for item in results], axis=1),
        )

    def _crossfit(
        self, assignment: Assignment, groups: Groups, inside: tuple[Singles, Singles] | None
    ) -> Deployable | None:
        return crossfit(self.ranks, assignment, self.targets, groups, inside)

    def standard_error(self, assignment: Assignment, signal: int, rng: Rng) -> float:
        """Resample members and other units, each within its side."""
        if not assignment.members.size or not assignment.others.size:
            return 0.0
        wins = wins_of(self.ranks, assignment, self.targets)
        column = int(np.searchsorted(wins.signals, self.ranks.same[signal]))
        rows, columns = self.drawn(assignment, DRAWS, rng)
        sums = np.einsum("dm,mo,do->d", rows, wins.doubled[column], columns, optimize=True)
        mass = rows.sum(axis=1) * (columns @ wins.mass)
        return float((sums / (2 * mass)).std())

    def spreads(self, assignment: Assignment, groups: Groups, rng: Rng) -> Spreads | None:
        """Resample units within each side, and records with all their trials."""
        inside = self.folds(assignment, rng, RESELECTING_REPEATS)
        if inside is None:
            return None
        wins = wins_of(self.ranks, assignment, self.targets)
        pool = self._over_units(wins, assignment, inside, groups, rng, RESELECTING_DRAWS)
        records = []
        for weight in resample(self.targets, RESELECTING_DRAWS, rng, self._group):
            drawn = wins_of(self.ranks, assignment, self.targets, weight)
            rows = weight[assignment.members % self.targets]
            columns = np.ones(assignment.others.shape[1])
            records.append(self._refit(drawn, inside, (rows, columns), groups))
        over = "instances" if self.sets > 1 else "records"
        return Spreads(
            _spread(pool, self.repeats), _spread(np.stack(records, axis=1), self.repeats), over
        )

    def resampled(
        self, assignment: Assignment, groups: Groups, rng: Rng, draws: int
    ) -> Floats | None:
        """Resample units within each side, and choose again."""
        inside = self.folds(assignment, rng, RESELECTING_REPEATS)
        if inside is None:
            return None
        wins = wins_of(self.ranks, assignment, self.targets)
        return mean_known(self._over_units(wins, assignment, inside, groups, rng, draws))

    def _over_units(
        self,
        wins: Wins,
        assignment: Assignment,
        inside: tuple[Singles, Singles],
        groups: Groups,
        rng: Rng,
        draws: int,
    ) -> Floats:
        """Return the deployable AUC as [group, draw, repeat], each side resampled on its own."""
        weights = zip(*self.drawn(assignment, draws, rng), strict=True)
        return np.stack([self._refit(wins, inside, weight, groups) for weight in weights], axis=1)

    def _refit(
        self,
        wins: Wins,
        inside: tuple[Singles, Singles],
        weight: tuple[Floats, Floats],
        groups: Groups,
    ) -> Floats:
        """Return the deployable AUC of one draw as [group, repeat]."""
        rest, held = fold_aucs(wins, inside, weight)
        results = []
        for group in groups:
            chosen = choose_in_folds(rest, wins.signals, self.ranks, group)
            results.append(mean_known(take_chosen(held, chosen)))
        return np.asarray(results)


def _spread(aucs: Floats, repeats: int) -> Floats:
    """Return the standard error per group, from `aucs[group, draw, repeat]` with fewer repeats.

    A mean over few repeats varies more between draws, because each repeat chooses for itself. This
    part, the interaction of draws and repeats, is scaled to the number of `repeats` that the
    deployable AUC is averaged over.
    """
    aucs = aucs[:, np.isfinite(aucs).all(axis=(0, 2))]
    _, draws, drawn_repeats = aucs.shape
    if draws < 2:
        return np.full(len(aucs), np.nan)
    by_draw = aucs.mean(axis=2, keepdims=True)
    apart = aucs - by_draw - aucs.mean(axis=1, keepdims=True)
    apart += aucs.mean(axis=(1, 2), keepdims=True)
    interaction = (apart**2).sum(axis=(1, 2)) / ((draws - 1) * max(drawn_repeats - 1, 1))
    variance = by_draw[..., 0].var(axis=1) - interaction * (1 / drawn_repeats - 1 / repeats)
    return np.asarray(np.sqrt(np.maximum(variance, 0.0)))


def _effective(sizes: Ints) -> float:
    return float(sizes.sum()) ** 2 / max(float((sizes**2).sum()), 1.0)


MANY = 400
"""Records above which a release is compared in this way."""
SORTED_REPEATS = 4
"""Foldings of many records, where the folding hardly matters."""
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
    """Many records of one release, without a table of all pairs (docs/method.md §11).

    Ten thousand members against ten thousand others make a hundred million pairs per signal. But
    counting wins needs no pairs: in sorted order, a running sum of the others gives the number that
    each member outscores. Sorted by fold first, one running sum serves all folds, and the values
    without a fold follow from the sums over all records; so time grows with the number of records.
    Values are those of `PoolComparison` with fewer repeats of the folding.
    """

    repeats: int = SORTED_REPEATS

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
