"""Rare phrase overlap: which of the target's rare word pairs turn up in one text."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.retrieval import max_and_mean, retrieve
from synthleak.evidence.fast.words import (
    inverse_frequency,
    presence,
    target_pairs,
    target_words,
    text_pairs,
    word_index,
)
from synthleak.evidence.observation import Ints, cached


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

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(rare_ngram, ["the red fox"], ["red fox", "the red"])
    array([[0.5, 0.5]])
    """
    retrieved = retrieve(targets, observation)
    rows, texts = retrieved.places, text_pairs(targets, retrieved.texts)
    frequency = _document_frequency(targets, observation)
    idf = inverse_frequency(len(observation), np.arange(rare_limit(len(observation)) + 1))
    shares = np.zeros(rows.shape)
    for target, pairs in enumerate(_pairs_within(targets)):
        rare = pairs[frequency[pairs] < len(idf)]
        if len(rare):
            rare = rare[np.argsort(frequency[rare], kind="stable")]
            present = presence(rare, texts, rows[target])
            shares[target] = _weighted_share(present, frequency[rare], idf)
    return max_and_mean(shares)


def rare_limit(texts: int) -> int:
    """Return the largest document frequency of a rare bigram: 2, or 1% of the texts.

    >>> rare_limit(90), rare_limit(500)
    (2, 5)
    """
    return max(2, texts // 100)


@cached
def _pairs_within(targets: Targets) -> list[Ints]:
    """Return the different word pairs of each target, without the two ends of a text."""
    known = target_pairs(targets)
    pairs = [np.unique(known.rows[target]) for target in range(len(targets))]
    return [of_target[~known.has_end(of_target)] for of_target in pairs]


def _document_frequency(targets: Targets, observation: Observation) -> Ints:
    """Return in how many texts of O each word pair of the targets occurs, but for their ends."""
    _, vocabulary = target_words(targets)
    number = np.append(word_index(observation).numbers_of(vocabulary), [-1, -1])
    first, second = np.divmod(target_pairs(targets).keys, len(vocabulary) + 2)
    return word_index(observation).pair_frequency(number[first], number[second])


def _weighted_share(present: NDArray[np.bool_], frequency: Ints, idf: Floats) -> Floats:
    """Return the idf-weighted share of the pairs that are present, in each candidate.

    `frequency` is sorted: pairs of one frequency weigh the same, so they are counted, and only the
    counts are weighted and added up. The order of the pairs, which depends on the other targets,
    never matters: equal texts have equal values to the last digit.
    """
    levels, starts, whole = np.unique(frequency, return_index=True, return_counts=True)
    counts = np.add.reduceat(present, starts, axis=1, dtype=np.int64)
    share: Floats = (counts * idf[levels]).sum(axis=1) / (whole * idf[levels]).sum()
    return share
