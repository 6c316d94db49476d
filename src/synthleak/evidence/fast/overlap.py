"""Which character 5-grams of a target occur in which of its candidates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.grams import GRAM, target_grams, text_grams
from synthleak.evidence.fast.ragged import found
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.observation import Floats, Observation, Targets

Hits = NDArray[np.bool_]


def gram_hits(targets: Targets, observation: Observation) -> list[Hits]:
    """Return `[candidate, distinct 5-gram of the target]` for each target."""
    return observation.beside(targets, "gram hits", lambda: _gram_hits(targets, observation))


def _gram_hits(targets: Targets, observation: Observation) -> list[Hits]:
    found_texts = retrieve(targets, observation)
    rows = found_texts.places
    named = next(iter(text_grams(targets, found_texts.texts)), None)
    if named is None:  # not one gram in common
        return [np.zeros((rows.shape[1], 0), dtype=np.bool_)] * len(rows)
    own = target_grams(targets).of_targets[GRAM]
    return [
        found(own[target].names, named[1], candidates) for target, candidates in enumerate(rows)
    ]


def shared_grams(targets: Targets, observation: Observation) -> Floats:
    """Return how many different 5-grams each target shares with each of its candidates."""
    hits = gram_hits(targets, observation)
    return np.stack([np.count_nonzero(there, axis=1) for there in hits]).astype(np.float64)
