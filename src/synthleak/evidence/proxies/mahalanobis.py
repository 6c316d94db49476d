"""Mahalanobis proximity: closeness in units of the observation's own spread."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.nearest import fit_gaussian, nearest_mahalanobis


@family(
    "mahalanobis",
    order=10,
    version=1,
    view="embedding",
    scale="ratio",
    proxies={
        "mahalanobis_centroid": "1 / (1 + Mahalanobis distance) to the centroid of O",
        "mahalanobis_nn": "1 / (1 + Mahalanobis distance) to the nearest text",
    },
)
def mahalanobis(targets: Targets, observation: Observation) -> Floats:
    """Mahalanobis closeness under the Ledoit–Wolf covariance of the observation.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(mahalanobis, ["0 0"], ["1 0", "-1 0", "0 1", "0 -1"])  # covariance 1/2
    array([[1.   , 0.414]])
    """
    gaussian = fit_gaussian(observation)
    own = gaussian.whiten(targets.vectors)
    centroid = np.linalg.norm(own, axis=1)
    return 1 / (1 + np.stack([centroid, nearest_mahalanobis(targets, observation)], axis=1))
