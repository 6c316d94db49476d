"""Shared character 5-grams of every target with every text of an observation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats, Observation, Targets
from synthleak.text import char_grams

GRAM = 5


@dataclass(frozen=True)
class SharedGrams:
    """`shared[t, c]`: distinct grams in both; `of_targets`, `of_texts`: distinct grams in each."""

    shared: Floats
    of_targets: NDArray[np.int64]
    of_texts: NDArray[np.int64]


def shared_grams(targets: Targets, observation: Observation) -> SharedGrams:
    """Count shared grams, once for all proxies that need them."""
    return observation.remember(
        f"shared grams with {targets.key}", lambda: _count(targets, observation)
    )


def _count(targets: Targets, observation: Observation) -> SharedGrams:
    from scipy.sparse import csr_matrix

    def grams() -> tuple[dict[str, int], list[set[str]]]:
        sets = [char_grams(text, GRAM) for text in targets.texts]
        return {gram: i for i, gram in enumerate(sorted(set().union(*sets)))}, sets

    number, wanted = targets.remember("grams", grams)
    texts = [char_grams(text, GRAM) for text in observation.texts]

    def matrix(sets: list[set[str]]) -> csr_matrix:
        found = [[number[gram] for gram in group if gram in number] for group in sets]
        ends = np.cumsum([0, *map(len, found)])
        cells = np.array([cell for row in found for cell in row], dtype=np.int64)
        return csr_matrix((np.ones(len(cells)), cells, ends), shape=(len(sets), len(number)))

    return SharedGrams(
        shared=np.asarray((matrix(wanted) @ matrix(texts).T).todense(), dtype=np.float64),
        of_targets=np.array([len(group) for group in wanted]),
        of_texts=np.array([len(group) for group in texts]),
    )
