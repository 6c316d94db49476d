"""The k largest and smallest of many numbers, row by row.

The k largest of a row lie within the k groups whose maxima are largest. In wide rows only those
groups are searched: one pass over all numbers, where partitioning takes ten.
"""

from __future__ import annotations

import numpy as np

from synthleak.evidence.fast.ragged import Ints
from synthleak.evidence.observation import Floats

WIDE = 2**12
"""Number of columns from which groups are faster."""

GROUP = 32

NEIGHBOURS = 10
"""Nearest texts that a similarity is the mean of (docs/method.md §6)."""


def largest(values: Floats, k: int) -> Floats:
    """Return each row's k largest values (all, if there are fewer), unordered."""
    n = values.shape[1]
    if k >= n:
        return values
    if n < max(WIDE, 2 * k * GROUP):
        best: Floats = np.partition(values, n - k, axis=1)[:, n - k :]
        return best
    some = _of_groups(values, np.argpartition(-_grouped(values).max(axis=2), k - 1, axis=1)[:, :k])
    return largest(np.take_along_axis(values, some, axis=1), k)


def top_mean(similarity: Floats, k: int = NEIGHBOURS) -> Floats:
    """Return each row's mean over its k largest values (over all, if there are fewer).

    >>> top_mean(np.array([[1.0, 3.0, 2.0]]), k=2)
    array([2.5])
    """
    # Sorted before it is added up: equal neighbours give equal means, in whatever order they came.
    mean: Floats = np.sort(largest(similarity, k), axis=1).mean(axis=1)
    return mean


def smallest_places(values: Floats, k: int) -> Ints:
    """Return the places of each row's k smallest values (of all, if there are fewer), unordered.

    >>> smallest_places(np.array([[3.0, 1.0, 2.0]]), 2).tolist()
    [[1, 2]]
    """
    rows, n = values.shape
    if k >= n:
        return np.tile(np.arange(n), (rows, 1))
    if n < max(WIDE, 2 * k * GROUP):
        places: Ints = np.argpartition(values, k - 1, axis=1)[:, :k]
        return places
    some = _of_groups(values, np.argpartition(_grouped(values).min(axis=2), k - 1, axis=1)[:, :k])
    found = smallest_places(np.take_along_axis(values, some, axis=1), k)
    best: Ints = np.take_along_axis(some, found, axis=1)
    return best


def _grouped(values: Floats) -> Floats:
    """Return the columns in whole groups; those after the last whole group are left out."""
    groups = values.shape[1] // GROUP
    return values[:, : groups * GROUP].reshape(len(values), groups, GROUP)


def _of_groups(values: Floats, groups: Ints) -> Ints:
    """Return the columns of each row's groups, and those after the last whole group."""
    rows, n = values.shape
    inside = (groups[:, :, None] * GROUP + np.arange(GROUP)).reshape(rows, -1)
    rest = np.arange(n // GROUP * GROUP, n)
    return np.concatenate([inside, np.broadcast_to(rest, (rows, len(rest)))], axis=1)
