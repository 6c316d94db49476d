"""Rows of different lengths in two flat arrays: tokens, grams or spans of many texts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Ragged:
    """Row i is `values[starts[i]:starts[i + 1]]`."""

    values: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.starts[row] : self.starts[row + 1]]

    @cached_property
    def lengths(self) -> Ints:
        """How many values each row has."""
        return np.diff(self.starts)

    @cached_property
    def owners(self) -> Ints:
        """The row of each value."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def keep(self, wanted: NDArray[np.bool_]) -> Ragged:
        """Return the rows with the wanted values only."""
        before = np.concatenate([[0], np.cumsum(wanted)])
        return Ragged(self.values[wanted], before[self.starts])

    def rows(self, rows: Ints) -> Ragged:
        """Return these rows."""
        values, _ = self.take(rows)
        return Ragged(values, np.concatenate([[0], np.cumsum(self.lengths[rows])]))

    def take(self, rows: Sequence[int] | Ints) -> tuple[Ints, Ints]:
        """Return the values of these rows, end to end, and the place in `rows` of each."""
        starts, ends = self.starts[rows].tolist(), self.starts[1:][rows].tolist()
        pieces = [self.values[a:b] for a, b in zip(starts, ends, strict=True)]
        owners = np.repeat(np.arange(len(pieces)), self.lengths[rows])
        return np.concatenate(pieces) if pieces else self.values[:0], owners


def ragged(rows: Iterable[Sequence[int]]) -> Ragged:
    """Flatten rows.

    >>> ragged([[5, 6], [], [7]]).take([2, 0])
    (array([7, 5, 6]), array([0, 1, 1]))
    """
    listed = list(rows)
    starts = np.cumsum([0, *map(len, listed)])
    flat = [value for row in listed for value in row]
    return Ragged(np.array(flat, dtype=np.int64), starts.astype(np.int64))


def found(wanted: Ints, texts: Ragged, rows: Sequence[int] | Ints) -> NDArray[np.bool_]:
    """Say which of the `wanted` values (distinct, none negative) occur in each of these rows.

    >>> found(np.array([7, 5]), ragged([[5, 6], [], [7]]), [0, 2])
    array([[False,  True],
           [ True, False]])
    """
    values, owners = texts.take(rows)
    width = len(wanted)
    place = np.full(int(max(wanted.max(initial=0), values.max(initial=0))) + 1, width)
    place[wanted] = np.arange(width)
    # What is not wanted falls into a last column, which is cut off.
    there = np.zeros((len(rows), width + 1), dtype=np.bool_)
    there.reshape(-1)[owners * (width + 1) + place[values]] = True
    return there[:, :width]
