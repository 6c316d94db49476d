"""Scores as ranks: every rank statistic of every redraw works on small whole numbers.

Whole numbers make sums exact, so that two assignments with the same comparisons tie exactly. Each
signal is sorted once, not in each of thousands of redraws.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.types import Ints

Small = NDArray[np.int32]


@dataclass(frozen=True)
class Ranks:
    """`low[signal, cell]`: how many cells score lower; `high`: how many score no higher.

    `place` is each cell's position in sorted order, ties in cell order. `same[signal]` is the first
    signal with the same ranks: only such signals need computing.
    """

    place: Small
    low: Small
    high: Small
    same: Ints

    @property
    def signals(self) -> int:
        """How many signals there are."""
        return len(self.low)

    @property
    def distinct(self) -> Ints:
        """The signals that differ from all before them."""
        return np.flatnonzero(self.same == np.arange(self.signals))


def ranks_of(values: Floats) -> Ranks:
    """Rank `values[cell, signal]` within each signal.

    >>> made = ranks_of(np.array([[0.5, 1.0], [0.5, 2.0], [0.1, 0.0]]))
    >>> made.low.tolist(), made.high.tolist()
    ([[1, 1, 0], [1, 2, 0]], [[3, 3, 1], [2, 3, 1]])
    """
    columns = np.ascontiguousarray(values.T)
    order = np.argsort(columns, axis=1, kind="stable")
    place = np.empty(order.shape, dtype=np.int32)
    np.put_along_axis(place, order, np.arange(order.shape[1], dtype=np.int32)[None], axis=1)
    low, high = np.empty_like(place), np.empty_like(place)
    for signal, (column, sorting) in enumerate(zip(columns, order, strict=True)):
        ordered = column[sorting]
        low[signal] = np.searchsorted(ordered, column, side="left")
        high[signal] = np.searchsorted(ordered, column, side="right")
    first: dict[bytes, int] = {}
    same = [first.setdefault(row.tobytes(), signal) for signal, row in enumerate(low)]
    return Ranks(place, low, high, np.asarray(same, dtype=np.int64))
