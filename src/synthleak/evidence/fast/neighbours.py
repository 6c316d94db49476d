"""Similarities and distances that several embedding families share, each made once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.extremes import NEIGHBOURS, top_mean
from synthleak.evidence.fast.outlier_factor import FittedFactor, fit_factor
from synthleak.evidence.fast.pairs import ByLength, by_length
from synthleak.evidence.fast.release_neighbours import ReleaseStatistics, release_statistics
from synthleak.evidence.observation import Floats, Observation, Targets

LARGE = 4096
"""Above this number of texts of O a table of all pairs would fill the memory."""
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
    same = distances_within(observation) <= _SAME * scale
    first: NDArray[np.bool_] = ~np.tril(same, -1).any(axis=1)
    return first


def nearest_other(values: Floats) -> Floats:
    """Return each row's smallest value, its own (on the diagonal) left out."""
    apart = values.copy()
    np.fill_diagonal(apart, np.inf)
    nearest: Floats = apart.min(axis=1)
    return nearest


def cosine_radius(observation: Observation) -> float:
    """Return the median distance 1 - cos to the nearest other text."""

    def make() -> float:
        if is_large(observation):
            return statistics_within(observation).cosine_radius
        # As distances, so that one notion of "near" serves cosine and Euclidean radius.
        return median_radius(1 - cosines_within(observation), different(observation))

    return observation.remember("cosine radius", make)


def distance_radius(observation: Observation) -> float:
    """Return the median Euclidean distance to the nearest other text."""

    def make() -> float:
        if is_large(observation):
            return statistics_within(observation).distance_radius
        return median_radius(distances_within(observation), different(observation))

    return observation.remember("distance radius", make)


def hubness(observation: Observation) -> Floats:
    """Return each text's mean cosine to its 10 nearest others."""

    def make() -> Floats:
        if is_large(observation):
            return statistics_within(observation).hubness
        return loo_top_mean(cosines_within(observation))

    return observation.remember("hubness", make)


def fitted_factor(observation: Observation, k: int) -> FittedFactor:
    """Fit the local outlier factor of O, once."""

    def make() -> FittedFactor:
        if is_large(observation):
            return statistics_within(observation).factor
        return fit_factor(distances_within(observation), k)

    return observation.remember(f"outlier factor of {k}", make)


def statistics_within(observation: Observation, threads: int = 1) -> ReleaseStatistics:
    """Return what the texts of a large O are to one another, found once."""
    return observation.remember(
        "within", lambda: release_statistics(by_length(observation), _SAME, threads)
    )


def set_statistics(observation: Observation, read: Callable[[], ReleaseStatistics]) -> None:
    """Let a large O take what its texts are to one another from elsewhere."""
    observation.remember("within", read)


def vectors_of(observation: Observation) -> Floats | ByLength:
    """Return the vectors of O; of a large one in order of length, which takes half the memory."""
    return by_length(observation) if is_large(observation) else observation.vectors


def is_large(observation: Observation) -> bool:
    """Say whether a table of all pairs of texts would fill the memory."""
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
    kept = distance[np.ix_(first, first)]
    return float(np.median(nearest_other(kept))) if len(kept) > 1 else 0.0
