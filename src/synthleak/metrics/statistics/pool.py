"""Statistics of members against non-members, for every signal and assignment (docs/method.md §8).

The AUC averaged over rounds equals one AUC against all rounds' non-members together, because every
round has the same members and as many others. Tails are read from that pooled ROC too. All need one
running sum of non-members over ranks per signal and assignment.

Where every cell is a member or a non-member, as in a check, no running sum over all is needed: the
ranks of members among members add up to a constant, and a tail needs the cells of its top alone.
The results are equal to the last digit: what is added up are the same numbers in the same order, or
whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.statistics.table import AUC, FEW_OTHERS, PoolStatistic, Statistics
from synthleak.metrics.types import Bools, Ints

BLOCK = 64
"""Assignments per block: their running sums fit the processor's cache."""


def pool_statistics(
    ranks: Ranks, assignments: Sequence[Assignment], wanted: Sequence[PoolStatistic] = FEW_OTHERS
) -> Statistics:
    """Return the wanted statistics of every assignment and signal."""
    cells = ranks.low.shape[1]
    values = np.empty((len(wanted), len(assignments), ranks.signals))
    split = all(item is AUC or item.limit is not None for item in wanted) and all(
        _splits(assignment, cells) for assignment in assignments
    )
    if split:
        _split_statistics(ranks, assignments, wanted, values)
        return Statistics(tuple(item.name for item in wanted), values[:, :, ranks.same])
    for start in range(0, len(assignments), BLOCK):
        block = _Block(assignments[start : start + BLOCK], cells)
        rows = slice(start, start + BLOCK)
        for signal in ranks.distinct:
            below, upto = block.running(ranks, signal)
            for place, item in enumerate(wanted):
                counts = item.per_member(below, upto, block.total)
                values[place, rows, signal] = block.mean(counts, item.empty)
    return Statistics(tuple(item.name for item in wanted), values[:, :, ranks.same])


def _splits(assignment: Assignment, cells: int) -> bool:
    """Say whether every cell is a member or a non-member, once, and members come in order."""
    members, others = assignment.members, assignment.others
    if len(others) != 1 or len(members) + others.size != cells or not others.size:
        return False
    seen = np.zeros(cells, dtype=np.bool_)
    seen[members] = True
    seen[others] = True
    return bool(seen.all() and (members[1:] > members[:-1]).all())


def _split_statistics(
    ranks: Ranks, assignments: Sequence[Assignment], wanted: Sequence[PoolStatistic], values: Floats
) -> None:
    """Fill `values[statistic, assignment, signal]` where every assignment splits all cells."""
    cells, distinct = ranks.low.shape[1], ranks.distinct
    doubled = (ranks.low[distinct] + ranks.high[distinct]).T.astype(np.float64)
    for start in range(0, len(assignments), BLOCK):
        some = assignments[start : start + BLOCK]
        rows = slice(start, start + len(some))
        coins = np.zeros((len(some), cells), dtype=np.bool_)
        for row, assignment in enumerate(some):
            coins[row, assignment.members] = True
        members = coins.sum(axis=1, dtype=np.float64)
        others = cells - members
        pairs = members * others
        top = _Top(coins, others, max(item.limit or 0.0 for item in wanted))
        for place, item in enumerate(wanted):
            if item is AUC:
                # Doubled ranks of members among themselves add up to their number squared.
                wins = (coins.astype(np.float64) @ doubled - (members**2)[:, None]) / 2
                values[place, rows, distinct] = _shares(wins, pairs[:, None], item.empty).T
        tails = [(place, item) for place, item in enumerate(wanted) if item is not AUC]
        for signal in distinct if tails else ():
            whose, reached = top.of(ranks, signal)
            below = others[whose] - reached
            for place, item in tails:
                counts = item.per_member(below, below, others[whose])
                sums: Floats = np.bincount(whose, counts, len(some)).astype(np.float64)
                values[place, rows, signal] = _shares(sums, pairs, item.empty)


def _shares(sums: Floats, pairs: Floats, empty: float) -> Floats:
    out = np.full(sums.shape, empty)
    shares: Floats = np.divide(sums, pairs, out=out, where=pairs > 0)
    return shares


class _Top:
    """The members of some assignments whom few non-members reach."""

    def __init__(self, coins: Bools, others: Floats, limit: float) -> None:
        self._coins = coins
        # One more than a tail counts, and one for rounding.
        self._most = int(np.ceil(limit * others.max())) + 2
        share = max(float(others.min()), 1.0) / coins.shape[1]
        self._first = int(1.2 * self._most / share) + 64

    def of(self, ranks: Ranks, signal: int) -> tuple[Ints, Floats]:
        """Return (assignment, number of non-members who score at least as high), in cell order.

        Of members whom too many reach some are missing: they count nothing.
        """
        low = ranks.low[signal]
        falling = np.empty(len(low), dtype=np.int64)
        falling[len(low) - 1 - ranks.place[signal]] = np.arange(len(low))
        count = self._first
        while True:
            # Cells that tie with the last one belong to the top too.
            count = len(low) - int(low[falling[min(count, len(low)) - 1]])
            cells = falling[:count]
            alarms = np.cumsum(~self._coins[:, cells], axis=1, dtype=np.int32)
            if count == len(low) or alarms[:, -1].min() >= self._most:
                break
            count *= 2
        cells = np.sort(cells)
        reached = alarms[:, len(low) - 1 - low[cells]]
        row, place = np.nonzero(self._coins[:, cells] & (reached <= self._most))
        return row, reached[row, place].astype(np.float64)


class _Block:
    """Some assignments, prepared for looking up any signal."""

    def __init__(self, assignments: Sequence[Assignment], cells: int) -> None:
        counts = [
            np.bincount(assignment.others.ravel(), minlength=cells) for assignment in assignments
        ]
        others = [np.flatnonzero(count) for count in counts]
        rows = np.repeat(np.arange(len(assignments)), [len(other) for other in others])
        self._other = np.concatenate(others)
        self._weight = np.concatenate(
            [count[other] for count, other in zip(counts, others, strict=True)]
        ).astype(np.uint32)
        self._slot = rows * (cells + 1) + 1
        sizes = [len(assignment.members) for assignment in assignments]
        self._row = np.repeat(np.arange(len(assignments)), sizes)
        self._member = np.concatenate([assignment.members for assignment in assignments])
        self._start = self._row * (cells + 1)
        self._sizes = np.asarray(sizes, dtype=np.float64)
        self._totals = np.asarray(
            [assignment.others.size for assignment in assignments], dtype=np.float64
        )
        self.total = self._totals[self._row]
        self._sums = np.zeros((len(assignments), cells + 1), dtype=np.uint32)
        self._running = np.empty_like(self._sums)

    def running(self, ranks: Ranks, signal: int) -> tuple[Floats, Floats]:
        """Return, per member, how many non-members score lower, and how many no higher."""
        self._sums.fill(0)
        self._sums.ravel()[self._slot + ranks.place[signal, self._other]] = self._weight
        np.cumsum(self._sums, axis=1, out=self._running)
        flat = self._running.ravel()
        below = flat[self._start + ranks.low[signal, self._member]]
        upto = flat[self._start + ranks.high[signal, self._member]]
        return below.astype(np.float64), upto.astype(np.float64)

    def mean(self, counts: Floats, empty: float) -> Floats:
        """Return the mean over each assignment's members of counts, as shares of non-members.

        An assignment without members, or without others, counts as `empty`.
        """
        sums = np.bincount(self._row, counts, minlength=len(self._sizes))
        pairs = self._sizes * self._totals
        shares: Floats = np.divide(sums, pairs, out=np.full_like(pairs, empty), where=pairs > 0)
        return shares
