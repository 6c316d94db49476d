"""Statistics of members against non-members, for every signal and assignment (docs/method.md §8).

The AUC averaged over rounds equals one AUC against all rounds' non-members together, because every
round has the same members and as many others. Tails are read from that pooled ROC too. All need one
running sum of non-members over ranks per signal and assignment.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.statistics.table import FEW_OTHERS, PoolStatistic, Statistics

BLOCK = 64
"""Assignments per block: their running sums fit the processor's cache."""


def pool_statistics(
    ranks: Ranks, assignments: Sequence[Assignment], wanted: Sequence[PoolStatistic] = FEW_OTHERS
) -> Statistics:
    """Return the wanted statistics of every assignment and signal."""
    cells = ranks.low.shape[1]
    values = np.empty((len(wanted), len(assignments), ranks.signals))
    for start in range(0, len(assignments), BLOCK):
        block = _Block(assignments[start : start + BLOCK], cells)
        rows = slice(start, start + BLOCK)
        for signal in ranks.distinct:
            below, upto = block.running(ranks, signal)
            for place, item in enumerate(wanted):
                counts = item.per_member(below, upto, block.total)
                values[place, rows, signal] = block.mean(counts, item.empty)
    return Statistics(tuple(item.name for item in wanted), values[:, :, ranks.same])


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
