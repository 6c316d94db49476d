"""Statistics of each record's releases with it against those without it (docs/method.md §7, §8).

AUC_x compares the scores of one record over releases, so it does not depend on how easy the record
is to recognise. A record whose coins are all equal compares nothing and is left out of the mean, in
the observed assignment and in every redraw alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment, coins_of
from synthleak.metrics.statistics.table import RECORD_STATISTICS, Statistics
from synthleak.metrics.types import Bools, Singles

BLOCK = 128


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
    """Return the statistics of every assignment and signal."""
    ranks = doubled_ranks(values)
    result = np.empty((len(RECORD_STATISTICS), len(assignments), values.shape[2]))
    for rows, coins in _blocks(values, assignments):
        shares, nothing = record_aucs(ranks, coins), idle(coins)
        for place, item in enumerate(RECORD_STATISTICS):
            result[place, rows] = item.combine(shares, nothing)
    return Statistics(tuple(item.name for item in RECORD_STATISTICS), result)


def _blocks(values: Floats, assignments: Sequence[Assignment]) -> Iterator[tuple[slice, Bools]]:
    """Yield the assignments in blocks, with their coins."""
    sets, targets, _ = values.shape
    for start in range(0, len(assignments), BLOCK):
        rows = slice(start, start + BLOCK)
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
