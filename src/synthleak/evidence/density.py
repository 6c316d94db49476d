"""The Gaussian of an observation, shared by the families that measure density or distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats, Observation

FLOOR = 1e-9


@dataclass(frozen=True)
class Gaussian:
    """A mean and a covariance, kept as eigenvalues and a rotation."""

    mean: Floats
    variances: Floats
    axes: Floats

    @property
    def log_determinant(self) -> float:
        """The logarithm of the covariance's determinant."""
        return float(np.log(self.variances).sum())

    def whiten(self, vectors: Floats) -> Floats:
        """Move vectors to where Euclidean distance is Mahalanobis distance."""
        white: Floats = ((vectors - self.mean) @ self.axes) / np.sqrt(self.variances)
        return white

    def squared_distance(self, vectors: Floats) -> Floats:
        """Return the squared Mahalanobis distance to the mean."""
        squared: Floats = (self.whiten(vectors) ** 2).sum(axis=1)
        return squared


def fit_gaussian(observation: Observation) -> Gaussian:
    """Fit a Gaussian with Ledoit–Wolf covariance to an observation, once."""
    return observation.remember("gaussian", lambda: ledoit_wolf(observation.vectors))


def ledoit_wolf(vectors: Floats) -> Gaussian:
    """Fit a Gaussian with Ledoit–Wolf covariance.

    Variances are floored at a tiny share of their mean (absolutely, where all vectors coincide), so
    that a degenerate observation still gives finite values.
    """
    from sklearn.covariance import ledoit_wolf as shrink

    mean = vectors.mean(axis=0)
    dimensions = vectors.shape[1]
    covariance = (
        shrink(vectors - mean, assume_centered=True)[0]
        if len(vectors) > 1
        else np.zeros((dimensions, dimensions))
    )
    variances, axes = np.linalg.eigh(covariance)
    return Gaussian(mean, np.maximum(variances, max(FLOOR * variances.mean(), FLOOR)), axes)
