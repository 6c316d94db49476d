"""What an observation tells of itself: how near its texts lie to one another.

The texts of O are compared through whole tables. Of a large O the radii are those of a sample, and
every text has its neighbours in the sample, so that the cost grows with the number of texts and not
with its square (docs/method.md §6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.seeds import stream
from synthleak.evidence.observation import (
    Floats,
    Ints,
    Observation,
    Targets,
    cached,
    cached_for_targets,
)

NEIGHBOURS = 10
"""Nearest texts that a similarity is the mean of (docs/method.md §6)."""
FACTOR_NEIGHBOURS = 20
"""Nearest texts of the local outlier factor."""
SAMPLE = 4096
"""The number of texts in the sample of a large observation."""
_ROWS = 512
"""Texts that are compared with the sample at once: a table of them takes 16 MB."""
# Vectors come in single precision: two that differ by less than this are the same vector.
_SAME = 1e-5
# "Within" a radius is not decided by the last digit of a sum.
_SLACK = 1e-9
# Keeps the density around points that coincide finite.
_TINY = 1e-10


@dataclass(frozen=True)
class OutlierFactor:
    """The local outlier factor (Breunig et al. 2000), fitted to some points.

    `reach` is how far each lies from its k-th neighbour, `density` how dense it is around it.
    """

    reach: Floats
    density: Floats
    k: int

    def of(self, distance: Floats, places: Ints) -> Floats:
        """Return how much less dense it is around new points than around their neighbours.

        `distance[t, j]` is that of a new point to the fitted point `places[t, j]`, for its k
        nearest at least. As scikit-learn in novelty mode; a single fitted point, which has no
        neighbour, gives 1.
        """
        if len(self.reach) == 1:
            return np.ones(len(distance))
        nearest = smallest_places(distance, self.k)
        around = np.take_along_axis(places, nearest, axis=1)
        density = _density(np.take_along_axis(distance, nearest, axis=1), around, self.reach)
        factor: Floats = self.density[around].mean(axis=1) / density
        return factor


def fit_factor(distance: Floats, neighbours: Ints) -> OutlierFactor:
    """Fit to the neighbours of each point, and the distances to them."""
    if not distance.size:  # one point
        return OutlierFactor(np.zeros(1), np.zeros(1), 1)
    reach: Floats = distance.max(axis=1)
    return OutlierFactor(reach, _density(distance, neighbours, reach), distance.shape[1])


def _density(distance: Floats, neighbours: Ints, reach: Floats) -> Floats:
    """Return the inverse mean reachability distance."""
    reachable = np.maximum(distance, reach[neighbours])
    density: Floats = 1 / (reachable.mean(axis=1) + _TINY)
    return density


@dataclass(frozen=True)
class Within:
    """How near the texts of O lie to one another.

    The radii are medians of the distance to the nearest other text: 1 - cos, and Euclidean.
    `hubness` is each text's mean cosine to its 10 nearest others.
    """

    cosine_radius: float
    distance_radius: float
    hubness: Floats
    factor: OutlierFactor


@cached
def within(observation: Observation) -> Within:
    """Compare the texts of O with one another; those of a large O with a sample of it."""
    return _with_sample(observation) if observation.is_large else _with_all(observation)


def _with_all(observation: Observation) -> Within:
    cosine = np.clip(observation.directions @ observation.directions.T, -1.0, 1.0)
    distance = _distances_within(observation.vectors)
    longest = np.linalg.norm(observation.vectors, axis=1).max(initial=0.0)
    first = _first_of_kind(distance, longest)
    # As distances, so that one notion of "near" serves cosine and Euclidean radius.
    radii = median_radius(1 - cosine, first), median_radius(distance, first)
    n = len(observation)
    others = cosine[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
    hubness = top_mean(others) if n > 1 else np.zeros(1)
    np.fill_diagonal(distance, np.inf)
    neighbours = smallest_places(distance, min(FACTOR_NEIGHBOURS, n - 1))
    factor = fit_factor(np.take_along_axis(distance, neighbours, axis=1), neighbours)
    return Within(*radii, hubness, factor)


def sample_rows(observation: Observation) -> Ints:
    """Return the rows of a large O that make up its sample: a draw seeded by its content."""
    draw = stream("sample of an observation", observation.key)
    return np.sort(draw.choice(len(observation), size=min(SAMPLE, len(observation)), replace=False))


@cached
def lengths_of(observation: Observation) -> Floats:
    return np.concatenate([np.linalg.norm(part, axis=1) for _, part in observation.chunks()])


def inverse(lengths: Floats) -> Floats:
    """Return 1 / length; 0 for a zero vector, whose cosines are 0."""
    return np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)


def _with_sample(observation: Observation) -> Within:
    rows, n = sample_rows(observation), len(observation)
    drawn = observation.encoded[rows].astype(np.float64)
    lengths, of_sample = lengths_of(observation), np.linalg.norm(drawn, axis=1)
    scale, of_texts = inverse(of_sample), inverse(lengths)
    column = np.full(n, -1)  # where a text stands in the sample
    column[rows] = np.arange(len(rows))
    products = np.empty((len(rows), len(rows)))
    hubness = np.empty(n)
    neighbours = np.empty((n, min(FACTOR_NEIGHBOURS, len(rows) - 1)), dtype=np.int64)
    apart, k = np.empty(neighbours.shape), min(NEIGHBOURS, len(rows) - 1)
    for part, vectors in observation.chunks(_ROWS):
        product = vectors @ drawn.T
        inside = np.flatnonzero(column[part] >= 0)
        itself = inside, column[part][inside]
        products[itself[1]] = product[inside]
        # The squared distance, less the squared length of the text.
        square = product * -2
        square += of_sample**2
        product *= scale  # the cosine, but for the length of the text
        product[itself], square[itself] = -np.inf, np.inf  # a text is not its own neighbour
        product.partition(-k, axis=1)
        near = product[:, -k:] * of_texts[part, None]
        hubness[part] = top_mean(np.clip(near, -1.0, 1.0))
        nearest = smallest_places(square, neighbours.shape[1])
        neighbours[part] = rows[nearest]
        apart[part] = np.take_along_axis(square, nearest, axis=1) + lengths[part, None] ** 2
    np.sqrt(np.maximum(apart, 0.0, out=apart), out=apart)
    # Tables of the sample are large: they are changed in place.
    distance = products * -2
    distance += of_sample[:, None] ** 2
    distance += of_sample**2
    np.sqrt(np.maximum(distance, 0.0, out=distance), out=distance)
    first = _first_of_kind(distance, float(lengths.max()))
    products *= scale[:, None]
    products *= scale
    np.subtract(1.0, np.clip(products, -1.0, 1.0, out=products), out=products)
    radii = median_radius(products, first), median_radius(distance, first)
    return Within(*radii, hubness, fit_factor(apart, neighbours))


def _distances_within(vectors: Floats) -> Floats:
    """Return distances by one matrix product, which is ten times as fast as one by one."""
    centred = vectors - vectors.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    squared = squares[:, None] + squares[None] - 2 * centred @ centred.T
    np.fill_diagonal(squared, 0.0)
    between: Floats = np.sqrt(np.maximum(squared, 0.0))
    return between


def _first_of_kind(distance: Floats, longest: float) -> NDArray[np.bool_]:
    """Say which vectors are the first of their kind: duplicates would shrink a radius."""
    return np.asarray(~np.tril(distance <= _SAME * longest, -1).any(axis=1))


def median_radius(distance: Floats, first: NDArray[np.bool_]) -> float:
    """Return the median distance to the nearest other text, among the first of their kind.

    With a single vector there is no other: nothing but itself is near.
    """
    kept = distance[np.ix_(first, first)]
    np.fill_diagonal(kept, np.inf)
    return float(np.median(kept.min(axis=1))) if len(kept) > 1 else 0.0


def radius_limit(radius: float) -> float:
    """Return the largest distance that counts as within a radius."""
    return radius + _SLACK * max(radius, 1.0)


@cached_for_targets
def cosines(targets: Targets, observation: Observation) -> Floats:
    """Return the cosine of every target with every text; 0 with a zero vector."""
    return np.clip(targets.directions @ observation.directions.T, -1.0, 1.0)


@cached_for_targets
def distances(targets: Targets, observation: Observation) -> Floats:
    """Return the Euclidean distance of every target to every text: exactly 0 to itself."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(targets.vectors, observation.vectors))


def largest(values: Floats, k: int) -> Floats:
    """Return each row's k largest values (all, if there are fewer), unordered."""
    n = values.shape[1]
    return values if k >= n else np.partition(values, n - k, axis=1)[:, n - k :]


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
    return np.argpartition(values, k - 1, axis=1)[:, :k]
