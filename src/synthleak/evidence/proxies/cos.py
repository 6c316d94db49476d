"""Cosine similarity to the nearest texts."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.nearest import nearest, top_mean


@family(
    "cos",
    order=7,
    version=3,
    view="embedding",
    scale="ratio",
    proxies={
        "cos_max": "(1 + cos) / 2 to the nearest text",
        "cos_topk": "mean (1 + cos) / 2 to the 10 nearest texts",
        "cos_radius": "share of O within the median leave-one-out neighbour similarity",
    },
)
def cos(targets: Targets, observation: Observation) -> Floats:
    """Cosine similarity of the target with its nearest texts, and how many are near.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(cos, ["1 0"], ["2 0", "0 1", "-1 0"])
    array([[1.   , 0.5  , 0.667]])
    """
    near = nearest(targets, observation)
    return np.stack(
        [(1 + near.cosine.max(axis=1)) / 2, (1 + top_mean(near.cosine)) / 2, near.cosine_share],
        axis=1,
    )
