"""Cross-fitting where each record is compared with itself (docs/method.md §8; design `cohort`).

Folds are parts of the instances, drawn independently of the coins; with fewer than ten instances
they are parts of the records. A fold's value is the mean over records of AUC_x within it. For a
record, the wins of members over others in a fold are a rank sum: ``Σ_in R_f − n₁²/2``, where R_f
ranks a release within the fold. R_f does not depend on the coins, so it is computed once for all
assignments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.crossfit.folds import FOLDS, REPEATS, fold_count, split_folds
from synthleak.metrics.crossfit.pool import mean_known, ratio, take_chosen
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.roc import FPR_LIMIT
from synthleak.metrics.statistics.table import mean_compared
from synthleak.metrics.statistics.within_records import doubled_ranks, idle, record_aucs
from synthleak.metrics.types import Bools, Groups, Rng, Signals, Singles

FEW_INSTANCES = 2 * FOLDS
BLOCK = 16
"""Signals that are evaluated together: what 200 assignments make of them stays in the cache."""


@dataclass(frozen=True)
class FoldMeasurements:
    """`rest` and `held`: mean AUC_x without and within each fold, as [signal, assignment, fold]."""

    rest: Floats
    held: Floats


def folds_of(sets: int, targets: int, rng: Rng, repeats: int = REPEATS) -> Singles | None:
    """Return `inside[set or target, fold]` over all repeats, or None if neither can be folded."""
    units = sets if sets >= FEW_INSTANCES else targets
    folds = fold_count(units)
    if folds < 2:
        return None
    return split_folds(units, folds, rng, repeats).reshape(units, -1)


def fold_measurements(values: Floats, coins: Bools, inside: Singles) -> FoldMeasurements:
    """Evaluate every signal without and within every fold, for `coins[assignment, set, target]`."""
    sets = values.shape[0]
    if sets < FEW_INSTANCES:
        return _over_records(values, coins, inside)
    signals = range(0, values.shape[2], BLOCK)
    parts = [_fold_block(values[:, :, n : n + BLOCK], coins, inside) for n in signals]
    return FoldMeasurements(
        np.concatenate([part.rest for part in parts]), np.concatenate([part.held for part in parts])
    )


def _fold_block(values: Floats, coins: Bools, inside: Singles) -> FoldMeasurements:
    rest, held = _Sum(values.shape[1]), _Sum(values.shape[1])
    for rank_rest, rank_held, member in _each_record(values, coins, inside):
        rest.add(*_share(rank_rest, member, 1 - inside))
        held.add(*_share(rank_held, member, inside))
    return FoldMeasurements(rest.mean(), held.mean())


class _Sum:
    """A sum over records of AUC_x, and the number of records that compare nothing."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._total: Floats = np.zeros(1)
        self._missing: Floats = np.zeros(1)

    def add(self, share: Floats, idle: Bools) -> None:
        """Add one record."""
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
    rest, held = [], []
    for rank_rest, rank_held, member in _each_record(values, coins[:1], inside):
        rest.append(_share(rank_rest, member, 1 - inside))
        held.append(_share(rank_held, member, inside))
    return _stacked(rest), _stacked(held)


def _stacked(result: Sequence[tuple[Floats, Bools]]) -> RecordFolds:
    return RecordFolds(
        np.stack([share[:, 0] for share, _ in result], axis=1),
        np.stack([idle[0] for _, idle in result]).astype(np.float64),
    )


def _each_record(
    values: Floats, coins: Bools, inside: Singles
) -> Iterator[tuple[Singles, Singles, Singles]]:
    """Yield, per record, doubled ranks without and within each fold, and its coins."""
    for position in range(values.shape[1]):
        wins = doubled_wins(values[:, position])
        within = wins @ inside
        without = wins.sum(axis=2)[..., None] - within
        yield without * (1 - inside), within * inside, coins[:, :, position].astype(np.float32)


def doubled_wins(scores: Floats) -> Singles:
    """Return `wins[signal, i, j]` of a record's `scores[set, signal]`: 2 above, 1 tied, 0 below."""
    column = scores.T
    one, two = column[:, :, None], column[:, None, :]
    wins: Singles = (one > two).astype(np.float32)
    wins += one >= two
    return wins


def _share(ranks: Singles, member: Singles, inside: Singles) -> tuple[Floats, Bools]:
    """Return AUC_x per [signal, assignment, fold] from doubled ranks; 0.5 if none compare."""
    signals, sets, folds = ranks.shape
    flat: Singles = member @ ranks.transpose(1, 0, 2).reshape(sets, -1)
    sums = flat.reshape(len(member), signals, folds).transpose(1, 0, 2).astype(np.float64)
    joined = (member @ inside).astype(np.float64)
    compared = joined * (inside.sum(axis=0) - joined)
    return _divided(sums, joined, compared)


def _divided(sums: Floats, joined: Floats, compared: Floats) -> tuple[Floats, Bools]:
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
    chosen: Signals = group[measured.rest[group].round(9).argmax(axis=0)]
    return chosen


def held_auc(measured: FoldMeasurements, chosen: Signals) -> Floats:
    """Return the deployable AUC of every assignment."""
    result: Floats = take_chosen(measured.held, chosen).mean(axis=1)
    return result


def held_tpr(ranks: Ranks, coins: Bools, inside: Singles, choices: Sequence[Signals]) -> Floats:
    """Return the deployable TPR at 5% FPR per [group, assignment]: all coins of a fold together."""
    count, sets, targets = coins.shape
    by_set = sets >= FEW_INSTANCES
    cells = np.arange(sets * targets).reshape(sets, targets)
    chosen = np.stack(choices)
    total = np.zeros(chosen.shape[:2])
    for fold, members in enumerate(inside.T > 0):
        here = (cells[members] if by_set else cells[:, members]).ravel()
        joined = coins.reshape(count, -1)[:, here]
        wanted, place = np.unique(
            chosen[:, :, fold] * count + np.arange(count), return_inverse=True
        )
        signal, assignment = np.divmod(wanted, count)
        rates = _tpr(ranks.low[signal[:, None], here], joined[assignment])
        total += rates[place].reshape(total.shape)
    rate_of_all: Floats = total / inside.shape[1]
    return rate_of_all


def _tpr(scores: NDArray[np.int32], member: Bools) -> Floats:
    """Return TPR at 5% FPR of each row of ranks: the members above all but 5% of the others."""
    others = np.sort(np.where(member, -1, scores), axis=1)
    allowed = np.floor(FPR_LIMIT * np.maximum((~member).sum(axis=1), 1) + 1e-9).astype(np.int64)
    threshold = np.take_along_axis(others, others.shape[1] - 1 - allowed[:, None], axis=1)
    found = (member & (scores > threshold)).sum(axis=1)
    rate: Floats = found / np.maximum(member.sum(axis=1), 1)
    return rate


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


def _weighed(ranks: Singles, member: Bools, side: Singles) -> tuple[Floats, Bools]:
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
