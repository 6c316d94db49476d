"""Canary's Echo (Meeus et al. 2025): n-gram support and embedding similarity.

The published results are for canaries that were inserted 12 to 16 times; ours are for natural
records that were inserted once. They cannot be compared.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from synthleak.evidence import Arm, Attack, Floats, Observation, Targets, TextSet, attacks
from synthleak.evidence.fast.grams import Naming, ahead
from synthleak.evidence.fast.nearest import top_cosines, top_mean
from synthleak.evidence.fast.words import Ragged, target_words, words
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
    """Names of the targets' n-grams of every length up to the order, and those of each target."""

    namings: list[Naming]
    contexts: Ragged
    grams: Ragged


def ngram_logprob(targets: Targets, observation: Observation, order: int) -> Floats:
    """Return log p of each target under an add-1 model of n-grams of this order (2 or more).

    The vocabulary is that of O and the target, with the two ends of a text, as for bigram_logprob.
    """
    numbered = words(targets, observation)
    learned = targets.remember(f"{order}-grams", lambda: _learn(targets, order))
    width = 1 + max(learned.contexts.values.max(), learned.grams.values.max())
    seen_contexts, seen_grams = np.zeros((2, width), dtype=np.int64)
    for part in numbered.of_texts.parts():  # what is derived of millions at once takes memory
        ids, starts = _padded(part, numbered.known, order)
        contexts = grams = ids
        for length, naming in enumerate(learned.namings, start=1):
            contexts, grams = grams, naming(grams, ahead(ids, length))
        # Names beyond those at the starts of targets are asked for by none.
        seen_contexts += np.bincount(contexts[starts.values], minlength=width)[:width]
        seen_grams += np.bincount(grams[starts.values], minlength=width)[:width]
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
    ids, starts = _padded(rows, len(vocabulary), order)
    namings: list[Naming] = []
    contexts = grams = ids
    for length in range(1, order):
        right = ahead(ids, length)
        namings.append(Naming(grams, right, span=len(vocabulary) + 3))
        contexts, grams = grams, namings[-1](grams, right)
    return _Learned(
        namings,
        Ragged(contexts[starts.values], starts.starts),
        Ragged(grams[starts.values], starts.starts),
    )


def _padded(rows: Ragged, known: int, order: int) -> tuple[Ints, Ragged]:
    """Return words end to end, each text with its ends, and the places where an n-gram starts.

    Words of the targets are 1 to `known`, all others 0; then come the begin and the end of a text.
    """
    begin, end = known + 1, known + 2
    starts = rows.starts + order * np.arange(len(rows) + 1)
    ids = np.full(starts[-1], begin, dtype=np.int64)
    inside = np.arange(len(rows.values)) + order * rows.owners + order - 1
    ids[inside] = np.where(rows.values < known, rows.values + 1, 0)
    ids[starts[1:] - 1] = end
    counts = rows.lengths + 1
    places = np.arange(counts.sum()) + np.repeat((order - 1) * np.arange(len(rows)), counts)
    return ids, Ragged(places, np.concatenate([[0], np.cumsum(counts)]))
