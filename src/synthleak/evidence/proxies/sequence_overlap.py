"""Sequence overlap: how long the sequences are that the target shares with one text."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.grams import longest_substrings
from synthleak.evidence.fast.retrieval import max_and_mean, retrieve
from synthleak.evidence.fast.words import Ragged, words
from synthleak.evidence.observation import cached_for_targets


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

    >>> from synthleak.evidence import observe_texts
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


_CHARACTERS = 0x110000


@cached_for_targets
def common_words(targets: Targets, observation: Observation) -> Floats:
    """Return the LCS length in words of each target with each of its candidates."""
    from rapidfuzz.distance import LCSseq
    from rapidfuzz.process import cdist

    retrieved = retrieve(targets, observation)
    numbered, rows = words(targets, retrieved.texts), retrieved.places
    # A word that no target has can be in no common subsequence.
    kept = numbered.of_texts.keep(numbered.of_texts.values < numbered.known)
    sequences = _as_sequences(numbered.of_targets, numbered.known)
    texts = _as_sequences(kept, numbered.known)
    common = np.zeros(rows.shape)
    for target, candidates in enumerate(rows.tolist()):
        others = [texts[row] for row in candidates]
        common[target] = cdist(
            [sequences[target]], others, scorer=LCSseq.similarity, dtype=np.int64, workers=1
        )[0]
    return common


def _as_sequences(rows: Ragged, known: int) -> Sequence[Sequence[object]]:
    """Write each row as a string, a character per word, which rapidfuzz compares fastest."""
    if known >= _CHARACTERS:
        return [rows[row].tolist() for row in range(len(rows))]
    text = "".join(map(chr, rows.values.tolist()))
    return [text[start:end] for start, end in pairwise(rows.starts.tolist())]
