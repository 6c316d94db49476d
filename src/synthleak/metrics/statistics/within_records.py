"""Each record against itself: its releases with it, and its releases without it (docs/method.md
§7, §8).

AUC_x compares the scores of one record over releases, so nothing that makes a record easy or hard
enters it. The statistics are the mean of AUC_x over records, and the mean of its largest tenth,
which moves when few records leak much. A record whose coins all fell the same way compares nothing
and leaves the mean, in the observed assignment and in every redraw alike.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment, coins_of
from synthleak.metrics.statistics.table import AUC, TOP_TENTH, Statistics

BLOCK = 128
TENTH = 0.1


def tenth(count: int) -> int:
    """Return how many records make a tenth: at least one (docs/method.md §10, k of S10).

    >>> [tenth(n) for n in (1, 14, 15, 60)]
    [1, 1, 2, 6]
    """
    return max(1, int(TENTH * count + 0.5))


def doubled_ranks(values: Floats) -> NDArray[np.float32]:
    """Return doubled mid-ranks of `values[set, target, signal]` over sets: [target, set, signal].

    Whole numbers below 2²⁴: products and sums of them are exact in single precision.
    """
    from scipy.stats import rankdata

    ranks = rankdata(values, axis=0)
    return np.ascontiguousarray(np.moveaxis(2 * ranks, 0, 1), dtype=np.float32)


def record_aucs(ranks: NDArray[np.float32], coins: NDArray[np.bool_]) -> Floats:
    """Return AUC_x as [dealing, target, signal] for `coins[dealing, set, target]`.

    A record that compares nothing is 0.5; `mean_compared` takes it out of a mean again.
    """
    inside = np.ascontiguousarray(np.moveaxis(coins, 2, 0), dtype=np.float32)
    sums = np.matmul(inside, ranks).astype(np.float64) / 2
    members = inside.sum(axis=2, dtype=np.float64)
    others = coins.shape[1] - members
    wins = sums - (members * (members + 1) / 2)[..., None]
    compared = (members * others)[..., None]
    share = np.divide(wins, compared, out=np.full_like(wins, 0.5), where=compared > 0)
    return np.ascontiguousarray(np.moveaxis(share, 0, 1))


def idle(coins: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return which records compare nothing, as [dealing, target]: all their coins agree."""
    return np.asarray(coins.all(axis=1) | ~coins.any(axis=1))


def mean_compared(total: Floats, missing: Floats, records: float | Floats) -> Floats:
    """Return the mean over the records that compare something; 0.5 where none does.

    `total` sums all of `records`, of which `missing` compare nothing and so count 0.5 in it.
    """
    count = records - missing
    mean: Floats = np.where(
        count > 1e-9, (total - 0.5 * missing) / np.where(count > 1e-9, count, 1.0), 0.5
    )
    return mean


def record_statistics(values: Floats, assignments: Sequence[Assignment]) -> Statistics:
    """Return the mean of AUC_x and the mean of its largest tenth, per assignment and signal."""
    sets, targets, signals = values.shape
    ranks = doubled_ranks(values)
    mean, largest = both = np.empty((2, len(assignments), signals))
    top = tenth(targets)
    for start in range(0, len(assignments), BLOCK):
        coins = np.stack(
            [
                coins_of(assignment, sets, targets)
                for assignment in assignments[start : start + BLOCK]
            ]
        )
        shares = record_aucs(ranks, coins)
        rows = slice(start, start + BLOCK)
        missing = idle(coins).sum(axis=1)[:, None].astype(np.float64)
        mean[rows] = mean_compared(shares.sum(axis=1), missing, targets)
        largest[rows] = np.partition(shares, targets - top, axis=1)[:, targets - top :].mean(axis=1)
    return Statistics((AUC, TOP_TENTH), both)


def record_p_values(values: Floats, assignments: Sequence[Assignment]) -> tuple[Floats, Floats]:
    """Return (AUC of the best signal, p) per record; `hands[0]` is the observed dealing.

    The statistic of a record is the largest of its signals' AUCs, each in units of its own spread
    for the number of members dealt and for its ties. A record's p uses its own coins alone, and
    coins are independent over records: false-discovery control needs no more.
    """
    sets, targets, _ = values.shape
    ranks = doubled_ranks(values)
    spread = _tie_factor(ranks)
    at_least = np.zeros(targets)
    observed = np.zeros(targets)
    best = np.zeros(targets)
    for start in range(0, len(assignments), BLOCK):
        coins = np.stack(
            [
                coins_of(assignment, sets, targets)
                for assignment in assignments[start : start + BLOCK]
            ]
        )
        shares = record_aucs(ranks, coins)
        members = coins.sum(axis=1)
        weight = np.sqrt(12.0 * members * (sets - members) / (sets + 1))
        scores = (shares - 0.5) * weight[..., None] * spread
        largest = scores.max(axis=2)
        if start == 0:
            observed = largest[0]
            best = np.take_along_axis(shares[0], scores[0].argmax(axis=1)[:, None], axis=1)[:, 0]
            largest = largest[1:]
        at_least += (largest >= observed - 1e-9).sum(axis=0)
    return best, (1 + at_least) / len(assignments)


def _tie_factor(ranks: NDArray[np.float32]) -> Floats:
    """Return by how much ties narrow the spread of an AUC, inverted; 0 where all is tied."""
    sets = ranks.shape[1]
    full = (sets**2 - 1) / 12.0
    variance = (ranks.astype(np.float64) / 2).var(axis=1)
    factor: Floats = np.zeros_like(variance)
    np.divide(full, variance, out=factor, where=variance > 1e-12)
    return np.sqrt(factor)
