"""AUC and tail of a whole pool, for every signal and every dealing (METHOD §8).

The AUC averaged over rounds equals one AUC against all rounds' non-members together, because every
round has the same members and as many others. The tail is read from that pooled ROC too: a member
is reached at the false-positive rate G = share of non-members that score at least as high, so the
mean TPR over FPR in (0, 0.05] is the mean over members of max(0, 1 − G / 0.05), exactly the area
under the step ROC. Both need one running sum of non-members over ranks per signal and dealing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.dealt import Dealt
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.roc import FPR_LIMIT

BLOCK = 64
"""Dealings at a time: their running sums fit the processor's cache."""


@dataclass(frozen=True)
class Pair:
    """The two statistics of METHOD §8, each `[dealing, signal]`: the level and the tail."""

    level: Floats
    tail: Floats


def pooled_pair(ranks: Ranks, hands: Sequence[Dealt], limit: float = FPR_LIMIT) -> Pair:
    """Return mean AUC over rounds and pooled tail, for every dealing and signal."""
    level = np.empty((len(hands), ranks.signals))
    tail = np.empty_like(level)
    for start in range(0, len(hands), BLOCK):
        block = _Block(ranks, hands[start : start + BLOCK])
        rows = slice(start, start + BLOCK)
        for signal in ranks.distinct:
            below, upto = block.running(signal)
            level[rows, signal] = block.mean((below + upto) / 2, empty=0.5)
            reached = block.total - (block.total - below) / limit
            tail[rows, signal] = block.mean(np.maximum(reached, 0.0), empty=0.0)
    return Pair(level[:, ranks.same], tail[:, ranks.same])


class _Block:
    """Some dealings, ready to be looked up in any signal."""

    def __init__(self, ranks: Ranks, hands: Sequence[Dealt]) -> None:
        self._ranks = ranks
        cells = ranks.low.shape[1]
        counts = [np.bincount(hand.others.ravel(), minlength=cells) for hand in hands]
        rows, self._other = np.nonzero(counts)
        self._weight = np.stack(counts)[rows, self._other].astype(np.uint32)
        self._slot = rows * (cells + 1) + 1
        sizes = [len(hand.members) for hand in hands]
        self._row = np.repeat(np.arange(len(hands)), sizes)
        self._member = np.concatenate([hand.members for hand in hands])
        self._start = self._row * (cells + 1)
        self._sizes = np.asarray(sizes, dtype=np.float64)
        self._totals = np.asarray([hand.others.size for hand in hands], dtype=np.float64)
        self.total = self._totals[self._row]
        self._sums = np.zeros((len(hands), cells + 1), dtype=np.uint32)
        self._running = np.empty_like(self._sums)

    def running(self, signal: int) -> tuple[Floats, Floats]:
        """Return, per member, how many non-members score lower, and how many no higher."""
        self._sums.fill(0)
        self._sums.ravel()[self._slot + self._ranks.place[signal, self._other]] = self._weight
        np.cumsum(self._sums, axis=1, out=self._running)
        flat = self._running.ravel()
        below = flat[self._start + self._ranks.low[signal, self._member]]
        upto = flat[self._start + self._ranks.high[signal, self._member]]
        return below.astype(np.float64), upto.astype(np.float64)

    def mean(self, counts: Floats, empty: float) -> Floats:
        """Return the mean over each dealing's members of counts, as shares of non-members.

        A dealing without members, or without others, compares nothing: it counts as `empty`.
        """
        sums = np.bincount(self._row, counts, minlength=len(self._sizes))
        pairs = self._sizes * self._totals
        shares: Floats = np.divide(sums, pairs, out=np.full_like(pairs, empty), where=pairs > 0)
        return shares
