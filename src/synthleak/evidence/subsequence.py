"""Longest common subsequence of words, for every target and its retrieved texts."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.observation import Floats, Observation, Targets
from synthleak.evidence.retrieval import retrieve


def common_words(targets: Targets, observation: Observation) -> Floats:
    """Return the LCS length in words of each target with each of its candidates."""
    return observation.remember(f"LCS with {targets.key}", lambda: _common(targets, observation))


def _common(targets: Targets, observation: Observation) -> Floats:
    from rapidfuzz.distance import LCSseq

    number: dict[str, int] = {}

    def numbered(words: list[str]) -> list[int]:
        return [number.setdefault(word, len(number)) for word in words]

    texts = [numbered(words) for words in observation.tokens]
    rows = retrieve(targets, observation).rows
    return np.array(
        [
            [LCSseq.similarity(target, texts[row]) for row in candidates]
            for target, candidates in zip(map(numbered, targets.tokens), rows.tolist(), strict=True)
        ],
        dtype=np.float64,
    ).reshape(rows.shape)
