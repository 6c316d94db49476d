"""Cosine similarity: how near the nearest texts point."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.family import family
from synthleak.evidence.neighbours import loo_nearest, top_mean
from synthleak.evidence.observation import Floats, Observation, Targets


@family(
    "cos",
    version=1,
    view="embedding",
    scale="ratio",
    proxies={
        "cos_max": "(1 + cos) / 2 to the nearest text",
        "cos_topk": "mean (1 + cos) / 2 to the 10 nearest texts",
        "cos_radius": "share of O within the median leave-one-out neighbour similarity",
    },
)
def cos(targets: Targets, observation: Observation) -> Floats:
    """Cosine similarity of the target with its nearest texts, and how many are near."""
    similarity = targets.directions @ observation.directions.T
    radius = observation.remember("cosine radius", lambda: _radius(observation))
    return np.stack(
        [
            (1 + similarity.max(axis=1)) / 2,
            (1 + top_mean(similarity)) / 2,
            (similarity >= radius).mean(axis=1),
        ],
        axis=1,
    )


def _radius(observation: Observation) -> float:
    """Return the median similarity of a text to its nearest other text, duplicates dropped."""
    unit = np.unique(observation.directions, axis=0)
    return float(np.median(loo_nearest(unit @ unit.T))) if len(unit) > 1 else 1.0
