"""Inverted anomaly scores: how normal the target is among the texts."""

from __future__ import annotations

import numpy as np

from synthleak.core.seeds import stream
from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.forest import fit_forest
from synthleak.evidence.fast.nearest import nearest, within

MOST = 10.0


@family(
    "anomaly",
    order=13,
    version=2,
    view="embedding",
    scale="ratio",
    proxies={
        "isolation": "isolation-forest normality, 1 - 2^(-path / expected path)",
        "lof": "1 / local outlier factor among 20 neighbours, at most 10",
    },
)
def anomaly(targets: Targets, observation: Observation) -> Floats:
    """Isolation-forest normality and inverse local outlier factor, both fitted on O.

    The forest's seed is the content of the observation. The inverse factor is capped at 10, since
    larger values only mean that the neighbours coincide.

    >>> from synthleak.evidence import observe_texts
    >>> inside, outside = observe_texts(anomaly, ["0 0", "9 9"], ["0 1", "1 0", "0 -1", "-1 0"])
    >>> (inside > outside).all()
    np.True_
    """
    forest = observation.remember(
        "forest", lambda: fit_forest(observation.encoded, stream("isolation", observation.key))
    )
    normality = forest.normality(targets.vectors)
    near = nearest(targets, observation)
    factor = within(observation).factor.of(near.distance, near.places)
    return np.stack([normality, np.minimum(1 / factor, MOST)], axis=1)
