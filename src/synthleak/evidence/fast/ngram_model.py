"""An add-1 n-gram model of a whole observation, for all targets at once (docs/method.md §9)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthleak.evidence.fast.grams import Naming, ahead
from synthleak.evidence.fast.ragged import Ints, Ragged
from synthleak.evidence.fast.words import target_words, words
from synthleak.evidence.observation import Floats, Observation, Targets


@dataclass(frozen=True)
class _Learned:
    """Names of the targets' n-grams of every length up to the order, and those of each target."""

    namings: tuple[Naming, ...]
    contexts: Ragged
    grams: Ragged


def ngram_logprob(targets: Targets, observation: Observation, order: int) -> Floats:
    """Return log p of each target under an add-1 model of n-grams of this order (2 or more).

    The vocabulary is that of O and the target, with the two ends of a text, as for bigram_logprob.
    """
    numbered = words(targets, observation)
    learned = targets.remember(f"{order}-grams", lambda: _learn(targets, order))
    ids, starts = _padded(numbered.of_texts, numbered.known, order)
    *_, contexts, grams = _names(ids, learned.namings)
    seen_contexts = np.bincount(contexts[starts.values])
    seen_grams = np.bincount(grams[starts.values])
    seen = np.bincount(numbered.of_texts.values, minlength=numbered.size) > 0
    values = np.zeros(len(targets))
    for target in range(len(targets)):
        own = np.unique(numbered.of_targets[target])
        size = np.count_nonzero(seen) + np.count_nonzero(~seen[own]) + 2
        top = _count(seen_grams, learned.grams[target]) + 1
        bottom = _count(seen_contexts, learned.contexts[target]) + size
        values[target] = (np.log(top) - np.log(bottom)).sum()
    return values


def _learn(targets: Targets, order: int) -> _Learned:
    vocabulary, rows = target_words(targets)
    ids, starts = _padded(rows, len(vocabulary), order)
    namings: list[Naming] = []
    names = ids
    for length in range(1, order):
        right = ahead(ids, length)
        namings.append(Naming(names, right, span=len(vocabulary) + 3))
        names = namings[-1](names, right)
    *_, contexts, grams = _names(ids, namings)
    return _Learned(
        tuple(namings),
        Ragged(contexts[starts.values], starts.starts),
        Ragged(grams[starts.values], starts.starts),
    )


def _names(ids: Ints, namings: tuple[Naming, ...] | list[Naming]) -> list[Ints]:
    """Return the names of the 1-grams, 2-grams, ... that start at each place."""
    names = [ids]
    for length, naming in enumerate(namings, start=1):
        names.append(naming(names[-1], ahead(ids, length)))
    return names


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


def _count(seen: Ints, names: Ints) -> Ints:
    """Return how often each was seen; names beyond the counts never were."""
    return np.where(names < len(seen), seen[np.minimum(names, len(seen) - 1)], 0)
