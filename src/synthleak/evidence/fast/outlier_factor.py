"""The local outlier factor of new points (Breunig et al. 2000), from distances."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthleak.evidence.fast.extremes import smallest_places
from synthleak.evidence.fast.ragged import Ints
from synthleak.evidence.observation import Floats

NEIGHBOURS = 20
_TINY = 1e-10


@dataclass(frozen=True)
class FittedFactor:
    """How far each fitted point reaches to its k-th neighbour, and how dense it is around it."""

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


def fit_factor(own: Floats, k: int = NEIGHBOURS) -> FittedFactor:
    """Fit to `own[i, j]`, the distances within the fitted set."""
    n = len(own)
    if n == 1:
        return FittedFactor(np.zeros(1), np.zeros(1), 1)
    k = min(k, n - 1)
    apart = own.copy()
    np.fill_diagonal(apart, np.inf)
    neighbours = smallest_places(apart, k)
    return factor_of_neighbours(neighbours, np.take_along_axis(apart, neighbours, axis=1), k)


def factor_of_neighbours(neighbours: Ints, distance: Floats, k: int) -> FittedFactor:
    """Fit to the k neighbours of each point, and the distances to them."""
    reach: Floats = distance.max(axis=1)
    return FittedFactor(reach, _density(distance, neighbours, reach), k)


def _density(distance: Floats, neighbours: Ints, reach: Floats) -> Floats:
    """Return the inverse mean reachability distance; a tiny number keeps it finite."""
    reachable = np.maximum(distance, reach[neighbours])
    density: Floats = 1 / (reachable.mean(axis=1) + _TINY)
    return density
