"""Longest common subsequence of words, for every target and its candidates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from synthleak.evidence.fast.ragged import Ragged
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.fast.words import words
from synthleak.evidence.observation import Floats, Observation, Targets, remembered_beside

_CHARACTERS = 0x110000


@remembered_beside
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
