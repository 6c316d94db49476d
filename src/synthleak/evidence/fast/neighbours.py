"""Similarities and distances that several embedding families share, each computed once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.outlier_factor import FittedFactor, fit_factor
from synthleak.evidence.fast.release_neighbours import (
    ReleaseStatistics,
    release_statistics,
    top_mean,
)
from synthleak.evidence.observation import (
    Floats,
    Observation,
    Targets,
    remembered,
    remembered_beside,
)

LARGE = 4096
"""Above this number of texts of O a table of all pairs would fill the memory."""
# Vectors come in single precision: two that differ by less than this are the same vector.
_SAME = 1e-5
# "Within" a radius is not decided by the last digit of a sum.
_SLACK = 1e-9
_FEW, _SOME = 8, 64


@remembered_beside
def cosines(targets: Targets, observation: Observation) -> Floats:
    """Return the cosine of every target with every text; 0 with a zero vector."""
    return np.asarray(np.clip(targets.directions @ observation.directions.T, -1.0, 1.0))


@remembered
def cosines_within(observation: Observation) -> Floats:
    """Return the cosines of the texts of O with one another."""
    return np.asarray(np.clip(observation.directions @ observation.directions.T, -1.0, 1.0))


@remembered_beside
def distances(targets: Targets, observation: Observation) -> Floats:
    """Return the Euclidean distance of every target to every text: exactly 0 to itself."""
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(targets.vectors, observation.vectors))


def nearest_distance(points: Floats, others: Floats) -> Floats:
    """Return each point's distance to the nearest other.

    Among many others, a matrix product finds the few that can be the nearest, and only their
    distances are computed one by one: the same distances, three times as fast.
    """
    from scipy.spatial.distance import cdist

    if len(others) <= LARGE:
        nearest: Floats = cdist(points, others).min(axis=1)
        return nearest
    squares, found = (others**2).sum(axis=1), []
    for start in range(0, len(points), _SOME):
        some = points[start : start + _SOME]
        few = np.argpartition(squares - 2 * some @ others.T, _FEW, axis=1)[:, :_FEW]
        found += [cdist(p[None], others[near]).min() for p, near in zip(some, few, strict=True)]
    return np.array(found)


def smallest(distance: Floats, k: int) -> Floats:
    """Return each row's k smallest values, unordered (all, if there are fewer)."""
    if k >= distance.shape[1]:
        return distance
    few: Floats = np.partition(distance, k - 1, axis=1)[:, :k]
    return few.copy()


@remembered
def distances_within(observation: Observation) -> Floats:
    """Return the Euclidean distances between the texts of O.

    They come from one matrix product, which is ten times as fast as one by one.
    """
    centred = observation.vectors - observation.vectors.mean(axis=0)
    squares = (centred**2).sum(axis=1)
    squared = squares[:, None] + squares[None] - 2 * centred @ centred.T
    np.fill_diagonal(squared, 0.0)
    between: Floats = np.sqrt(np.maximum(squared, 0.0))
    return between


def loo_top_mean(similarity: Floats) -> Floats:
    """Return each row's mean over its 10 largest values but the diagonal; 0 for a single row."""
    n = len(similarity)
    if n == 1:
        return np.zeros(1)
    others = similarity[~np.eye(n, dtype=np.bool_)].reshape(n, n - 1)
    return top_mean(others)


@remembered
def first_vectors(observation: Observation) -> NDArray[np.bool_]:
    """Say which vectors of O equal no earlier one: duplicates would shrink a radius."""
    scale = np.linalg.norm(observation.vectors, axis=1).max(initial=0.0)
    same = distances_within(observation) <= _SAME * scale
    first: NDArray[np.bool_] = ~np.tril(same, -1).any(axis=1)
    return first


def nearest_other(values: Floats) -> Floats:
    """Return each row's smallest value but the diagonal."""
    apart = values.copy()
    np.fill_diagonal(apart, np.inf)
    nearest: Floats = apart.min(axis=1)
    return nearest


@remembered
def cosine_radius(observation: Observation) -> float:
    """Return the median distance 1 - cos to the nearest other text."""
    if len(observation) > LARGE:
        return statistics_by_rows(observation).cosine_radius
    # As distances, so that one notion of "near" serves cosine and Euclidean radius.
    return median_radius(1 - cosines_within(observation), first_vectors(observation))


@remembered
def distance_radius(observation: Observation) -> float:
    """Return the median Euclidean distance to the nearest other text."""
    if len(observation) > LARGE:
        return statistics_by_rows(observation).distance_radius
    return median_radius(distances_within(observation), first_vectors(observation))


@remembered
def hubness(observation: Observation) -> Floats:
    """Return each text's mean cosine to its 10 nearest others."""
    if len(observation) > LARGE:
        return statistics_by_rows(observation).hubness
    return loo_top_mean(cosines_within(observation))


@remembered
def fitted_factor(observation: Observation, k: int) -> FittedFactor:
    """Fit the local outlier factor to O."""
    if len(observation) > LARGE:
        return statistics_by_rows(observation).factor
    return fit_factor(distances_within(observation), k)


@remembered
def statistics_by_rows(observation: Observation) -> ReleaseStatistics:
    """Return radii, hubness and outlier factor of a large O, computed row by row."""
    return release_statistics(observation.directions, observation.vectors, _SAME)


def share_within(distance: Floats, radius: float) -> Floats:
    """Return the share of each row that lies within the radius.

    >>> share_within(np.array([[0.1, 0.2, 0.4]]), 0.2).round(2)
    array([0.67])
    """
    share: Floats = (distance <= radius + _SLACK * max(radius, 1.0)).mean(axis=1)
    return share


def median_radius(distance: Floats, first: NDArray[np.bool_]) -> float:
    """Return the median distance to the nearest other text, among the `first` vectors.

    It is 0 for a single vector, which has no other.
    """
    kept = distance[np.ix_(first, first)]
    return float(np.median(nearest_other(kept))) if len(kept) > 1 else 0.0
