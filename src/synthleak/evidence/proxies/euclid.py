"""Euclidean proximity: how close the nearest texts lie."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.nearest import nearest, top_mean


@family(
    "euclid",
    order=9,
    version=2,
    view="embedding",
    scale="ratio",
    proxies={
        "euclid_nn": "1 / (1 + distance) to the nearest text",
        "euclid_topk": "mean 1 / (1 + distance) to the 10 nearest texts",
        "euclid_radius": "share of O within the median leave-one-out neighbour distance",
    },
)
def euclid(targets: Targets, observation: Observation) -> Floats:
    """Euclidean closeness of the target to its nearest texts, and how many are near.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(euclid, ["0 0"], ["0 1", "0 3"])
    array([[0.5  , 0.375, 0.5  ]])
    """
    near = nearest(targets, observation)
    closeness = 1 / (1 + near.distance)
    return np.stack([closeness.max(axis=1), top_mean(closeness), near.distance_share], axis=1)
