"""Similarities and distances that several embedding families share, each made once.

What a proxy needs to know of O itself comes from a table of all its texts. Of a large O it comes
from a sample: radii are those of the sample, and every text has its neighbours in the sample, so
that the cost grows with the number of texts and not with its square (docs/method.md §6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.seeds import stream
from synthleak.evidence.fast.extremes import NEIGHBOURS, largest, smallest_places, top_mean
from synthleak.evidence.fast.outlier_factor import NEIGHBOURS as FACTOR_NEIGHBOURS
from synthleak.evidence.fast.outlier_factor import FittedFactor, factor_of_neighbours, fit_factor
from synthleak.evidence.fast.pairs import ByLength, by_length, cosines_of
from synthleak.evidence.fast.ragged import Ints
from synthleak.evidence.observation import Floats, Observation, Targets

LARGE = 4096
"""Above this number of texts a sample stands for O where its texts are compared."""
SAMPLE = 4096
"""The number of texts in that sample."""
_ROWS = 1024
"""Texts that are compared with the sample at once: a table of them takes 32 MB."""
# Vectors come in single precision: two that differ by less than this are the same vector.
_SAME = 1e-5
# "Within" a radius is not decided by the last digit of a sum.
_SLACK = 1e-9


def cosines(targets: Targets, observation: Observation) -> Floats:
    """Return the cosine of every target with every text; 0 with a zero vector."""
    return observation.beside(
        targets, "cosines", lambda: _cut(targets.directions @ observation.directions.T)
    )


def cosines_within(observation: Observation) -> Floats:
    """Return the cosines of the texts of O with one another."""
    return observation.remember(
        "cosines", lambda: _cut(observation.directions @ observation.directions.T)
    )


def distances(targets: Targets, observation: Observation) -> Floats:
    """Return the Euclidean distance of every target to every text: exactly 0 to itself."""
    from scipy.spatial.distance import cdist

    return observation.beside(
        targets, "distances", lambda: np.asarray(cdist(targets.vectors, observation.vectors))
    )


def distances_within(observation: Observation) -> Floats:
    """Return the Euclidean distances between the texts of O."""
    return observation.remember("distances", lambda: _distances_within(observation.vectors))


def _distances_within(vectors: Floats) -> Floats:
    """Return distances by one matrix product, which is ten times as fast as one by one."""
    centred = vectors - vectors.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    squared = squares[:, None] + squares[None] - 2 * centred @ centred.T
    np.fill_diagonal(squared, 0.0)
    between: Floats = np.sqrt(np.maximum(squared, 0.0))
    return between


def _cut(cosine: Floats) -> Floats:
    cut: Floats = np.clip(cosine, -1.0, 1.0)
    return cut


def loo_top_mean(similarity: Floats) -> Floats:
    """Return each row's mean over its largest values, its own left out; 0 if it is alone."""
    n = len(similarity)
    if n == 1:
        return np.zeros(1)
    others = similarity[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
    return top_mean(others, NEIGHBOURS)


def different(observation: Observation) -> NDArray[np.bool_]:
    """Say which vectors of O are the first of their kind: duplicates would shrink a radius."""
    return observation.remember("different", lambda: _different(observation))


def _different(observation: Observation) -> NDArray[np.bool_]:
    scale = np.linalg.norm(observation.vectors, axis=1).max(initial=0.0)
    return _first_of_kind(distances_within(observation), scale)


def _first_of_kind(distance: Floats, scale: float) -> NDArray[np.bool_]:
    return np.asarray(~np.tril(distance <= _SAME * scale, -1).any(axis=1))


def nearest_other(values: Floats) -> Floats:
    """Return each row's smallest value, its own (on the diagonal) left out."""
    apart = values.copy()
    np.fill_diagonal(apart, np.inf)
    nearest: Floats = apart.min(axis=1)
    return nearest


def cosine_radius(observation: Observation) -> float:
    """Return the median distance 1 - cos to the nearest other text; that of a sample, if large."""

    def make() -> float:
        if is_large(observation):
            return compared_with_sample(observation).cosine_radius
        # As distances, so that one notion of "near" serves cosine and Euclidean radius.
        return median_radius(1 - cosines_within(observation), different(observation))

    return observation.remember("cosine radius", make)


def distance_radius(observation: Observation) -> float:
    """Return the median Euclidean distance to the nearest other text; of a sample, if large."""

    def make() -> float:
        if is_large(observation):
            return compared_with_sample(observation).distance_radius
        return median_radius(distances_within(observation), different(observation))

    return observation.remember("distance radius", make)


def hubness(observation: Observation) -> Floats:
    """Return each text's mean cosine to its 10 nearest others; to those of a sample, if large."""

    def make() -> Floats:
        if is_large(observation):
            return compared_with_sample(observation).hubness
        return loo_top_mean(cosines_within(observation))

    return observation.remember("hubness", make)


def fitted_factor(observation: Observation, k: int) -> FittedFactor:
    """Fit the local outlier factor of O, once; its texts have neighbours in a sample, if large."""

    def make() -> FittedFactor:
        if is_large(observation):
            return compared_with_sample(observation).factor
        return fit_factor(distances_within(observation), k)

    return observation.remember(f"outlier factor of {k}", make)


@dataclass(frozen=True)
class SampleStatistics:
    """What a sample tells of a large O: its radii, and every text's neighbours in the sample."""

    cosine_radius: float
    distance_radius: float
    hubness: Floats
    factor: FittedFactor


def sample_rows(observation: Observation) -> Ints:
    """Return the rows of a large O that make up its sample: a draw seeded by its content."""
    draw = stream("sample of an observation", observation.key)
    return np.sort(draw.choice(len(observation), size=min(SAMPLE, len(observation)), replace=False))


def compared_with_sample(observation: Observation) -> SampleStatistics:
    """Compare the texts of a large O with its sample, once."""
    return observation.remember("sample", lambda: _compared_with_sample(observation))


def _compared_with_sample(observation: Observation) -> SampleStatistics:
    texts, rows = by_length(observation), sample_rows(observation)
    drawn = texts.rows(rows)
    lengths = np.linalg.norm(drawn, axis=1)
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    column = np.full(len(texts), -1)  # where a text stands in the sample
    column[rows] = np.arange(len(rows))
    within = np.empty((len(rows), len(rows)))
    hubness = np.empty(len(texts))
    neighbours = np.empty((len(texts), min(FACTOR_NEIGHBOURS, len(rows) - 1)), dtype=np.int64)
    apart = np.empty(neighbours.shape)
    for start in range(0, len(texts), _ROWS):
        part = slice(start, start + _ROWS)
        here, length = texts.order[part], texts.lengths[part, None]
        product = texts.vectors[part].astype(np.float64) @ drawn.T
        inside = np.flatnonzero(column[here] >= 0)
        own = inside, column[here[inside]]
        within[own[1]] = product[inside]
        square = _squares(product, length, lengths)
        product *= inverse  # the cosine, but for the length of the text
        product[own], square[own] = -np.inf, np.inf  # a text is not its own neighbour
        near = largest(product, min(NEIGHBOURS, len(rows) - 1))
        hubness[here] = top_mean(cosines_of(near, length, np.ones(1)))
        nearest = smallest_places(square, neighbours.shape[1])
        neighbours[here] = rows[nearest]
        apart[here] = np.sqrt(np.take_along_axis(square, nearest, axis=1))
    # Tables of the sample are large: they are changed in place.
    distance = _squares(within, lengths[:, None], lengths)
    np.sqrt(distance, out=distance)
    first = _first_of_kind(distance, float(texts.lengths[-1]))
    within *= inverse[:, None]
    within *= inverse
    np.subtract(1.0, np.clip(within, -1.0, 1.0, out=within), out=within)
    return SampleStatistics(
        median_radius(within, first),
        median_radius(distance, first),
        hubness,
        factor_of_neighbours(neighbours, apart, neighbours.shape[1]),
    )


def _squares(product: Floats, left: Floats, right: Floats) -> Floats:
    """Return squared distances from dot products and lengths."""
    squares = product * -2
    squares += left**2
    squares += right**2
    return np.maximum(squares, 0.0, out=squares)


def vectors_of(observation: Observation) -> Floats | ByLength:
    """Return the vectors of O; of a large one in order of length, which takes half the memory."""
    return by_length(observation) if is_large(observation) else observation.vectors


def is_large(observation: Observation) -> bool:
    """Say whether a sample stands for O where its texts are compared with one another."""
    return len(observation) > LARGE


def share_within(distance: Floats, radius: float) -> Floats:
    """Return the share of each row that lies within the radius.

    >>> share_within(np.array([[0.1, 0.2, 0.4]]), 0.2).round(2)
    array([0.67])
    """
    share: Floats = (distance <= radius_limit(radius)).mean(axis=1)
    return share


def radius_limit(radius: float) -> float:
    """Return the largest distance that counts as within a radius."""
    return radius + _SLACK * max(radius, 1.0)


def median_radius(distance: Floats, first: NDArray[np.bool_]) -> float:
    """Return the median distance to the nearest other text, among the first of their kind.

    With a single vector there is no other: nothing but itself is near.
    """
    kept = distance if first.all() else distance[np.ix_(first, first)]
    return float(np.median(nearest_other(kept))) if len(kept) > 1 else 0.0
