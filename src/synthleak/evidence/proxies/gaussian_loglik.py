"""Gaussian log-likelihood: how dense the observation is around the target."""

from __future__ import annotations

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.nearest import fit_gaussian


@family(
    "gaussian_loglik",
    order=12,
    version=2,
    view="embedding",
    scale="log",
    proxies={"gaussian_loglik": "log-density of x under a Ledoit–Wolf Gaussian on O"},
)
def gaussian_loglik(targets: Targets, observation: Observation) -> Floats:
    """Log-density of the target under a Gaussian with Ledoit–Wolf covariance.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(gaussian_loglik, ["0 0"], ["1 0", "-1 0", "0 1", "0 -1"])  # log(1 / π)
    array([[-1.145]])
    """
    return fit_gaussian(observation).log_density(targets.vectors)[:, None]
