"""The Gaussian of an observation, shared by the families that measure density or distance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Imported at the top: an engine limits the threads of those libraries only that are loaded.
from scipy.linalg import solve_triangular

from synthleak.evidence.observation import Floats, TextSet, remembered

# Added to every variance: this share of their mean, and this much where all are 0.
_SHARE, _LEAST = 1e-9, 1e-12


@dataclass(frozen=True)
class Gaussian:
    """A mean and a covariance with its Cholesky factor."""

    mean: Floats
    factor: Floats

    @cached_property
    def log_determinant(self) -> float:
        """The logarithm of the covariance's determinant."""
        return 2.0 * float(np.log(np.diag(self.factor)).sum())

    def whiten(self, vectors: Floats) -> Floats:
        """Transform vectors so that Euclidean distance is Mahalanobis distance."""
        white: Floats = solve_triangular(
            self.factor, (vectors - self.mean).T, lower=True, check_finite=False
        ).T
        return white

    def log_density(self, vectors: Floats) -> Floats:
        """Return the logarithm of the density at each vector."""
        constant = self.log_determinant + len(self.mean) * np.log(2 * np.pi)
        squared_distance = (self.whiten(vectors) ** 2).sum(axis=1)
        density: Floats = -0.5 * (squared_distance + constant)
        return density


@remembered
def fit_gaussian(texts: TextSet) -> Gaussian:
    """Fit a Gaussian with Ledoit–Wolf covariance to the vectors of an observation."""
    return ledoit_wolf_gaussian(texts.vectors)


def ledoit_wolf_gaussian(vectors: Floats) -> Gaussian:
    """Fit a Gaussian with Ledoit–Wolf covariance.

    A tiny share of their mean is added to the variances, and a smaller constant for the case that
    all vectors are equal, so that a degenerate observation still gives finite values.
    """
    mean = vectors.mean(axis=0)
    covariance = ledoit_wolf(vectors - mean)
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] += _SHARE * covariance[diagonal].mean() + _LEAST
    factor: Floats = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
    return Gaussian(mean, factor)


def ledoit_wolf(centred: Floats) -> Floats:
    """Return the covariance of centred vectors, shrunk as Ledoit and Wolf (2004) derive."""
    n, dimensions = centred.shape
    sample: Floats = centred.T @ centred / n
    level = np.trace(sample) / dimensions
    # Distance of the sample covariance from the sphere, and how much of it is sampling error.
    distance = (sample**2).sum() - dimensions * level**2
    error = ((centred**2).sum(axis=1) ** 2).sum() / n**2 - (sample**2).sum() / n
    shrinkage = min(max(error, 0.0) / distance, 1.0) if distance > 0 else 1.0
    shrunk: Floats = (1 - shrinkage) * sample
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * level
    return shrunk
