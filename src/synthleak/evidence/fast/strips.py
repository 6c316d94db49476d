"""Compares all texts of a large observation with one another, without a table of all pairs.

Texts are cut into strips, and every strip is compared with every other once: a tile of products in
single precision shows which pairs can be near (`pairs`), for the rows and for the columns of the
tile at once. Of a release of many texts, products of bytes show it first where they can be had
(`rounded`), and few pairs need more. Strips that are neighbours come first, then those 2 and 3
apart, 4 to 7, and so on: after each round every text knows better how near is near. Nothing is
approximate, and memory grows with the number of texts and not with its square.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.extremes import NEIGHBOURS
from synthleak.evidence.fast.outlier_factor import NEIGHBOURS as FACTOR_NEIGHBOURS
from synthleak.evidence.fast.pairs import (
    Best,
    ByLength,
    Singles,
    cosines_of,
    dot_products,
    lowest_cosine,
    sure_bound,
    unit_vectors,
)
from synthleak.evidence.fast.ragged import Ints
from synthleak.evidence.fast.rounded import Product, round_units
from synthleak.evidence.observation import Floats

STRIP = 2048
"""Texts in a strip: a tile of products takes 16 MB."""

_WAITING = 2**24
"""Pairs that may wait to be taken in: 400 MB."""

_SOME = 256
_FEW = 64
"""One pair in this number: above it a whole tile of cosines takes less than those of its pairs."""
_AT_ONCE = 1024
_ROUNDING = 1e-7
Run = Callable[[Callable[[Any], Any], Iterable[Any]], Iterator[Any]]
"""Does some work on every item, and yields what it returned, in order."""


@dataclass(frozen=True)
class _Found:
    """Pairs of a tile that can be near: places, cosines and squared distances."""

    i: Ints
    j: Ints
    cosine: Floats
    square: Floats


@dataclass(frozen=True)
class _Limits:
    """The lengths of some texts, their 10th largest cosine and 20th smallest squared distance."""

    lengths: Floats
    cosine: Floats
    square: Floats

    def of(self, rows: Ints) -> _Limits:
        """Return those of these rows."""
        return _Limits(self.lengths[rows], self.cosine[rows], self.square[rows])


class Comparison:
    """The nearest neighbours of every text; places are those in order of length.

    `first` says which texts are the first of their kind (`first_of_kind`).
    """

    def __init__(
        self, texts: ByLength, first: NDArray[np.bool_], run: Run, product: Product | None
    ) -> None:
        n = len(texts)
        self.texts, self.run, self.rounded = texts, run, round_units(texts, product)
        self.first = first
        self.cosines = Best(n, min(NEIGHBOURS, n - 1))
        self.squares = Best(n, min(FACTOR_NEIGHBOURS, n - 1))  # negative: the largest are nearest
        # The nearest among the texts that are the first of their kind.
        self.near_cosine, self.near_square = np.full(n, -np.inf), np.full(n, np.inf)
        self.least_cosine, self.most_square = np.full(n, -np.inf), np.full(n, np.inf)
        # Zero vectors, which are as near to all directions, have strips of their own.
        zeros = int(np.count_nonzero(texts.lengths == 0))
        self.strips = [*_cut(0, zeros), *_cut(zeros, n)]

    def compare(self) -> None:
        """Compare every strip with every strip."""
        count = len(self.strips)
        for _ in self.run(self._sample, self.strips):
            pass
        self._round([(a, a) for a in range(count)])
        apart = 1
        while apart <= count // 2:
            steps = range(apart, min(2 * apart, count // 2 + 1))
            # Halfway round, a pair of strips would be met from both sides.
            self._round(
                [
                    (a, (a + step) % count)
                    for step in steps
                    for a in range(count // 2 if 2 * step == count else count)
                ]
            )
            apart *= 2

    def _round(self, tiles: list[tuple[int, int]]) -> None:
        """Compare pairs of strips, and take in what is found before it fills the memory.

        Which pairs wait for one another does not depend on the threads: neither do ties.
        """
        waiting: list[tuple[int, int, _Found]] = []
        for start in range(0, len(tiles), _SOME):
            some = tiles[start : start + _SOME]
            found = self.run(self._tile, some)
            waiting += [(a, b, pairs) for (a, b), pairs in zip(some, found, strict=True)]
            if sum(len(pairs.i) for *_, pairs in waiting) > _WAITING:
                self._take_in(waiting)
                waiting = []
        self._take_in(waiting)

    def _tile(self, tile: tuple[int, int]) -> _Found:
        """Return the pairs of two strips that can be near from either side."""
        a, b = (self.strips[number] for number in tile)
        left, right = self._limits(a), self._limits(b)
        at, cosine = self._above(a, b, left, right)
        row, column = np.divmod(at, b.stop - b.start)
        kept = self._can_be_near(cosine, left.of(row), right.of(column))
        at, row, column = at[kept], row[kept], column[kept]
        dot = dot_products(self.texts.vectors[a], self.texts.vectors[b], at)
        lengths, others = left.lengths[row], right.lengths[column]
        square = np.maximum(lengths**2 + others**2 - 2 * dot, 0.0)
        found = _Found(row + a.start, column + b.start, cosines_of(dot, lengths, others), square)
        return self._few(tile, found)

    def _above(self, a: slice, b: slice, left: _Limits, right: _Limits) -> tuple[Ints, Singles]:
        """Return the pairs of two strips whose cosine is above either's bound, and the cosines."""
        bounds, others = self._bounds(left, b), self._bounds(right, a)
        if self.rounded is not None and a != b:
            row, column, most = self.rounded.above(a, b, bounds, others)
            near = self._can_be_near(most, left.of(row), right.of(column))
            row, column = row[near], column[near]
            if len(row) * _FEW < len(bounds) * len(others):
                cosine = self._cosines(a, b, row, column)
                kept = cosine > np.minimum(bounds[row], others[column])
                at, cosine = row[kept] * len(others) + column[kept], cosine[kept]
                order = np.argsort(at)
                return at[order], cosine[order]
        cosine = self.texts.units(a) @ self.texts.units(b).T
        if a == b:  # each pair once, and no text with itself
            cosine[np.tri(len(cosine), dtype=np.bool_)] = -4.0
        above = cosine > bounds[:, None]
        above |= cosine > others
        at = np.flatnonzero(above)
        return at, cosine.reshape(-1)[at]

    def _cosines(self, a: slice, b: slice, row: Ints, column: Ints) -> Singles:
        """Return the cosines of pairs of two strips in single precision."""
        i, j = row + a.start, column + b.start
        if len(row) < STRIP:  # few pairs: only their vectors are brought to unit length
            one = unit_vectors(self.texts.vectors[i], self.texts.lengths[i])
            other = unit_vectors(self.texts.vectors[j], self.texts.lengths[j])
            few: Singles = np.einsum("ij,ij->i", one, other)
            return few
        one, other = self.texts.units(a), self.texts.units(b)
        found = np.empty(len(row), dtype=np.float32)
        for start in range(0, len(row), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            found[some] = np.einsum("ij,ij->i", one[row[some]], other[column[some]])
        return found

    def _few(self, tile: tuple[int, int], found: _Found) -> _Found:
        """Return the pairs of a tile that are among the best of the tile, if there are too many."""
        a, b = (self.strips[number] for number in tile)
        most = 4 * FACTOR_NEIGHBOURS * (a.stop - a.start + b.stop - b.start)
        if len(found.i) <= most:
            return found
        kept = np.zeros(len(found.i), dtype=np.bool_)
        for start, rows in ((a, found.i), (b, found.j)):
            for value, k in ((found.cosine, NEIGHBOURS), (-found.square, FACTOR_NEIGHBOURS)):
                best = Best(start.stop - start.start, k)
                best.admit(rows - start.start, value, np.arange(len(rows)))
                kept[best.places[np.isfinite(best.values)]] = True
        return _Found(found.i[kept], found.j[kept], found.cosine[kept], found.square[kept])

    def _sample(self, strip: slice) -> None:
        """Set limits for the texts of a strip, from a sample of texts of all lengths."""
        n = len(self.texts)
        sample = np.arange(0, n, max(1, n // STRIP))
        lengths, others = self.texts.lengths[strip], self.texts.lengths[sample]
        units = unit_vectors(self.texts.vectors[sample], others)
        cosine = self.texts.units(strip) @ units.T
        own = np.flatnonzero((sample >= strip.start) & (sample < strip.stop))
        cosine[sample[own] - strip.start, own] = -2.0
        self.least_cosine[strip] = sure_bound(cosine, NEIGHBOURS) - self.texts.error
        cosine *= (2 * lengths[:, None]).astype(np.float32)
        cosine *= others.astype(np.float32)
        cosine -= (others**2).astype(np.float32)
        off = 4 * self.texts.error * (lengths + others[-1]) ** 2
        square = lengths**2 - sure_bound(cosine, FACTOR_NEIGHBOURS) + off
        self.most_square[strip] = np.maximum(square, 0.0)

    def _limits(self, rows: slice) -> _Limits:
        """Return limits of the texts of a strip from all that they were compared with."""
        return _Limits(
            self.texts.lengths[rows],
            self.least_cosine[rows],
            self.most_square[rows],
        )

    def _bounds(self, limits: _Limits, others: slice) -> Singles:
        """Return cosines below which no text of the other strip can be near."""
        reach = np.sqrt(limits.square) * (1 + _ROUNDING)
        by_distance = lowest_cosine(limits.lengths, self.texts.lengths[others], reach)
        bound = np.minimum(limits.cosine, by_distance) - self.texts.error
        return np.maximum(bound, -3.0).astype(np.float32)

    def _can_be_near(
        self, cosine: NDArray[np.floating], left: _Limits, right: _Limits
    ) -> NDArray[np.bool_]:
        """Say which pairs can be near by their own lengths; `_bounds` are for a whole strip."""
        near = cosine > np.minimum(left.cosine, right.cosine) - self.texts.error
        square = left.lengths**2 + right.lengths**2
        off = 4 * self.texts.error * square
        square -= 2 * left.lengths * right.lengths * cosine
        near |= square < np.maximum(left.square, right.square) + off
        return near

    def _take_in(self, waiting: list[tuple[int, int, _Found]]) -> None:
        """Take the pairs that were found into the lists of their texts."""
        parts: dict[int, list[tuple[Ints, Ints, Floats, Floats]]] = {}
        for a, b, found in waiting:
            parts.setdefault(a, []).append((found.i, found.j, found.cosine, found.square))
            parts.setdefault(b, []).append((found.j, found.i, found.cosine, found.square))
        for _ in self.run(self._take_in_strip, parts.items()):
            pass

    def _take_in_strip(self, part: tuple[int, list[tuple[Ints, Ints, Floats, Floats]]]) -> None:
        number, pieces = part
        strip = self.strips[number]
        places, others, cosine, square = map(np.concatenate, zip(*pieces, strict=True))
        rows, first = places - strip.start, self.first[others]
        np.maximum.at(self.near_cosine[strip], rows[first], cosine[first])
        np.minimum.at(self.near_square[strip], rows[first], square[first])
        cosines, squares = self.cosines.part(strip), self.squares.part(strip)
        cosines.admit(rows, cosine, others)
        squares.admit(rows, -square, others)
        limits = self._limits(strip)
        np.maximum(limits.cosine, cosines.least, out=limits.cosine)
        np.minimum(limits.square, -squares.least, out=limits.square)


def _cut(start: int, stop: int) -> list[slice]:
    """Cut a range into strips of one size."""
    count = -(-(stop - start) // STRIP)
    cuts = np.linspace(start, stop, count + 1).round().astype(int).tolist()
    return [slice(a, b) for a, b in pairwise(cuts)]
