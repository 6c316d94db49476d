"""The texts nearest to each target, by every measure of the embedding families.

A small observation is compared through whole tables. A large one is gone through tile by tile, and
only the best so far are kept; they are measured again at the end, pair by pair, so that neither the
tile nor the other targets can move the last digit of a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.fast.density import Gaussian, fit_gaussian
from synthleak.evidence.fast.neighbours import (
    FACTOR_NEIGHBOURS,
    NEIGHBOURS,
    cosines,
    distances,
    inverse,
    largest,
    lengths_of,
    radius_limit,
    smallest_places,
    top_mean,
    within,
)
from synthleak.evidence.observation import (
    Floats,
    Ints,
    Observation,
    Targets,
    cached,
    cached_for_targets,
)

TILE = 2048
# What squared distances from products can be off by, in units of the squared lengths.
_ROUNDING = 2.0**-48


@dataclass(frozen=True)
class Nearest:
    """The texts nearest to each target, in no order.

    These are the 10 largest cosines, dot products and hubness-corrected similarities, the 20
    smallest distances and where they are (all, if there are fewer), and the shares of O within its
    radii.
    """

    cosine: Floats
    product: Floats
    csls: Floats
    distance: Floats
    places: Ints
    cosine_share: Floats
    distance_share: Floats


@cached_for_targets
def nearest(targets: Targets, observation: Observation) -> Nearest:
    """Return the texts nearest to each target, found once for all embedding families."""
    if observation.is_large:
        return _nearest_by_tiles(targets, observation)
    cosine, distance = cosines(targets, observation), distances(targets, observation)
    near, places = largest(cosine, NEIGHBOURS), smallest_places(distance, FACTOR_NEIGHBOURS)
    known = within(observation)
    return Nearest(
        cosine=near,
        product=largest(targets.vectors @ observation.vectors.T, NEIGHBOURS),
        csls=largest(correct(cosine, top_mean(near), known.hubness), NEIGHBOURS),
        distance=np.take_along_axis(distance, places, axis=1),
        places=places,
        cosine_share=(1 - cosine <= radius_limit(known.cosine_radius)).mean(axis=1),
        distance_share=(distance <= radius_limit(known.distance_radius)).mean(axis=1),
    )


def top_cosines(targets: Targets, observation: Observation, k: int) -> Floats:
    """Return each target's k largest cosines (all, if there are fewer), in no order."""
    if not observation.is_large or k >= len(observation):
        return largest(cosines(targets, observation), k)
    best = _Best(len(targets), k)
    for part, _, cosine in _tiles(targets, observation):
        best.admit(cosine, part.start)
    return _measure(targets, observation, best.places)[1]


def correct(cosine: Floats, of_targets: Floats, of_texts: Floats) -> Floats:
    """Return twice the cosine, less how near target and text are to theirs; within [0, 1]."""
    # In place: tables are large.
    corrected = 2 * cosine
    corrected -= of_targets[:, None]
    corrected -= of_texts
    corrected += 4
    corrected /= 8
    return corrected


def nearest_mahalanobis(targets: Targets, observation: Observation) -> Floats:
    """Return the Mahalanobis distance of each target to the nearest text, under O's Gaussian."""
    gaussian = fit_gaussian(observation)
    white = gaussian.whiten(targets.vectors)
    if not observation.is_large:
        from scipy.spatial.distance import cdist

        return np.asarray(cdist(white, gaussian.whiten(observation.vectors)).min(axis=1))
    # In single precision first; again in double where another text could be nearer.
    closest, rows = np.empty(len(white)), np.arange(len(white))
    for kind in (np.float32, np.float64):
        best, error = _likely_nearest(white[rows], observation, gaussian, kind)
        texts, places = np.unique(best.places, return_inverse=True)
        others = gaussian.whiten(observation.encoded[texts].astype(np.float64))
        closest[rows] = _distances(white[rows], others[places.reshape(best.places.shape)]).min(
            axis=1
        )
        nearness = (white[rows] ** 2).sum(axis=1) - closest[rows] ** 2
        rows = rows[nearness < best.values.min(axis=1) + error]
        if not len(rows):
            break
    return closest


def _likely_nearest(
    white: Floats, observation: Observation, gaussian: Gaussian, kind: type[np.floating]
) -> tuple[_Best, Floats]:
    """Return the texts nearest to whitened vectors, and what nearness can be off by.

    The squared distance is |x|² - 2 x·c + |c|² of whitened vectors, and x·c the product of c as it
    is with x whitened twice: no whitened copy of all texts is needed.
    """
    twice, squares = 2 * gaussian.whiten_again(white), _squared_distances(observation)
    best, longest = _Best(len(white), NEIGHBOURS), 0.0
    for part, vectors in observation.chunks(TILE):
        centred = vectors - gaussian.mean
        longest = max(longest, float(np.linalg.norm(centred, axis=1).max()))
        nearness = twice.astype(kind) @ centred.astype(kind).T
        nearness -= squares[part].astype(kind)
        best.admit(nearness, part.start)
    # A sum of d products is off by at most d roundings, whatever the order.
    product = np.linalg.norm(twice, axis=1) * longest
    error = (twice.shape[1] + 16) * np.finfo(kind).eps * (product + squares.max())
    return best, error


@cached
def _squared_distances(observation: Observation) -> Floats:
    """Return each text's squared Mahalanobis distance to the mean."""
    gaussian = fit_gaussian(observation)
    return np.concatenate([gaussian.squared_distance(part) for _, part in observation.chunks()])


def _nearest_by_tiles(targets: Targets, observation: Observation) -> Nearest:
    known, n = within(observation), len(targets)
    lengths, of_texts = np.linalg.norm(targets.vectors, axis=1), lengths_of(observation)
    by_cosine, by_product, by_csls = (_Best(n, NEIGHBOURS) for _ in range(3))
    by_distance = _Best(n, FACTOR_NEIGHBOURS)
    like, near = np.zeros((2, n), dtype=np.int64)
    least_cosine = np.full(n, 1 - radius_limit(known.cosine_radius))
    most = radius_limit(known.distance_radius) ** 2 + _ROUNDING * (lengths + of_texts.max()) ** 2
    for part, product, cosine in _tiles(targets, observation):
        like += _count(cosine, by_cosine.admit(cosine, part.start), least_cosine)
        by_product.admit(product, part.start)
        corrected = np.subtract(cosine, known.hubness[part] / 2, out=cosine)
        by_csls.admit(corrected, part.start)
        # What is left of the target's squared length if the squared distance is taken from it.
        nearness = np.multiply(product, 2 * lengths[:, None], out=product)
        nearness -= of_texts[part] ** 2
        near += _count(nearness, by_distance.admit(nearness, part.start), lengths**2 - most)
    cosine = _measure(targets, observation, by_cosine.places)[1]
    of_corrected = _measure(targets, observation, by_csls.places)[1]
    neighbours = observation.encoded[by_distance.places].astype(np.float64)
    return Nearest(
        cosine=cosine,
        product=_measure(targets, observation, by_product.places)[0],
        csls=correct(of_corrected, top_mean(cosine), known.hubness[by_csls.places]),
        distance=_distances(targets.vectors, neighbours),
        places=by_distance.places,
        cosine_share=like / len(observation),
        distance_share=near / len(observation),
    )


def _tiles(targets: Targets, observation: Observation) -> Iterator[tuple[slice, Floats, Floats]]:
    """Yield products with the targets' directions, and cosines, of some texts at a time."""
    scale = inverse(lengths_of(observation))
    for part, vectors in observation.chunks(TILE):
        product = targets.directions @ vectors.T
        yield part, product, product * scale[part]


def _count(table: Floats, top: Floats, least: Floats) -> Ints:
    """Count the values of each row that are not below its least; `top` is its largest."""
    count = np.zeros(len(table), dtype=np.int64)
    rows = np.flatnonzero(top >= least)
    count[rows] = np.count_nonzero(table[rows] >= least[rows, None], axis=1)
    return count


def _measure(targets: Targets, observation: Observation, places: Ints) -> tuple[Floats, Floats]:
    """Return dot product and cosine of each target with the texts at its places, pair by pair."""
    vectors = observation.encoded[places].astype(np.float64)
    product = np.einsum("td,tkd->tk", targets.vectors, vectors)
    scale = np.linalg.norm(targets.vectors, axis=1)[:, None] * lengths_of(observation)[places]
    cosine = np.divide(product, scale, out=np.zeros_like(product), where=scale > 0)
    return product, np.clip(cosine, -1.0, 1.0)


def _distances(left: Floats, right: Floats) -> Floats:
    """Return the distance of each row to its partners `right[row, j]`: exactly 0 to itself."""
    apart: Floats = np.sqrt(((left[:, None] - right) ** 2).sum(axis=2))
    return apart


class _Best:
    """The k largest values of each row of a table that comes in tiles, and their columns."""

    def __init__(self, rows: int, k: int) -> None:
        self.values = np.full((rows, k), -np.inf)
        self.places = np.zeros((rows, k), dtype=np.int64)

    def admit(self, tile: Floats, start: int) -> Floats:
        """Take in some columns, the first of which is `start`; return the largest of each row."""
        least, top = self.values.min(axis=1), np.asarray(tile.max(axis=1))
        rows = np.flatnonzero(top > least)
        if not len(rows):
            return top
        line, column = np.nonzero(tile[rows] > least[rows, None])
        counts = np.bincount(line, minlength=len(rows))
        rank = np.arange(len(line)) - (np.cumsum(counts) - counts)[line]
        k, width = self.values.shape[1], int(counts.max())
        values = np.full((len(rows), k + width), -np.inf)
        places = np.zeros((len(rows), k + width), dtype=np.int64)
        values[:, :k], places[:, :k] = self.values[rows], self.places[rows]
        values[line, k + rank] = tile[rows[line], column]
        places[line, k + rank] = column + start
        best = np.argpartition(values, width, axis=1)[:, width:]
        self.values[rows] = np.take_along_axis(values, best, axis=1)
        self.places[rows] = np.take_along_axis(places, best, axis=1)
        return top
