"""Radii, hubness and outlier factor of a large observation, without a table of all pairs.

Blocks of rows are compared with all texts and reduced at once: the same values as from a whole
table, in memory that grows with the number of texts and not with its square. Nothing is
approximate.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.seeds import stream
from synthleak.evidence.fast.extremes import largest, smallest_places
from synthleak.evidence.fast.outlier_factor import NEIGHBOURS as FACTOR_NEIGHBOURS
from synthleak.evidence.fast.outlier_factor import FittedFactor, factor_of_neighbours
from synthleak.evidence.observation import Floats

NEIGHBOURS = 10
CELLS = 2**24
"""Pairs compared at a time: 128 MB."""


@dataclass(frozen=True)
class ReleaseStatistics:
    """Radii, hubness and outlier factor of an observation (docs/method.md §6)."""

    cosine_radius: float
    distance_radius: float
    hubness: Floats
    factor: FittedFactor


def top_mean(similarity: Floats, k: int = NEIGHBOURS) -> Floats:
    """Return each row's mean over its k largest values (over all, if there are fewer).

    >>> top_mean(np.array([[1.0, 3.0, 2.0]]), k=2)
    array([2.5])
    """
    # Sorted before summation: equal neighbours give equal means, whatever their order.
    mean: Floats = np.sort(largest(similarity, k), axis=1).mean(axis=1)
    return mean


def release_statistics(
    directions: Floats, vectors: Floats, same: float, cells: int = CELLS
) -> ReleaseStatistics:
    """Compare every text with all others; vectors nearer than `same` (relative) are one vector."""
    n, k = len(vectors), min(FACTOR_NEIGHBOURS, len(vectors) - 1)
    first = first_of_kind(vectors, same * np.linalg.norm(vectors, axis=1).max(initial=0.0))
    hubness, near_cosine, near_distance = np.empty((3, n))
    neighbours, reached = np.empty((n, k), dtype=np.int64), np.empty((n, k))
    for rows, cosine, square in _row_blocks(directions, vectors, max(1, cells // n)):
        hubness[rows] = top_mean(cosine, min(NEIGHBOURS, n - 1))
        near_cosine[rows] = 1 - cosine.max(axis=1, where=first, initial=-np.inf)
        near_distance[rows] = np.sqrt(square.min(axis=1, where=first, initial=np.inf))
        neighbours[rows] = smallest_places(square, k)
        reached[rows] = np.sqrt(np.take_along_axis(square, neighbours[rows], axis=1))
    alone = np.count_nonzero(first) < 2
    return ReleaseStatistics(
        cosine_radius=0.0 if alone else float(np.median(near_cosine[first])),
        distance_radius=0.0 if alone else float(np.median(near_distance[first])),
        hubness=hubness,
        factor=factor_of_neighbours(neighbours, reached, k),
    )


def _row_blocks(
    directions: Floats, vectors: Floats, height: int
) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield (rows, cosines, squared distances) to all texts, excluding a text itself (±∞)."""
    centred = vectors - vectors.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    for start in range(0, len(vectors), height):
        rows = slice(start, min(start + height, len(vectors)))
        own = np.arange(rows.stop - start), np.arange(start, rows.stop)
        cosine = directions[rows] @ directions.T
        np.clip(cosine, -1.0, 1.0, out=cosine)
        cosine[own] = -np.inf
        square = centred[rows] @ centred.T
        square *= -2
        square += squares[rows, None]
        square += squares
        np.maximum(square, 0.0, out=square)
        square[own] = np.inf
        yield rows, cosine, square


def first_of_kind(vectors: Floats, tolerance: float) -> NDArray[np.bool_]:
    """Say which vectors are within the tolerance of no earlier one.

    Near vectors have near projections on any axis, so only neighbours on one axis are compared.

    >>> first_of_kind(np.array([[0.0, 0], [5, 5], [0, 0], [0, 1e-9]]), 1e-6).tolist()
    [True, True, False, False]
    """
    seen: dict[bytes, int] = {}
    kept = np.array([seen.setdefault(row.tobytes(), place) for place, row in enumerate(vectors)])
    first: NDArray[np.bool_] = kept == np.arange(len(vectors))
    places = np.flatnonzero(first)
    axis = stream("first of kind").normal(size=vectors.shape[1])
    projection = vectors[places] @ (axis / np.linalg.norm(axis))
    order = np.argsort(projection, kind="stable")
    places, projection = places[order], projection[order]
    for step in range(1, len(places)):
        near = np.flatnonzero(projection[step:] - projection[:-step] <= tolerance)
        if not len(near):
            break
        pair = np.stack([places[near], places[near + step]])
        apart = np.linalg.norm(vectors[pair[0]] - vectors[pair[1]], axis=1)
        first[pair.max(axis=0)[apart <= tolerance]] = False
    return first
