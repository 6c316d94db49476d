"""Sequence overlap: how long the sequences are that the target shares with one text."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.retrieval import max_and_mean, retrieve
from synthleak.evidence.fast.subsequence import common_words
from synthleak.evidence.fast.substring import longest_substrings
from synthleak.evidence.fast.words import words


@family(
    "sequence_overlap",
    order=3,
    version=1,
    view="lexical",
    scale="ratio",
    proxies={
        "rouge_l_max": "largest ROUGE-L F1 of x with a candidate",
        "rouge_l_mean": "mean ROUGE-L F1 of x with the candidates",
        "token_lcs_max": "longest common subsequence of words with a candidate / words in x",
        "token_lcs_mean": "mean common subsequence of words with the candidates / words in x",
        "substring_max": "longest common substring with a candidate / characters in x",
        "substring_mean": "mean longest common substring with the candidates / characters in x",
    },
)
def sequence_overlap(targets: Targets, observation: Observation) -> Floats:
    """ROUGE-L, common subsequence of words, and longest common substring (folded text).

    ROUGE-L F1 is 2·LCS / (words in x + words in c), which is rouge-score's F1 on our words.

    >>> from synthleak.evidence.examples import observe_texts
    >>> observe_texts(sequence_overlap, ["the red fox"], ["a red, old fox"])
    array([[0.571, 0.571, 0.667, 0.667, 0.455, 0.455]])
    """
    retrieved = retrieve(targets, observation)
    numbered = words(targets, retrieved.texts)
    common = common_words(targets, observation)
    own = numbered.of_targets.lengths[:, None]
    theirs = numbered.of_texts.lengths[retrieved.places]
    letters = np.array([len(text) for text in targets.folded])[:, None]
    return np.hstack(
        [
            max_and_mean(2 * common / np.maximum(own + theirs, 1)),
            max_and_mean(common / np.maximum(own, 1)),
            max_and_mean(longest_substrings(targets, observation) / np.maximum(letters, 1)),
        ]
    )
