"""Canary's Echo (Meeus et al. 2025): n-gram support and embedding similarity.

The published results are for canaries that were inserted 12 to 16 times; ours are for natural
records that were inserted once. They cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synthleak.evidence import Arm, Attack, Floats, Observation, Targets, TextSet, attacks
from synthleak.evidence.fast.nearest import top_cosines, top_mean
from synthleak.evidence.fast.words import Ragged, find_grams, learn_grams, target_words, words
from synthleak.evidence.observation import Ints

_NGRAM = "log p(x) under an add-1 n-gram model of all of O"
_SIMILARITY = "mean cosine to the nearest texts"


@attacks.register("canary", version=1)
class Canary(Attack):
    """Canary's Echo: an n-gram model of the whole release, and similarity to its nearest texts."""

    order: int = Field(default=2, ge=2, le=5)
    neighbours: int = Field(default=25, ge=1)

    columns: ClassVar[int] = 2
    arms: ClassVar[tuple[Arm, ...]] = (
        Arm("n", "S1", 0, "lexical", "as it is", _NGRAM),
        Arm("s", "S1", 1, "embedding", "as it is", _SIMILARITY),
        *(
            arm
            for scenario in ("S2", "S3")
            for arm in (
                Arm("nR", scenario, 0, "lexical", "mean probability", f"{_NGRAM}, calibrated"),
                Arm("sR", scenario, 1, "embedding", "ratio", f"{_SIMILARITY}, calibrated"),
            )
        ),
    )

    def look(
        self, targets: Targets, observation: Observation, references: TextSet | None
    ) -> Floats:
        """Return the log-probability and the mean of the largest cosines."""
        support = ngram_logprob(targets, observation, self.order)
        nearness = top_mean(top_cosines(targets, observation, self.neighbours), self.neighbours)
        return np.stack([support, nearness], axis=1)


@dataclass(frozen=True)
class _Learned:
    """The targets' n-grams of every length up to the order, and those of each target."""

    keys: list[Ints]
    contexts: Ragged
    grams: Ragged


def ngram_logprob(targets: Targets, observation: Observation, order: int) -> Floats:
    """Return log p of each target under an add-1 model of n-grams of this order (2 or more).

    The vocabulary is that of O and the target, with the two ends of a text, as for bigram_logprob.
    """
    numbered = words(targets, observation)
    learned = targets.remember(f"{order}-grams", lambda: _learn(targets, order))
    texts, whole = _padded(numbered.of_texts, numbered.known, order)
    contexts, grams = find_grams(texts, numbered.known + 2, learned.keys)[-2:]
    seen_contexts, seen_grams = (
        np.bincount(of_texts[whole & (of_texts >= 0)], minlength=of_targets.values.max() + 1)
        for of_texts, of_targets in ((contexts, learned.contexts), (grams, learned.grams))
    )
    seen = np.bincount(numbered.of_texts.values, minlength=numbered.size) > 0
    values = np.zeros(len(targets))
    for target in range(len(targets)):
        own = np.unique(numbered.of_targets[target])
        size = np.count_nonzero(seen) + np.count_nonzero(~seen[own]) + 2
        top = seen_grams[learned.grams[target]] + 1
        bottom = seen_contexts[learned.contexts[target]] + size
        values[target] = (np.log(top) - np.log(bottom)).sum()
    return values


def _learn(targets: Targets, order: int) -> _Learned:
    rows, vocabulary = target_words(targets)
    texts, whole = _padded(rows, len(vocabulary), order)
    keys, by_length = learn_grams(texts, len(vocabulary) + 2, order)
    contexts, grams = (Ragged(found, texts.starts).keep(whole) for found in by_length[-2:])
    return _Learned(keys, contexts, grams)


def _padded(rows: Ragged, known: int, order: int) -> tuple[Ragged, NDArray[np.bool_]]:
    """Return texts with their ends, and the places where a whole n-gram starts.

    Words that no target has are -1; `known` is the begin of a text, the next number its end.
    """
    starts = rows.starts + order * np.arange(len(rows) + 1)
    numbers = np.full(starts[-1], known, dtype=np.int64)
    inside = np.arange(len(rows.values)) + order * rows.owners + order - 1
    numbers[inside] = np.where(rows.values < known, rows.values, -1)
    numbers[starts[1:] - 1] = known + 1
    whole = np.ones(len(numbers), dtype=np.bool_)
    for offset in range(1, order):
        whole[starts[1:] - offset] = False
    return Ragged(numbers, starts), whole
