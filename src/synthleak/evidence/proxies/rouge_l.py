"""ROUGE-L: the longest common subsequence of words, as an F1."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.family import family
from synthleak.evidence.observation import Floats, Observation, Targets
from synthleak.evidence.retrieval import retrieve
from synthleak.evidence.subsequence import common_words


@family(
    "rouge_l",
    version=1,
    view="lexical",
    scale="ratio",
    proxies={
        "rouge_l_max": "largest ROUGE-L F1 of x with a candidate",
        "rouge_l_mean": "mean ROUGE-L F1 of x with a candidate",
    },
)
def rouge_l(targets: Targets, observation: Observation) -> Floats:
    """ROUGE-L F1 of the target with a retrieved text: 2·LCS / (words in x + words in c)."""
    rows = retrieve(targets, observation).rows
    common = common_words(targets, observation)
    of_targets = np.array([len(words) for words in targets.tokens])
    of_texts = np.array([len(words) for words in observation.tokens])
    f1 = 2 * common / np.maximum(of_targets[:, None] + of_texts[rows], 1)
    return np.stack([f1.max(axis=1), f1.mean(axis=1)], axis=1)
