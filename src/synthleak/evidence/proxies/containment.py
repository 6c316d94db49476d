"""Containment: how much of the target's wording turns up in one text."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.family import family
from synthleak.evidence.observation import Floats, Observation, Targets
from synthleak.evidence.overlap import shared_grams
from synthleak.evidence.retrieval import retrieve


@family(
    "containment",
    version=1,
    view="lexical",
    scale="ratio",
    proxies={
        "containment_max": "largest share of x's character 5-grams found in one candidate",
        "containment_mean": "mean share of x's character 5-grams found in a candidate",
    },
)
def containment(targets: Targets, observation: Observation) -> Floats:
    """Share of the target's character 5-grams found in a retrieved text."""
    grams = shared_grams(targets, observation)
    rows = retrieve(targets, observation).rows
    share = grams.shared / np.maximum(grams.of_targets, 1)[:, None]
    found = np.take_along_axis(share, rows, axis=1)
    return np.stack([found.max(axis=1), found.mean(axis=1)], axis=1)
