"""The texts nearest to each target, by every measure of the embedding families.

A small observation is compared through whole tables. A large one is gone through tile by tile: one
product in single precision shows which texts can be among the nearest by cosine, dot product,
distance or CSLS, or lie at the edge of a radius, and those few are measured exactly (`pairs`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.density import Gaussian, fit_gaussian
from synthleak.evidence.fast.extremes import NEIGHBOURS, largest, smallest_places, top_mean
from synthleak.evidence.fast.neighbours import (
    cosine_radius,
    cosines,
    distance_radius,
    distances,
    hubness,
    is_large,
    radius_limit,
    share_within,
)
from synthleak.evidence.fast.outlier_factor import NEIGHBOURS as FACTOR_NEIGHBOURS
from synthleak.evidence.fast.pairs import (
    Best,
    ByLength,
    Singles,
    by_length,
    cosines_of,
    dot_products,
    pair_distances,
    product_error,
    sure_bound,
    unit_vectors,
)
from synthleak.evidence.fast.ragged import Ints
from synthleak.evidence.observation import Floats, Observation, Targets

TILE = 2048
_WAITING = 2**16
"""Pairs that may wait to be taken in."""


class Tables:
    """The nearest texts of each target, read from tables of all pairs."""

    def __init__(self, targets: Targets, observation: Observation) -> None:
        self._targets, self._observation = targets, observation

    @cached_property
    def cosine(self) -> Floats:
        """The 10 largest cosines of each target (all, if there are fewer), in no order."""
        return largest(cosines(self._targets, self._observation), NEIGHBOURS)

    @cached_property
    def product(self) -> Floats:
        """The 10 largest dot products."""
        return largest(self._targets.vectors @ self._observation.vectors.T, NEIGHBOURS)

    @cached_property
    def csls(self) -> Floats:
        """The 10 largest hubness-corrected similarities."""
        similarity = cosines(self._targets, self._observation)
        corrected = correct(similarity, top_mean(self.cosine), hubness(self._observation))
        return largest(corrected, NEIGHBOURS)

    @cached_property
    def places(self) -> Ints:
        """The 20 texts at the smallest distances (all, if there are fewer), in no order."""
        return smallest_places(distances(self._targets, self._observation), FACTOR_NEIGHBOURS)

    @cached_property
    def distance(self) -> Floats:
        """The distances to these texts."""
        table = distances(self._targets, self._observation)
        return np.take_along_axis(table, self.places, axis=1)

    @cached_property
    def cosine_share(self) -> Floats:
        """The share of O within its cosine radius."""
        similarity = cosines(self._targets, self._observation)
        return share_within(1 - similarity, cosine_radius(self._observation))

    @cached_property
    def distance_share(self) -> Floats:
        """The share of O within its Euclidean radius."""
        table = distances(self._targets, self._observation)
        return share_within(table, distance_radius(self._observation))


@dataclass(frozen=True)
class Nearest:
    """The same, found tile by tile."""

    cosine: Floats
    product: Floats
    csls: Floats
    distance: Floats
    places: Ints
    cosine_share: Floats
    distance_share: Floats


def nearest(targets: Targets, observation: Observation) -> Tables | Nearest:
    """Return the texts nearest to each target, found once for all embedding families."""

    def make() -> Tables | Nearest:
        if not is_large(observation):
            return Tables(targets, observation)
        return _Search(targets, observation, NEIGHBOURS, every=True).nearest()

    return observation.beside(targets, "nearest", make)


def top_cosines(targets: Targets, observation: Observation, k: int) -> Floats:
    """Return each target's k largest cosines (all, if there are fewer), in no order."""
    if not is_large(observation) or k >= len(observation):
        return largest(cosines(targets, observation), k)
    search = _Search(targets, observation, k, every=False)
    search.go_through()
    return search.cosine.values


def correct(cosine: Floats, of_targets: Floats, of_texts: Floats) -> Floats:
    """Return twice the cosine, less how near target and text are to theirs; within [0, 1]."""
    # In place: tables are large.
    corrected = 2 * cosine
    corrected -= of_targets[:, None]
    corrected -= of_texts
    corrected += 4
    corrected /= 8
    return corrected


class _Search:
    """One pass over the tiles of a large observation; places are those in order of length."""

    def __init__(self, targets: Targets, observation: Observation, k: int, every: bool) -> None:
        self.texts: ByLength = by_length(observation)
        self.own = targets.vectors
        self.lengths = np.linalg.norm(self.own, axis=1)
        self.units = unit_vectors(self.own, self.lengths)
        self.every = every
        self.cosine = Best(len(self.own), k)
        self.waiting: list[tuple[Ints, Ints, Floats]] = []
        if not every:
            return
        self.product = Best(len(self.own), NEIGHBOURS)
        self.corrected = Best(len(self.own), NEIGHBOURS)
        self.square = Best(len(self.own), FACTOR_NEIGHBOURS)  # negative: the largest are nearest
        self.hubness = hubness(observation)[self.texts.order]
        self.cosine_limit = radius_limit(cosine_radius(observation))
        self.distance_limit = radius_limit(distance_radius(observation))
        self.like, self.near = np.zeros((2, len(self.own)), dtype=np.int64)

    def go_through(self) -> None:
        """Compare the targets with all texts, those of middling length first."""
        tiles = self.texts.tiles(TILE)
        for number, tile in enumerate([*tiles[len(tiles) // 2 :], *tiles[: len(tiles) // 2]]):
            self._compare(tile, self.units @ self.texts.units(tile).T, first=number == 0)
            if number == 0 or sum(len(pairs[0]) for pairs in self.waiting) > _WAITING:
                self._take_in()
        self._take_in()

    def nearest(self) -> Nearest:
        """Return the nearest by every measure."""
        self.go_through()
        n = len(self.texts)
        places = self.corrected.places
        dot = np.einsum("td,tkd->tk", self.own, self._vectors(places))
        cosine = cosines_of(dot, self.lengths[:, None], self.texts.lengths[places])
        of_targets = np.sort(self.cosine.values, axis=1).mean(axis=1)
        return Nearest(
            cosine=self.cosine.values,
            product=self.product.values,
            csls=correct(cosine, of_targets, self.hubness[places]),
            distance=pair_distances(self.own, self._vectors(self.square.places)),
            places=self.texts.order[self.square.places],
            cosine_share=self.like / n,
            distance_share=self.near / n,
        )

    def _vectors(self, places: NDArray[np.integer]) -> Floats:
        return np.asarray(self.texts.vectors[places], dtype=np.float64)

    def _measures(self, tile: slice, cosine: Singles) -> list[Singles]:
        """Return what each measure is larger by, from cosines: one table per measure.

        These are the cosine, the product over the target's length, half the corrected cosine, and
        the squared length of the target less the squared distance.
        """
        if not self.every:
            return [cosine]
        others = self.texts.lengths[tile]
        product = cosine * others.astype(np.float32)
        nearness = product * (2 * self.lengths).astype(np.float32)[:, None]
        nearness -= (others**2).astype(np.float32)
        return [cosine, product, cosine - (self.hubness[tile] / 2).astype(np.float32), nearness]

    def _errors(self, tile: slice) -> list[Floats]:
        """Return how far each of these measures can be off."""
        error, longest = self.texts.error, self.texts.lengths[tile.stop - 1]
        one = np.full(len(self.own), error)
        return [one, one * longest, one, 4 * error * (self.lengths + longest) ** 2]

    def _least(self) -> list[Floats]:
        """Return the k-th best so far, as these measures put it."""
        if not self.every:
            return [self.cosine.least]
        product = np.full(len(self.own), -np.inf)
        np.divide(self.product.least, self.lengths, out=product, where=self.lengths > 0)
        square = self.square.least + self.lengths**2
        return [self.cosine.least, product, self.corrected.least / 2, square]

    def _compare(self, tile: slice, cosine: Singles, first: bool) -> None:
        """Measure the texts of a tile that can be among the nearest."""
        near = np.zeros(cosine.shape, dtype=np.bool_)
        measures, errors = self._measures(tile, cosine), self._errors(tile)
        ks = (self.cosine.values.shape[1], NEIGHBOURS, NEIGHBOURS, FACTOR_NEIGHBOURS)
        for table, error, least, k in zip(measures, errors, self._least(), ks, strict=False):
            sure = sure_bound(table, k) - error if first else least
            near |= table > (sure - error).astype(np.float32)[:, None]
        at = np.flatnonzero(near)
        row, place = np.divmod(at, tile.stop - tile.start)
        dot = dot_products(self.own, self.texts.vectors[tile], at)
        self.waiting.append((row, place + tile.start, dot))
        if self.every:
            limit = np.full(len(self.own), 1 - self.cosine_limit)
            self.like += self._count(tile, cosine, limit, errors[0], self._is_like)
            limit = self.lengths**2 - self.distance_limit**2
            self.near += self._count(tile, measures[3], limit, errors[3], self._is_near)

    def _take_in(self) -> None:
        """Take the pairs that were measured into the lists of their targets."""
        if not self.waiting:
            return
        row, place, dot = map(np.concatenate, zip(*self.waiting, strict=True))
        self.waiting = []
        left, right = self.lengths[row], self.texts.lengths[place]
        cosine = cosines_of(dot, left, right)
        self.cosine.admit(row, cosine, place)
        if self.every:
            self.product.admit(row, dot, place)
            self.corrected.admit(row, 2 * cosine - self.hubness[place], place)
            self.square.admit(row, np.minimum(2 * dot - left**2 - right**2, 0.0), place)

    def _count(
        self,
        tile: slice,
        table: Singles,
        limit: Floats,
        error: Floats,
        is_within: Callable[[Ints, Ints], NDArray[np.bool_]],
    ) -> Ints:
        """Count the texts of a tile beyond a limit; those at its edge are measured exactly."""
        low, high = (limit - error).astype(np.float32), (limit + error).astype(np.float32)
        some = np.flatnonzero(table.max(axis=1) >= low)
        inside = table[some] > high[some, None]
        edge = (table[some] >= low[some, None]) & ~inside
        count = np.zeros(len(limit), dtype=np.int64)
        count[some] = np.count_nonzero(inside, axis=1)
        row, place = np.nonzero(edge)
        for start in range(0, len(row), _WAITING):
            rows = some[row[start : start + _WAITING]]
            within = is_within(rows, place[start : start + _WAITING] + tile.start)
            count += np.bincount(rows[within], minlength=len(count))
        return count

    def _is_like(self, row: Ints, place: Ints) -> NDArray[np.bool_]:
        dot = np.einsum("ij,ij->i", self.own[row], self._vectors(place))
        cosine = cosines_of(dot, self.lengths[row], self.texts.lengths[place])
        return np.asarray(1 - cosine <= self.cosine_limit)

    def _is_near(self, row: Ints, place: Ints) -> NDArray[np.bool_]:
        apart = np.linalg.norm(self.own[row] - self._vectors(place), axis=1)
        return np.asarray(apart <= self.distance_limit)


def nearest_mahalanobis(targets: Targets, observation: Observation) -> Floats:
    """Return the Mahalanobis distance of each target to the nearest text, under O's Gaussian."""
    gaussian = fit_gaussian(observation)
    own = gaussian.whiten(targets.vectors)
    if not is_large(observation):
        from scipy.spatial.distance import cdist

        theirs = observation.remember("whitened", lambda: gaussian.whiten(observation.vectors))
        closest: Floats = cdist(own, theirs).min(axis=1)
        return closest
    texts = by_length(observation)
    row, place = _nearest_white(own, _whitened(observation, gaussian))
    some, where = np.unique(place, return_inverse=True)
    apart = np.empty(len(place))
    theirs = gaussian.whiten(texts.vectors[some].astype(np.float64))
    for start in range(0, len(place), _WAITING):
        part = slice(start, start + _WAITING)
        apart[part] = np.linalg.norm(own[row[part]] - theirs[where[part]], axis=1)
    found = np.full(len(own), np.inf)
    np.minimum.at(found, row, apart)
    return found


def _whitened(observation: Observation, gaussian: Gaussian) -> Singles:
    """Return the whitened vectors in single precision, in order of length, made once."""

    def make() -> Singles:
        texts = by_length(observation)
        white = np.empty(texts.vectors.shape, dtype=np.float32)
        for part, vectors in texts.chunks():
            white[part] = gaussian.whiten(vectors)
        return white

    return observation.remember("whitened", make)


def _nearest_white(own: Floats, white: Singles) -> tuple[Ints, Ints]:
    """Return (point, place) of all that can be the nearest to each point."""
    lengths = np.linalg.norm(own, axis=1)
    doubled = (-2 * own).astype(np.float32)
    # The squared distance, less the squared length of the point: what varies over the texts.
    least = np.full(len(own), np.inf)
    found: list[tuple[Ints, Ints, Floats]] = []
    for start in range(0, len(white), TILE):
        part = white[start : start + TILE]
        squares = np.einsum("ij,ij->i", part, part, dtype=np.float64)
        table = doubled @ part.T
        table += squares.astype(np.float32)
        off = 2 * product_error(own.shape[1]) * (lengths + np.sqrt(squares.max())) ** 2
        np.minimum(least, table.min(axis=1) + off, out=least)
        at = np.flatnonzero(table <= (least + off).astype(np.float32)[:, None])
        row, place = np.divmod(at, len(part))
        found.append((row, place + start, table.reshape(-1)[at] - off[row]))
    row, place, value = map(np.concatenate, zip(*found, strict=True))
    still = value <= least[row]
    return row[still], place[still]
