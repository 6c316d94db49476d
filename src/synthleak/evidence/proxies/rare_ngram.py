"""Rare phrase overlap: which of the target's rare word pairs turn up in one text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.index import inverse_frequency, word_index
from synthleak.evidence.fast.neighbours import is_large
from synthleak.evidence.fast.ragged import Ints, found
from synthleak.evidence.fast.retrieval import max_and_mean, retrieve
from synthleak.evidence.fast.words import target_pairs, target_words, text_pairs


@family(
    "rare_ngram",
    order=4,
    version=2,
    view="lexical",
    scale="ratio",
    proxies={
        "rare_ngram_max": "largest idf-weighted share of x's rare word bigrams in a candidate",
        "rare_ngram_mean": "mean idf-weighted share of x's rare word bigrams in the candidates",
    },
)
def rare_ngram(targets: Targets, observation: Observation) -> Floats:
    """Share of the target's rare word bigrams found in a retrieved text, weighted by idf.

    Frequencies come from the observation alone, so that S1 needs nothing but the release
    (docs/method.md §6). A bigram that no text of O has is rare too, with the largest idf: it lowers
    the share.

    >>> from synthleak.evidence.examples import observe_texts
    >>> observe_texts(rare_ngram, ["the red fox"], ["red fox", "the red"])
    array([[0.5, 0.5]])
    """
    retrieved = retrieve(targets, observation)
    rows, texts = retrieved.places, text_pairs(targets, retrieved.texts)
    frequency = _document_frequency(targets, observation)
    idf = inverse_frequency(len(observation), np.arange(rare_limit(len(observation)) + 1))
    shares = np.zeros(rows.shape)
    for target, own in enumerate(_own_pairs(targets)):
        pairs = own[frequency[own] < len(idf)]
        if len(pairs):
            pairs = pairs[np.argsort(frequency[pairs], kind="stable")]
            there = found(pairs, texts, rows[target])
            shares[target] = _weighted_share(there, frequency[pairs], idf)
    return max_and_mean(shares)


def rare_limit(texts: int) -> int:
    """Return the largest document frequency of a rare bigram: 2, or 1% of the texts.

    >>> rare_limit(90), rare_limit(500)
    (2, 5)
    """
    return max(2, texts // 100)


def _own_pairs(targets: Targets) -> list[Ints]:
    """Return the different word pairs of each target, without the two ends of a text."""

    def make() -> list[Ints]:
        known = target_pairs(targets)
        own = [np.unique(known.rows[target]) for target in range(len(targets))]
        return [pairs[~known.has_end(pairs)] for pairs in own]

    return targets.remember("own word pairs", make)


def _document_frequency(targets: Targets, observation: Observation) -> Ints:
    """Return in how many texts of O each word pair of the targets occurs, but for their ends."""
    if is_large(observation):
        vocabulary, _ = target_words(targets)
        number = np.append(word_index(observation).numbers_of(vocabulary), [-1, -1])
        first, second = np.divmod(target_pairs(targets).keys, len(vocabulary) + 2)
        return word_index(observation).pair_frequency(number[first], number[second])
    pairs, texts = len(target_pairs(targets).keys), text_pairs(targets, observation)
    once = np.unique(texts.owners * pairs + texts.values) % pairs
    return np.bincount(once, minlength=pairs)


def _weighted_share(there: NDArray[np.bool_], frequency: Ints, idf: Floats) -> Floats:
    """Return the idf-weighted share of the pairs that are `there`, in each candidate.

    `frequency` is sorted: pairs of one frequency weigh the same, so they are counted, and only the
    counts are weighted and added up. The order of the pairs, which depends on the other targets,
    never matters: equal texts have equal values to the last digit.
    """
    levels, starts, whole = np.unique(frequency, return_index=True, return_counts=True)
    counts = np.add.reduceat(there, starts, axis=1, dtype=np.int64)
    share: Floats = (counts * idf[levels]).sum(axis=1) / (whole * idf[levels]).sum()
    return share
