"""The densities that DOMIAS compares: Gaussian and kernel, on all axes or on principal ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthleak.evidence.fast.density import Gaussian, ledoit_wolf_gaussian
from synthleak.evidence.observation import Floats


@dataclass(frozen=True)
class Kernel:
    """A Gaussian kernel at every point, shaped by the points' covariance, width by Scott's rule.

    The covariance is that of Ledoit and Wolf: the sample covariance has no inverse if there are
    fewer points than dimensions.
    """

    points: Floats
    shape: Gaussian

    def log_density(self, vectors: Floats) -> Floats:
        """Return the logarithm of the density at each vector."""
        from scipy.spatial.distance import cdist
        from scipy.special import logsumexp

        n, dimensions = self.points.shape
        width = n ** (-1.0 / (dimensions + 4))
        white, others = self.shape.whiten(self.points), self.shape.whiten(vectors)
        squared = cdist(others, white, "sqeuclidean") / width**2
        constant = self.shape.log_determinant + dimensions * np.log(2 * np.pi * width**2)
        density: Floats = logsumexp(-0.5 * squared, axis=1) - np.log(n) - 0.5 * constant
        return density


@dataclass(frozen=True)
class Basis:
    """The leading principal axes of some vectors."""

    mean: Floats
    axes: Floats

    def reduce(self, vectors: Floats) -> Floats:
        """Return the coordinates of vectors along the axes."""
        reduced: Floats = (vectors - self.mean) @ self.axes
        return reduced


def principal(vectors: Floats, components: int) -> Basis:
    """Return the leading principal axes, as many as the vectors can span."""
    from scipy.linalg import eigh

    n, dimensions = vectors.shape
    kept = min(components, dimensions, max(n - 1, 1))
    mean = vectors.mean(axis=0)
    centred = vectors - mean
    covariance = centred.T @ centred / n
    _, axes = eigh(covariance, subset_by_index=(dimensions - kept, dimensions - 1))
    return Basis(mean, axes[:, ::-1])


def log_densities(points: Floats, vectors: Floats) -> Floats:
    """Return `[vector, (Gaussian, kernel)]`, both fitted to the points."""
    gaussian = ledoit_wolf_gaussian(points)
    kernel = Kernel(points, gaussian)
    return np.stack([gaussian.log_density(vectors), kernel.log_density(vectors)], axis=1)
