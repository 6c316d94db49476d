"""Pairs of vectors that are near: found in single precision, measured in double precision.

A product of unit vectors in single precision takes half the time of one in double precision, and is
off by less than `product_error`. With that error as a margin it shows which pairs can be among the
nearest; those few are measured from the encoder's own vectors, so that nothing is approximate.
Vectors are sorted by length: within a tile of columns lengths are alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.ragged import Ints
from synthleak.evidence.observation import Floats, Observation

Singles = NDArray[np.float32]
_GROUP = 32
_MANY = 32
"""One pair in this number: above it a whole tile is measured faster than its pairs."""
_PIECE = 2**8
_CHUNK = 2**16
_AT_ONCE = 3


@dataclass(frozen=True)
class ByLength:
    """Vectors in order of their lengths; `order[i]` is the row of O that comes i-th."""

    vectors: NDArray[np.floating]
    lengths: Floats
    order: Ints

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def error(self) -> float:
        """How far a cosine in single precision can be from the true one."""
        return product_error(self.vectors.shape[1])

    def units(self, part: slice) -> Singles:
        """Return the vectors at unit length in single precision; a zero vector stays zero."""
        return unit_vectors(self.vectors[part], self.lengths[part])

    def chunks(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the vectors in double precision, some at a time."""
        for start in range(0, len(self), _CHUNK):
            part = slice(start, min(start + _CHUNK, len(self)))
            yield part, self.vectors[part].astype(np.float64)

    def rows(self, rows: Ints) -> Floats:
        """Return the vectors of these rows of O in double precision."""
        place = np.empty(len(self), dtype=np.int64)
        place[self.order] = np.arange(len(self))
        return self.vectors[place[rows]].astype(np.float64)

    def tiles(self, width: int) -> list[slice]:
        """Cut the vectors into tiles; zero vectors, whose cosines tell nothing, have their own."""
        zeros = int(np.count_nonzero(self.lengths == 0))
        cuts = [0, *range(zeros, len(self), width)] if zeros else [*range(0, len(self), width)]
        return [slice(a, b) for a, b in zip(cuts, [*cuts[1:], len(self)], strict=True) if a < b]


def by_length(observation: Observation) -> ByLength:
    """Return the vectors of O in order of length, made once; O then keeps no other copy."""

    def make() -> ByLength:
        made = sort_by_length(observation.encoded)
        observation.__dict__.pop("encoded", None)
        return made

    return observation.remember("by length", make)


def sort_by_length(vectors: NDArray[np.floating]) -> ByLength:
    """Put vectors in order of their lengths, equal lengths in their own order."""
    lengths = np.concatenate(
        [
            np.linalg.norm(vectors[start : start + _CHUNK].astype(np.float64), axis=1)
            for start in range(0, len(vectors), _CHUNK)
        ]
    )
    order = np.argsort(lengths, kind="stable")
    return ByLength(vectors[order], lengths[order], order)


def unit_vectors(vectors: NDArray[np.floating], lengths: Floats) -> Singles:
    """Return vectors at unit length in single precision; a zero vector stays zero."""
    scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    return vectors.astype(np.float32) * scale.astype(np.float32)[:, None]


def product_error(dimensions: int) -> float:
    """Return how far a product of two unit vectors in single precision can be from the true one.

    A sum of d products is off by at most d roundings of 2^-24, whatever the order; the factors
    were rounded before. A few roundings more cover that and what a bound itself is rounded by.

    >>> product_error(256) < 2e-5
    True
    """
    return (dimensions + 16) * 2.0**-24 * 1.01


def dot_products(left: NDArray[np.floating], right: NDArray[np.floating], at: Ints) -> Floats:
    """Return the products of `left[i]` and `right[j]` in double precision, `at` being flat (i, j).

    Pair by pair, or all at once where there are many.
    """
    i, j = np.divmod(at, len(right))
    if len(at) * _MANY > len(left) * len(right):
        whole: Floats = left.astype(np.float64) @ right.astype(np.float64).T
        return np.asarray(whole.reshape(-1)[at])
    found = np.empty(len(at))
    for start in range(0, len(at), _PIECE):
        some = slice(start, start + _PIECE)
        found[some] = np.einsum("ij,ij->i", left[i[some]], right[j[some]], dtype=np.float64)
    return found


def pair_distances(left: Floats, right: Floats) -> Floats:
    """Return the distance of each row to its partners `right[row, j]`: exactly 0 to itself."""
    apart: Floats = np.sqrt(((left[:, None] - right) ** 2).sum(axis=2))
    return apart


def cosines_of(products: Floats, left: Floats, right: Floats) -> Floats:
    """Return cosines from dot products and lengths; 0 with a zero vector."""
    scale = left * right
    cosine = np.divide(products, scale, out=np.zeros_like(products), where=scale > 0)
    return np.clip(cosine, -1.0, 1.0)


def sure_bound(values: Singles, k: int) -> Singles:
    """Return a number per row that at least k of its values reach: its k-th largest or a bit less.

    The k-th largest of the maxima of groups: one look at all values, where partitioning takes ten.
    """
    rows, n = values.shape
    groups = n // _GROUP
    if groups < k:
        return np.full(rows, -np.inf, dtype=np.float32)
    best = values[:, : groups * _GROUP].reshape(rows, groups, _GROUP).max(axis=2)
    bound: Singles = np.partition(best, groups - k, axis=1)[:, groups - k]
    return bound


class Best:
    """The k largest values of each row, and whose they are."""

    def __init__(self, rows: int, k: int) -> None:
        self.values = np.full((rows, k), -np.inf)
        self.places = np.zeros((rows, k), dtype=np.int32)

    @property
    def least(self) -> Floats:
        """The k-th largest of each row; minus infinity if it has fewer."""
        least: Floats = self.values.min(axis=1)
        return least

    def admit(self, rows: Ints, values: Floats, places: Ints) -> None:
        """Take in the values of some rows, in any order; a pair must come once only."""
        better = values > self.least[rows]
        rows, values, places = rows[better], values[better], places[better]
        # Few different numbers are sorted by radix if they are short.
        order = np.argsort(rows.astype(np.uint16), kind="stable")
        counts = np.bincount(rows, minlength=len(self.values))
        rows, values, places = rows[order], values[order], places[order]
        rank = np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        # Of a row with many, some come first: most others then are not among the best.
        now = rank < _AT_ONCE * self.values.shape[1]
        self._merge(rows[now], rank[now], values[now], places[now])
        if not now.all():
            self.admit(rows[~now], values[~now], places[~now])

    def _merge(self, rows: Ints, rank: Ints, values: Floats, places: Ints) -> None:
        if not len(rows):
            return
        some, line = np.unique(rows, return_inverse=True)
        k, width = self.values.shape[1], int(rank.max()) + 1
        all_values = np.full((len(some), k + width), -np.inf)
        all_places = np.zeros((len(some), k + width), dtype=np.int32)
        all_values[:, :k], all_places[:, :k] = self.values[some], self.places[some]
        all_values[line, k + rank] = values
        all_places[line, k + rank] = places
        best = np.argpartition(all_values, width, axis=1)[:, width:]
        self.values[some] = np.take_along_axis(all_values, best, axis=1)
        self.places[some] = np.take_along_axis(all_places, best, axis=1)
