"""The local outlier factor of new points (Breunig et al. 2000), from distances."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.evidence.ragged import Ints

_TINY = 1e-10


def local_outlier_factor(own: Floats, new: Floats, k: int) -> Floats:
    """Return how much less dense it is around each new point than around its neighbours.

    `own[i, j]` are the distances within the fitted set, `new[t, j]` those of the new points to it.
    As scikit-learn in novelty mode; a single fitted point, which has no neighbour, gives 1.
    """
    n = len(own)
    if n == 1:
        return np.ones(len(new))
    k = min(k, n - 1)
    apart = own.copy()
    np.fill_diagonal(apart, np.inf)
    neighbours = _nearest(apart, k)
    reach = np.take_along_axis(apart, neighbours, axis=1).max(axis=1)
    density = _density(apart, neighbours, reach)
    around = _nearest(new, k)
    factor: Floats = density[around].mean(axis=1) / _density(new, around, reach)
    return factor


def _nearest(distance: Floats, k: int) -> Ints:
    if k >= distance.shape[1]:
        return np.tile(np.arange(distance.shape[1]), (len(distance), 1))
    nearest: Ints = np.argpartition(distance, k - 1, axis=1)[:, :k]
    return nearest


def _density(distance: Floats, neighbours: Ints, reach: Floats) -> Floats:
    """Return the inverse mean reachability distance; a tiny number keeps it finite."""
    reachable = np.maximum(np.take_along_axis(distance, neighbours, axis=1), reach[neighbours])
    density: Floats = 1 / (reachable.mean(axis=1) + _TINY)
    return density
