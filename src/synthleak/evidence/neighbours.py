"""Neighbourhood statistics that several embedding families share."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.observation import Floats

NEIGHBOURS = 10


def top_mean(similarity: Floats, k: int = NEIGHBOURS) -> Floats:
    """Return each row's mean over its k largest values (over all, if there are fewer).

    >>> top_mean(np.array([[1.0, 3.0, 2.0]]), k=2)
    array([2.5])
    """
    k = min(k, similarity.shape[1])
    best: Floats = np.sort(similarity, axis=1)[:, similarity.shape[1] - k :]
    mean: Floats = best.mean(axis=1)
    return mean


def loo_nearest(similarity: Floats) -> Floats:
    """Return each row's largest value, its own diagonal left out."""
    apart = similarity.copy()
    np.fill_diagonal(apart, -np.inf)
    nearest: Floats = apart.max(axis=1)
    return nearest
