"""The Gaussian of an observation, shared by the families that measure density or distance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Here rather than where it is used: an engine limits the threads of the libraries that are loaded.
from scipy.linalg import solve_triangular

from synthleak.evidence.observation import Floats, Observation, cached

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
        fourth += float(((centred**2).sum(axis=1) ** 2).sum())
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
