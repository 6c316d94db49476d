"""DOMIAS (van Breugel et al. 2023): where the release is denser than the domain.

Its published settings have at least 78 records per dimension, ours often fewer than one; hence four
estimators, two of them on 32 principal axes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from synthleak.evidence import Arm, Attack, Floats, Observation, Targets, TextSet, attacks
from synthleak.evidence.fast.nearest import Gaussian, gaussian_of

_MEANINGS = {
    "g": "log p_G(x) - log p_R(x), Ledoit–Wolf Gaussians",
    "k": "log p_G(x) - log p_R(x), kernel densities",
    "pg": "log p_G(x) - log p_R(x), Gaussians on principal axes of R",
    "pk": "log p_G(x) - log p_R(x), kernel densities on principal axes of R",
}


@attacks.register("domias", version=1)
class Domias(Attack):
    """DOMIAS: density of the release against density of the domain, by four estimators."""

    components: int = Field(default=32, ge=1)

    columns: ClassVar[int] = 8
    scores_only: ClassVar[bool] = True
    uses_auxiliary: ClassVar[bool] = True
    uses_references: ClassVar[bool] = True
    arms: ClassVar[tuple[Arm, ...]] = tuple(
        Arm(name, scenario, 4 * place + column, "embedding", "as it is", meaning)
        for place, scenario in enumerate(("S2", "S3"))
        for column, (name, meaning) in enumerate(_MEANINGS.items())
    )

    def look(
        self, targets: Targets, observation: Observation, references: TextSet | None
    ) -> Floats:
        """Return the log-density ratios against R, then against the references (0 for none)."""
        nothing = np.zeros((len(targets), 4))
        return np.hstack(
            [
                self._against(targets, observation, domain) if domain else nothing
                for domain in (targets.auxiliary, references)
            ]
        )

    def _against(self, targets: Targets, observation: Observation, domain: TextSet) -> Floats:
        basis, expected = domain.remember(
            f"densities of {self.components} at {targets.key}", lambda: self._fit(targets, domain)
        )
        whole = observation.cached_for(
            targets, "densities", lambda: log_densities(observation.vectors, targets.vectors)
        )
        reduced = log_densities(basis.reduce(observation.vectors), basis.reduce(targets.vectors))
        return np.hstack([whole, reduced]) - expected

    def _fit(self, targets: Targets, domain: TextSet) -> tuple[Basis, Floats]:
        """Return the principal axes of the domain, and its log-densities at the targets."""
        basis = principal(domain.vectors, self.components)
        whole = log_densities(domain.vectors, targets.vectors)
        reduced = log_densities(basis.reduce(domain.vectors), basis.reduce(targets.vectors))
        return basis, np.hstack([whole, reduced])


def kernel_log_density(points: Floats, shape: Gaussian, vectors: Floats) -> Floats:
    """Return the log-density at vectors of kernels at the points, width by Scott's rule.

    They have the shape of the Ledoit–Wolf covariance: the sample covariance has no inverse if there
    are fewer points than dimensions.
    """
    from scipy.spatial.distance import cdist
    from scipy.special import logsumexp

    n, dimensions = points.shape
    width = n ** (-1.0 / (dimensions + 4))
    squared = cdist(shape.whiten(vectors), shape.whiten(points), "sqeuclidean") / width**2
    constant = shape.log_determinant + dimensions * np.log(2 * np.pi * width**2)
    density: Floats = logsumexp(-0.5 * squared, axis=1) - np.log(n) - 0.5 * constant
    return density


@dataclass(frozen=True)
class Basis:
    """The leading principal axes of some vectors."""

    mean: Floats
    axes: Floats

    def reduce(self, vectors: Floats) -> Floats:
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
    gaussian = gaussian_of(lambda: [points])
    kernel = kernel_log_density(points, gaussian, vectors)
    return np.stack([gaussian.log_density(vectors), kernel], axis=1)
