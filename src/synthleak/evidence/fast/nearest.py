"""How targets and the texts of an observation lie to one another as vectors.

The Gaussian of O is shared by the families that measure density or distance. What O tells of itself
comes from all pairs of its texts; of a large O the radii are those of a sample, and every text has
its neighbours in the sample (docs/method.md §6).

Targets meet all texts: those of a small O in whole tables, those of a large one tile by tile. Only
the best so far are kept then, and measured again at the end, pair by pair, so that neither the tile
nor the other targets can move the last digit of a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

# Here rather than where it is used: an engine limits the threads of the libraries that are loaded.
from scipy.linalg import solve_triangular

from synthleak.core.seeds import stream
from synthleak.evidence.observation import (
    CHUNK,
    Floats,
    Ints,
    Observation,
    Targets,
    cached,
    cached_for_targets,
)

# What is added to every variance: this share of their mean, and this much where all are 0.
_SHARE, _LEAST = 1e-9, 1e-12


@dataclass(frozen=True)
class Gaussian:
    """A mean and a covariance with its Cholesky factor."""

    mean: Floats
    factor: Floats

    @cached_property
    def log_determinant(self) -> float:
        return 2.0 * float(np.log(np.diag(self.factor)).sum())

    def whiten(self, vectors: Floats) -> Floats:
        """Move vectors to where Euclidean distance is Mahalanobis distance."""
        white: Floats = solve_triangular(
            self.factor, (vectors - self.mean).T, lower=True, check_finite=False
        ).T
        return white

    def whiten_again(self, white: Floats) -> Floats:
        """Return white vectors times the inverse of the factor, which makes it the covariance's."""
        twice: Floats = solve_triangular(
            self.factor, white.T, lower=True, trans="T", check_finite=False
        ).T
        return twice

    def squared_distance(self, vectors: Floats) -> Floats:
        """Return the squared Mahalanobis distance to the mean."""
        squared: Floats = (self.whiten(vectors) ** 2).sum(axis=1)
        return squared

    def log_density(self, vectors: Floats) -> Floats:
        constant = self.log_determinant + len(self.mean) * np.log(2 * np.pi)
        density: Floats = -0.5 * (self.squared_distance(vectors) + constant)
        return density


@cached
def fit_gaussian(observation: Observation) -> Gaussian:
    """Fit a Gaussian with Ledoit–Wolf covariance to the vectors of an observation."""
    if observation.is_large:
        return gaussian_of(lambda: (vectors for _, vectors in observation.chunks()))
    return gaussian_of(lambda: [observation.vectors])


def gaussian_of(chunks: Callable[[], Iterable[Floats]]) -> Gaussian:
    """Fit a Gaussian with Ledoit–Wolf covariance to vectors, some at a time.

    Its variances are raised by a tiny share of their mean, and by a tinier number should all
    vectors coincide, so that a degenerate observation still gives finite values.
    """
    n, mean = 0, np.zeros(1)
    for vectors in chunks():
        n += len(vectors)
        mean = mean + vectors.sum(axis=0)
    mean /= n
    covariance, fourth = np.zeros((len(mean), len(mean))), 0.0
    for vectors in chunks():
        centred = vectors - mean
        covariance += centred.T @ centred
        np.square(centred, out=centred)  # in place: chunks are large
        fourth += float((centred.sum(axis=1) ** 2).sum())
    covariance = ledoit_wolf(covariance / n, fourth, n)
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] += _SHARE * covariance[diagonal].mean() + _LEAST
    factor: Floats = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
    return Gaussian(mean, factor)


def ledoit_wolf(sample: Floats, fourth: float, n: int) -> Floats:
    """Shrink the sample covariance of n vectors as Ledoit and Wolf (2004) derive.

    `fourth` is the sum of the fourth powers of the centred vectors' lengths.
    """
    dimensions = len(sample)
    level = np.trace(sample) / dimensions
    # Distance of the sample covariance from the sphere, and how much of it is sampling error.
    distance = (sample**2).sum() - dimensions * level**2
    error = fourth / n**2 - (sample**2).sum() / n
    shrinkage = min(max(error, 0.0) / distance, 1.0) if distance > 0 else 1.0
    shrunk: Floats = (1 - shrinkage) * sample
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * level
    return shrunk


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


def fit_factor(distance: Floats, neighbours: NDArray[np.integer]) -> OutlierFactor:
    """Fit to the neighbours of each point, and the distances to them."""
    if not distance.size:  # one point
        return OutlierFactor(np.zeros(1), np.zeros(1), 1)
    reach: Floats = distance.max(axis=1)
    density = np.empty(len(reach))
    for start in range(0, len(reach), CHUNK):
        part = slice(start, start + CHUNK)
        density[part] = _density(distance[part], neighbours[part], reach)
    return OutlierFactor(reach, density, distance.shape[1])


def _density(distance: Floats, neighbours: NDArray[np.integer], reach: Floats) -> Floats:
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
    return np.concatenate([np.linalg.norm(part, axis=1) for _, part in observation.chunks(TILE)])


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
    neighbours = np.empty((n, min(FACTOR_NEIGHBOURS, len(rows) - 1)), dtype=np.int32)
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
    return np.concatenate([gaussian.squared_distance(part) for _, part in observation.chunks(TILE)])


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
