"""Anomaly scores, turned round: how normal the target looks among the texts."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.family import family
from synthleak.evidence.forest import isolation_normality
from synthleak.evidence.neighbours import distances, own_distances
from synthleak.evidence.observation import Floats, Observation, Targets
from synthleak.evidence.outlier_factor import local_outlier_factor
from synthleak.seeds import stream

NEIGHBOURS = 20
MOST = 10.0


@family(
    "anomaly",
    order=13,
    version=1,
    view="embedding",
    scale="ratio",
    proxies={
        "isolation": "isolation-forest normality, 1 - 2^(-path / expected path)",
        "lof": "1 / local outlier factor among 20 neighbours, at most 10",
    },
)
def anomaly(targets: Targets, observation: Observation) -> Floats:
    """Isolation-forest normality and inverse local outlier factor, both fitted on O.

    The forest's seed is the content of the observation. An inverse factor above 10 means that the
    neighbours coincide and tells no more.

    >>> from synthleak.evidence.glance import glance
    >>> inside, outside = glance(anomaly, ["0 0", "9 9"], ["0 1", "1 0", "0 -1", "-1 0"])
    >>> (inside > outside).all()
    np.True_
    """
    rng = stream("isolation", observation.key)
    normality = isolation_normality(observation.vectors, targets.vectors, rng)
    factor = local_outlier_factor(
        own_distances(observation), distances(targets, observation), NEIGHBOURS
    )
    return np.stack([normality, np.minimum(1 / factor, MOST)], axis=1)
