"""CSLS: cosine similarity, corrected for texts that are near to everything."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.nearest import nearest, top_mean


@family(
    "csls",
    order=11,
    version=2,
    view="embedding",
    scale="ratio",
    proxies={
        "csls_max": "largest hubness-corrected similarity to a text, in [0, 1]",
        "csls_topk": "mean of the 10 largest hubness-corrected similarities",
    },
)
def csls(targets: Targets, observation: Observation) -> Floats:
    """Twice the cosine, less how near both are to their 10 neighbours; brought into [0, 1].

    A text is not its own neighbour; the neighbours of the only text are at 0.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(csls, ["1 0"], ["1 0", "0 1"])  # r(x) = 1/2, r(c) = 0
    array([[0.688, 0.562]])
    """
    corrected = nearest(targets, observation).csls
    return np.stack([corrected.max(axis=1), top_mean(corrected)], axis=1)
