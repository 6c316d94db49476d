"""Gaussian log-likelihood: how dense the observation is around the target."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.density import fit_gaussian
from synthleak.evidence.family import family
from synthleak.evidence.observation import Floats, Observation, Targets


@family(
    "gaussian_loglik",
    version=1,
    view="embedding",
    scale="log",
    proxies={"gaussian_loglik": "log-density of x under a Ledoit–Wolf Gaussian on O"},
)
def gaussian_loglik(targets: Targets, observation: Observation) -> Floats:
    """Log-density of the target under a Gaussian with Ledoit–Wolf covariance."""
    gaussian = fit_gaussian(observation)
    quadratic = gaussian.squared_distance(targets.vectors)
    dimensions = targets.vectors.shape[1]
    value = -0.5 * (quadratic + gaussian.log_determinant + dimensions * np.log(2 * np.pi))
    return np.asarray(value)[:, None]
