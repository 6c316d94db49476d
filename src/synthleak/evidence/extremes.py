"""The few largest and smallest of many numbers, row by row.

The k largest of a row lie within the k groups whose maxima are largest. In wide rows only those
groups are searched: one look at all numbers, where partitioning takes ten.
"""

from __future__ import annotations

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.evidence.ragged import Ints

WIDE = 2**14
"""Columns from which on groups are worth their trouble."""

GROUP = 128


def largest(values: Floats, k: int) -> Floats:
    """Return each row's k largest values (all, if there are fewer), in no order."""
    n = values.shape[1]
    if k >= n:
        return values
    if n < max(WIDE, 2 * k * GROUP):
        best: Floats = np.partition(values, n - k, axis=1)[:, n - k :]
        return best
    return np.take_along_axis(values, smallest_places(-values, k), axis=1)


def smallest_places(values: Floats, k: int) -> Ints:
    """Return the places of each row's k smallest values (of all, if there are fewer), in no order.

    >>> smallest_places(np.array([[3.0, 1.0, 2.0]]), 2).tolist()
    [[1, 2]]
    """
    rows, n = values.shape
    if k >= n:
        return np.tile(np.arange(n), (rows, 1))
    if n < max(WIDE, 2 * k * GROUP):
        places: Ints = np.argpartition(values, k - 1, axis=1)[:, :k]
        return places
    groups = n // GROUP
    minima = values[:, : groups * GROUP].reshape(rows, groups, GROUP).min(axis=2)
    chosen = np.argpartition(minima, k - 1, axis=1)[:, :k]
    inside = (chosen[:, :, None] * GROUP + np.arange(GROUP)).reshape(rows, -1)
    rest = np.broadcast_to(np.arange(groups * GROUP, n), (rows, n - groups * GROUP))
    searched = np.concatenate([inside, rest], axis=1)
    found = np.argpartition(np.take_along_axis(values, searched, axis=1), k - 1, axis=1)[:, :k]
    best_places: Ints = np.take_along_axis(searched, found, axis=1)
    return best_places
