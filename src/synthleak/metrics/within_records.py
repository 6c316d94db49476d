"""Each record's releases with it against those without it (docs/method.md §7, §8; `cohort`).

AUC_x compares the scores of one record over releases, so it does not depend on how easy the record
is to recognise. A record whose coins are all equal compares nothing and is left out of the mean, in
the observed assignment and in every redraw alike.

To cross-fit, instances are folded, independently of the coins; with fewer than ten instances
records are. A fold's value is the mean over records of AUC_x within it. For a record, the wins of
members over others in a fold are a rank sum: ``Σ_in R_f − n₁²/2``, where R_f ranks a release within
the fold. R_f does not depend on the coins, so it is computed once for all assignments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.member_comparison import (
    FOLDS,
    REPEATS,
    Deployable,
    MemberComparison,
    Spreads,
    mean_known,
    ratio,
    resample,
    split_folds,
    take_chosen,
)
from synthleak.metrics.membership import FPR_LIMIT, Assignment, Ranks, coins_of
from synthleak.metrics.types import Bools, Groups, Rng, Signals, Singles
from synthleak.metrics.verdict_statistics import RECORD_STATISTICS, Statistics, mean_compared

ASSIGNMENTS_AT_ONCE = 128


def doubled_ranks(values: Floats) -> Singles:
    """Return doubled mid-ranks of `values[set, target, signal]` over sets: [target, set, signal].

    Whole numbers below 2²⁴: products and sums of them are exact in single precision.
    """
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=0)
    return np.ascontiguousarray(np.moveaxis(2 * ranks, 0, 1), dtype=np.float32)


def record_aucs(ranks: Singles, coins: Bools) -> Floats:
    """Return AUC_x as [assignment, target, signal] for `coins[assignment, set, target]`.

    A record that compares nothing is 0.5; `mean_compared` leaves it out of a mean.
    """
    inside = np.ascontiguousarray(np.moveaxis(coins, 2, 0), dtype=np.float32)
    sums = np.matmul(inside, ranks).astype(np.float64) / 2
    members = inside.sum(axis=2, dtype=np.float64)
    others = coins.shape[1] - members
    wins = sums - (members * (members + 1) / 2)[..., None]
    compared = (members * others)[..., None]
    share = np.divide(wins, compared, out=np.full_like(wins, 0.5), where=compared > 0)
    return np.ascontiguousarray(np.moveaxis(share, 0, 1))


def idle(coins: Bools) -> Bools:
    """Return which records compare nothing, as [assignment, target]: all their coins are equal."""
    return np.asarray(coins.all(axis=1) | ~coins.any(axis=1))


def record_statistics(values: Floats, assignments: Sequence[Assignment]) -> Statistics:
    ranks = doubled_ranks(values)
    result = np.empty((len(RECORD_STATISTICS), len(assignments), values.shape[2]))
    for rows, coins in _blocks(values, assignments):
        shares, nothing = record_aucs(ranks, coins), idle(coins)
        for number, item in enumerate(RECORD_STATISTICS):
            result[number, rows] = item.combine(shares, nothing)
    return Statistics(tuple(item.name for item in RECORD_STATISTICS), result)


def _blocks(values: Floats, assignments: Sequence[Assignment]) -> Iterator[tuple[slice, Bools]]:
    """Yield the assignments in blocks, with their coins."""
    sets, targets, _ = values.shape
    for start in range(0, len(assignments), ASSIGNMENTS_AT_ONCE):
        rows = slice(start, start + ASSIGNMENTS_AT_ONCE)
        yield rows, np.stack([coins_of(item, sets, targets) for item in assignments[rows]])


def record_p_values(values: Floats, assignments: Sequence[Assignment]) -> tuple[Floats, Floats]:
    """Return (AUC of the best signal, p) per record; the observed assignment is first.

    The statistic of a record is the largest AUC of its signals, each in units of its spread for the
    number of members and for its ties. A record's p uses its own coins only, and coins are
    independent over records, which is all that false-discovery control needs.
    """
    sets, targets, _ = values.shape
    ranks = doubled_ranks(values)
    spread = _tie_factor(ranks)
    at_least = np.zeros(targets)
    observed = np.zeros(targets)
    best = np.zeros(targets)
    for rows, coins in _blocks(values, assignments):
        shares = record_aucs(ranks, coins)
        members = coins.sum(axis=1)
        weight = np.sqrt(12.0 * members * (sets - members) / (sets + 1))
        scores = (shares - 0.5) * weight[..., None] * spread
        largest = scores.max(axis=2)
        if rows.start == 0:
            observed = largest[0]
            best = np.take_along_axis(shares[0], scores[0].argmax(axis=1)[:, None], axis=1)[:, 0]
            largest = largest[1:]
        at_least += (largest >= observed - 1e-9).sum(axis=0)
    return best, (1 + at_least) / len(assignments)


def _tie_factor(ranks: Singles) -> Floats:
    """Return how much larger the spread of an AUC would be without ties; 0 where all is tied."""
    sets = ranks.shape[1]
    full = (sets**2 - 1) / 12.0
    variance = (ranks.astype(np.float64) / 2).var(axis=1)
    factor: Floats = np.zeros_like(variance)
    np.divide(full, variance, out=factor, where=variance > 1e-12)
    return np.sqrt(factor)


FEW_INSTANCES = 2 * FOLDS
SIGNALS_AT_ONCE = 16
"""Signals that are evaluated together: what 200 assignments make of them stays in the cache."""
Share = tuple[Floats, Bools]
"""AUC_x, and where nothing is compared."""


@dataclass(frozen=True)
class FoldMeasurements:
    """`rest` and `held`: mean AUC_x without and within each fold, as [signal, assignment, fold]."""

    rest: Floats
    held: Floats


def folds_of(sets: int, targets: int, rng: Rng, repeats: int = REPEATS) -> Singles | None:
    """Return `inside[set or target, fold]` over all repeats, or None if neither can be folded."""
    units = sets if sets >= FEW_INSTANCES else targets
    folds = min(FOLDS, units)
    if folds < 2:
        return None
    return split_folds(units, folds, rng, repeats).reshape(units, -1)


def fold_measurements(values: Floats, coins: Bools, inside: Singles) -> FoldMeasurements:
    """Evaluate every signal without and within every fold, for `coins[assignment, set, target]`."""
    sets = values.shape[0]
    if sets < FEW_INSTANCES:
        return _over_records(values, coins, inside)
    signals = range(0, values.shape[2], SIGNALS_AT_ONCE)
    parts = [_fold_block(values[:, :, n : n + SIGNALS_AT_ONCE], coins, inside) for n in signals]
    return FoldMeasurements(
        np.concatenate([part.rest for part in parts]), np.concatenate([part.held for part in parts])
    )


def _fold_block(values: Floats, coins: Bools, inside: Singles) -> FoldMeasurements:
    rest, held = _Sum(values.shape[1]), _Sum(values.shape[1])
    for without, within in _each_record(values, coins, inside):
        rest.add(*without)
        held.add(*within)
    return FoldMeasurements(rest.mean(), held.mean())


class _Sum:
    """A sum over records of AUC_x, and the number of records that compare nothing."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._total: Floats = np.zeros(1)
        self._missing: Floats = np.zeros(1)

    def add(self, share: Floats, idle: Bools) -> None:
        if self._total.ndim == 1:
            self._total, self._missing = share, idle.astype(np.float64)
        else:
            self._total += share
            self._missing += idle

    def mean(self) -> Floats:
        """Return the mean over the records that compare something."""
        return mean_compared(self._total, self._missing, self._records)


@dataclass(frozen=True)
class RecordFolds:
    """AUC_x of one assignment per [signal, target, fold], and which of them compare nothing."""

    share: Floats
    idle: Floats

    def resampled(self, weight: Floats) -> Floats:
        """Return the mean per [signal, draw, fold], records drawn `weight[draw, target]` times."""
        drawn = weight / weight.sum(axis=1, keepdims=True)
        return mean_compared(drawn @ self.share, drawn @ self.idle, 1.0)


def aucs_per_record(
    values: Floats, coins: Bools, inside: Singles
) -> tuple[RecordFolds, RecordFolds]:
    """Return AUC_x of the first assignment without and within each fold."""
    rest, held = zip(*_each_record(values, coins[:1], inside), strict=True)
    return _stacked(rest), _stacked(held)


def _stacked(result: Sequence[Share]) -> RecordFolds:
    return RecordFolds(
        np.stack([share[:, 0] for share, _ in result], axis=1),
        np.stack([idle[0] for _, idle in result]).astype(np.float64),
    )


def _each_record(values: Floats, coins: Bools, inside: Singles) -> Iterator[tuple[Share, Share]]:
    """Yield AUC_x of each record without and within each fold."""
    for position in range(values.shape[1]):
        wins, member = doubled_wins(values[:, position]), coins[:, :, position].astype(np.float32)
        within = wins @ inside
        without = wins.sum(axis=2)[..., None] - within
        yield (
            _share(without * (1 - inside), member, 1 - inside),
            _share(within * inside, member, inside),
        )


def doubled_wins(scores: Floats) -> Singles:
    """Return `wins[signal, i, j]` of a record's `scores[set, signal]`: 2 above, 1 tied, 0 below."""
    column = scores.T
    one, two = column[:, :, None], column[:, None, :]
    wins: Singles = (one > two).astype(np.float32)
    wins += one >= two
    return wins


def _share(ranks: Singles, member: Singles, inside: Singles) -> Share:
    """Return AUC_x per [signal, assignment, fold] from doubled ranks; 0.5 if none compare."""
    signals, sets, folds = ranks.shape
    flat: Singles = member @ ranks.transpose(1, 0, 2).reshape(sets, -1)
    sums = flat.reshape(len(member), signals, folds).transpose(1, 0, 2).astype(np.float64)
    joined = (member @ inside).astype(np.float64)
    compared = joined * (inside.sum(axis=0) - joined)
    return _divided(sums, joined, compared)


def _divided(sums: Floats, joined: Floats, compared: Floats) -> Share:
    """Return the share of wins among `compared` pairs, in place; 0.5, and True, without pairs."""
    nothing = compared == 0
    sums -= joined**2
    sums /= 2 * np.where(nothing, 1.0, compared)
    if nothing.any():
        sums[:, nothing] = 0.5
    return sums, nothing


def _over_records(values: Floats, coins: Bools, inside: Singles) -> FoldMeasurements:
    shares = record_aucs(doubled_ranks(values), coins).transpose(2, 0, 1)
    nothing = idle(coins).astype(np.float64)
    rest, held = (
        mean_compared(shares @ side, nothing @ side, side.sum(axis=0))
        for side in (1 - inside, inside)
    )
    return FoldMeasurements(rest, held)


def choose_folds(measured: FoldMeasurements, group: Signals) -> Signals:
    """Return each assignment's and fold's best signal of a group, the first on ties."""
    return np.asarray(group[measured.rest[group].round(9).argmax(axis=0)])


def held_auc(measured: FoldMeasurements, chosen: Signals) -> Floats:
    return np.asarray(take_chosen(measured.held, chosen).mean(axis=1))


def held_tpr(ranks: Ranks, coins: Bools, inside: Singles, choices: Sequence[Signals]) -> Floats:
    """Return the deployable TPR at 5% FPR per [group, assignment]: all coins of a fold together."""
    count, sets, targets = coins.shape
    by_set = sets >= FEW_INSTANCES
    entries = np.arange(sets * targets).reshape(sets, targets)
    chosen = np.stack(choices)
    total = np.zeros(chosen.shape[:2])
    for fold, members in enumerate(inside.T > 0):
        here = (entries[members] if by_set else entries[:, members]).ravel()
        joined = coins.reshape(count, -1)[:, here]
        wanted, row = np.unique(chosen[:, :, fold] * count + np.arange(count), return_inverse=True)
        signal, assignment = np.divmod(wanted, count)
        rates = _tpr(ranks.low[signal[:, None], here], joined[assignment])
        total += rates[row].reshape(total.shape)
    return np.asarray(total / inside.shape[1])


def _tpr(scores: NDArray[np.int32], member: Bools) -> Floats:
    """Return TPR at 5% FPR of each row of ranks: the members above all but 5% of the others."""
    others = np.sort(np.where(member, -1, scores), axis=1)
    allowed = np.floor(FPR_LIMIT * np.maximum((~member).sum(axis=1), 1) + 1e-9).astype(np.int64)
    threshold = np.take_along_axis(others, others.shape[1] - 1 - allowed[:, None], axis=1)
    hits = (member & (scores > threshold)).sum(axis=1)
    return np.asarray(hits / np.maximum(member.sum(axis=1), 1))


def resampled_instances(
    values: Floats, coins: Bools, inside: Singles, weight: Floats, finalists: Signals
) -> FoldMeasurements:
    """Evaluate one assignment's folds again with instances drawn `weight[draw, set]` times.

    Releases are weighted, never copied, so that a release is on one side of a fold only.
    """
    draws, sets = weight.shape
    drawn = weight.T.astype(np.float32)
    fold = (drawn[:, :, None] * inside[:, None, :]).reshape(sets, -1)
    everyone = np.repeat(drawn, inside.shape[1], axis=1)
    shape = (len(finalists), draws, inside.shape[1])
    rest, held = _Sum(values.shape[1]), _Sum(values.shape[1])
    for position in range(values.shape[1]):
        joined = coins[:, position]
        wins = doubled_wins(values[:, position][:, finalists])[:, joined]
        within = wins @ fold
        # Whole numbers, so the difference is exact.
        without = np.repeat(wins @ drawn, inside.shape[1], axis=2) - within
        held.add(*_weighed(within, joined, fold))
        rest.add(*_weighed(without, joined, everyone - fold))
    return FoldMeasurements(rest.mean().reshape(shape), held.mean().reshape(shape))


def _weighed(ranks: Singles, member: Bools, side: Singles) -> Share:
    """Return AUC_x per [signal, column] of `side`, from the members' doubled ranks within it."""
    inside = side[member]
    sums = np.einsum("kmc,mc->kc", ranks, inside).astype(np.float64)
    joined = inside.sum(axis=0, dtype=np.float64)
    compared = joined * (side.sum(axis=0, dtype=np.float64) - joined)
    return _divided(sums, joined, compared)


def resampled_records(
    rest: RecordFolds, held: RecordFolds, weight: Floats, groups: Groups
) -> Floats:
    """Return the deployable AUC per [group, draw], records drawn `weight[draw, target]` times."""
    measured = FoldMeasurements(rest.resampled(weight), held.resampled(weight))
    return np.stack([held_auc(measured, choose_folds(measured, group)) for group in groups])


def resampled_shares(shares: Floats, inside: Singles, weight: Floats, groups: Groups) -> Floats:
    """Return the deployable AUC per [group, draw] where folds are parts of the records.

    `shares[signal, target]` is AUC_x of one assignment; `weight[draw, target]` is how often each
    record is drawn, 0 if it compares nothing.
    """
    drawn = shares[:, None, :] * weight
    within = ratio(drawn @ inside, weight @ inside)
    without = ratio(drawn @ (1 - inside), weight @ (1 - inside))
    result = []
    for group in groups:
        best = group[np.nan_to_num(without[group], nan=-1.0).round(9).argmax(axis=0)]
        result.append(mean_known(take_chosen(within, best)))
    return np.asarray(result)


DRAWS = 500
RESELECTING_DRAWS = 100
RESELECTING_REPEATS = 2
FINALISTS = 12


class RecordComparison(MemberComparison):
    """Every entry is a trial: the coin of one record in one release."""

    def coins(self, assignments: Sequence[Assignment]) -> Bools:
        return np.stack(
            [coins_of(assignment, self.sets, self.targets) for assignment in assignments]
        )

    def statistics(self, assignments: Sequence[Assignment]) -> Statistics:
        return record_statistics(self.values, assignments)

    def sides(self, assignment: Assignment) -> tuple[float, float]:
        """Return the numbers of coins that came out either way."""
        return float(len(assignment.members)), float(assignment.others.shape[1])

    def deployable(
        self, assignments: Sequence[Assignment], groups: Groups, rng: Rng
    ) -> Deployable | None:
        """Cross-fit over instances, or over records where there are few instances."""
        inside = folds_of(self.sets, self.targets, rng)
        if inside is None:
            return None
        coins = self.coins(assignments)
        measured = fold_measurements(self.values, coins, inside)
        choices = [choose_folds(measured, group) for group in groups]
        return Deployable(
            np.stack([held_auc(measured, chosen) for chosen in choices]),
            held_tpr(self.ranks, coins, inside, choices),
        )

    def standard_error(self, assignment: Assignment, signal: int, rng: Rng) -> float:
        """Resample instances with all their coins; records where there are few instances."""
        coins = self.coins([assignment])[0]
        if self.sets < FEW_INSTANCES:
            shares = record_aucs(doubled_ranks(self.values[..., [signal]]), coins[None])[0, :, 0]
            drawn, nothing = resample(self.targets, DRAWS, rng), idle(coins[None])[0]
            return float(mean_compared(drawn @ shares, drawn @ nothing, self.targets).std())
        weight = resample(self.sets, DRAWS, rng)
        total, missing = np.zeros(DRAWS), np.zeros(DRAWS)
        for position in range(self.targets):
            wins = doubled_wins(self.values[:, position][:, [signal]])[0]
            joined, absent = weight * coins[:, position], weight * ~coins[:, position]
            compared = joined.sum(axis=1) * absent.sum(axis=1)
            top = np.einsum("di,di->d", joined @ wins, absent)
            total += np.divide(top, 2 * compared, out=np.full(DRAWS, 0.5), where=compared > 0)
            missing += compared == 0
        return float(mean_compared(total, missing, self.targets).std())

    def spreads(self, assignment: Assignment, groups: Groups, rng: Rng) -> Spreads | None:
        """Resample instances with all their coins, and records with all their releases."""
        inside = folds_of(self.sets, self.targets, rng, RESELECTING_REPEATS)
        if inside is None:
            return None
        coins = self.coins([assignment])
        records = resample(self.targets, RESELECTING_DRAWS, rng)
        if self.sets < FEW_INSTANCES:
            errors = np.nanstd(self._few_instances(coins, inside, groups, records), axis=1)
            return Spreads(errors, errors, "records")
        rest, held = aucs_per_record(self.values, coins, inside)
        drawn = resampled_records(rest, held, records, groups)
        level = rest.share.mean(axis=(1, 2))
        weight = resample(self.sets, RESELECTING_DRAWS, rng)
        return Spreads(
            self._over_instances(coins[0], inside, groups, level, weight).std(axis=1),
            drawn.std(axis=1),
            "instances",
        )

    def resampled(
        self, assignment: Assignment, groups: Groups, rng: Rng, draws: int
    ) -> Floats | None:
        """Resample instances with all their coins; records where there are few instances."""
        inside = folds_of(self.sets, self.targets, rng, RESELECTING_REPEATS)
        if inside is None:
            return None
        coins = self.coins([assignment])
        if self.sets < FEW_INSTANCES:
            weight = resample(self.targets, draws, rng)
            return self._few_instances(coins, inside, groups, weight)
        level = record_aucs(doubled_ranks(self.values), coins)[0].mean(axis=0)
        weight = resample(self.sets, draws, rng)
        return self._over_instances(coins[0], inside, groups, level, weight)

    def _few_instances(
        self, coins: Bools, inside: Singles, groups: Groups, weight: Floats
    ) -> Floats:
        shares = record_aucs(doubled_ranks(self.values), coins)[0].T
        return resampled_shares(shares, inside, weight * ~idle(coins)[0], groups)

    def _over_instances(
        self, coins: Bools, inside: Singles, groups: Groups, level: Floats, weight: Floats
    ) -> Floats:
        """Choose among each group's best signals only: the others hardly ever win a fold."""
        leading = [
            np.sort(group[np.argsort(-level[group], kind="stable")[:FINALISTS]]) for group in groups
        ]
        finalists = np.unique(np.concatenate(leading))
        measured = resampled_instances(self.values, coins, inside, weight, finalists)
        return np.stack(
            [
                held_auc(measured, choose_folds(measured, np.searchsorted(finalists, best)))
                for best in leading
            ]
        )
