"""Dot product with the nearest texts: similarity that includes the vectors' lengths."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.nearest import nearest, top_mean


@family(
    "dot",
    order=8,
    version=1,
    view="embedding",
    scale="difference",
    proxies={
        "dot_max": "largest dot product with a text",
        "dot_topk": "mean of the 10 largest dot products",
    },
)
def dot(targets: Targets, observation: Observation) -> Floats:
    """Dot product of the target with the texts nearest to it.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(dot, ["1 0"], ["2 0", "0 1"])
    array([[2., 1.]])
    """
    product = nearest(targets, observation).product
    return np.stack([product.max(axis=1), top_mean(product)], axis=1)
