"""The Gaussian of an observation, shared by the families that measure density or distance."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

# Here rather than where it is used: an engine limits the threads of the libraries that are loaded.
from scipy.linalg import solve_triangular

from synthleak.evidence.fast.neighbours import is_large
from synthleak.evidence.fast.pairs import ByLength, by_length
from synthleak.evidence.observation import Floats, Observation

# What is added to every variance: this share of their mean, and this much where all are 0.
_SHARE, _LEAST = 1e-9, 1e-12


@dataclass(frozen=True)
class Gaussian:
    """A mean and a covariance with its Cholesky factor."""

    mean: Floats
    factor: Floats

    @property
    def dimensions(self) -> int:
        """The number of dimensions."""
        return len(self.mean)

    @cached_property
    def log_determinant(self) -> float:
        """The logarithm of the covariance's determinant."""
        return 2.0 * float(np.log(np.diag(self.factor)).sum())

    def whiten(self, vectors: Floats) -> Floats:
        """Move vectors to where Euclidean distance is Mahalanobis distance."""
        white: Floats = solve_triangular(
            self.factor, (vectors - self.mean).T, lower=True, check_finite=False
        ).T
        return white

    def squared_distance(self, vectors: Floats) -> Floats:
        """Return the squared Mahalanobis distance to the mean."""
        squared: Floats = (self.whiten(vectors) ** 2).sum(axis=1)
        return squared

    def log_density(self, vectors: Floats) -> Floats:
        """Return the logarithm of the density at each vector."""
        constant = self.log_determinant + self.dimensions * np.log(2 * np.pi)
        density: Floats = -0.5 * (self.squared_distance(vectors) + constant)
        return density


def fit_gaussian(observation: Observation) -> Gaussian:
    """Fit a Gaussian with Ledoit–Wolf covariance to the vectors of an observation, once."""

    def make() -> Gaussian:
        if is_large(observation):
            return gaussian_of_many(by_length(observation))
        return ledoit_wolf_gaussian(observation.vectors)

    return observation.remember("gaussian", make)


def ledoit_wolf_gaussian(vectors: Floats) -> Gaussian:
    """Fit a Gaussian with Ledoit–Wolf covariance.

    Its variances are raised by a tiny share of their mean, and by a tinier number should all
    vectors coincide, so that a degenerate observation still gives finite values.
    """
    mean = vectors.mean(axis=0)
    return _gaussian(mean, ledoit_wolf(vectors - mean))


def gaussian_of_many(texts: ByLength) -> Gaussian:
    """Fit the same Gaussian to many vectors, some at a time."""
    n, dimensions = texts.vectors.shape
    mean = np.zeros(dimensions)
    for _, vectors in texts.chunks():
        mean += vectors.sum(axis=0)
    mean /= n
    sample, fourth = np.zeros((dimensions, dimensions)), 0.0
    for _, vectors in texts.chunks():
        centred = vectors - mean
        sample += centred.T @ centred
        fourth += float(((centred**2).sum(axis=1) ** 2).sum())
    return _gaussian(mean, _shrunk(sample / n, fourth, n))


def _gaussian(mean: Floats, covariance: Floats) -> Gaussian:
    diagonal = np.diag_indices_from(covariance)
    covariance[diagonal] += _SHARE * covariance[diagonal].mean() + _LEAST
    factor: Floats = np.linalg.cholesky(covariance).astype(np.float64, copy=False)
    return Gaussian(mean, factor)


def ledoit_wolf(centred: Floats) -> Floats:
    """Return the covariance of centred vectors, shrunk as Ledoit and Wolf (2004) derive."""
    n = len(centred)
    sample: Floats = centred.T @ centred / n
    return _shrunk(sample, ((centred**2).sum(axis=1) ** 2).sum(), n)


def _shrunk(sample: Floats, fourth: float, n: int) -> Floats:
    """Shrink a sample covariance; `fourth` is the sum of the fourth powers of the lengths."""
    dimensions = len(sample)
    level = np.trace(sample) / dimensions
    # Distance of the sample covariance from the sphere, and how much of it is sampling error.
    distance = (sample**2).sum() - dimensions * level**2
    error = fourth / n**2 - (sample**2).sum() / n
    shrinkage = min(max(error, 0.0) / distance, 1.0) if distance > 0 else 1.0
    shrunk: Floats = (1 - shrinkage) * sample
    shrunk[np.diag_indices_from(shrunk)] += shrinkage * level
    return shrunk
