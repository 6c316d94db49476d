"""Character n-gram overlap: how much of the target's wording occurs in one text."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.grams import distinct_grams, shared_grams
from synthleak.evidence.fast.retrieval import max_and_mean, retrieve


@family(
    "char_overlap",
    order=2,
    version=1,
    view="lexical",
    scale="ratio",
    proxies={
        "containment_max": "largest share of x's character 5-grams found in one candidate",
        "containment_mean": "mean share of x's character 5-grams found in a candidate",
        "jaccard_max": "largest character 5-gram Jaccard similarity to a candidate",
        "jaccard_mean": "mean character 5-gram Jaccard similarity to the candidates",
    },
)
def char_overlap(targets: Targets, observation: Observation) -> Floats:
    """Character 5-grams (folded text) that the target shares with a retrieved text.

    Containment is their share of the target's, Jaccard their share of all that either has.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(char_overlap, ["red fox"], ["A red  FOX", "a dog"])  # 3 grams of 5
    array([[1. , 0.5, 0.6, 0.3]])
    """
    retrieved = retrieve(targets, observation)
    shared = shared_grams(targets, observation)
    own = distinct_grams(targets)[:, None]
    either = own + distinct_grams(retrieved.texts)[retrieved.places] - shared
    containment = shared / np.maximum(own, 1)
    jaccard = shared / np.maximum(either, 1)
    return np.hstack([max_and_mean(containment), max_and_mean(jaccard)])
