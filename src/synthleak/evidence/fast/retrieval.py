"""The candidates of each target by BM25, shared by all lexical proxies (docs/method.md §6)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.ragged import Ints
from synthleak.evidence.fast.words import Words, words
from synthleak.evidence.observation import (
    Floats,
    Observation,
    Targets,
    remembered,
    remembered_beside,
)

TOP = 50
K1 = 1.5
B = 0.75
_DIGITS = 9


@dataclass(frozen=True)
class Retrieved:
    """The candidates of each target: `rows[t]` are positions in O, `scores[t]` their BM25."""

    rows: Ints
    scores: Floats


@remembered_beside
def retrieve(targets: Targets, observation: Observation) -> Retrieved:
    """Return the top min(50, |O|) texts of O for each target, zero scores included."""
    scores = bm25(words(targets, observation))
    by_hash = _by_content_hash(observation)
    # Rounded, so that the order of summation cannot decide a tie.
    ranked = np.stack([first_ranked(-np.round(row[by_hash], _DIGITS), TOP) for row in scores])
    rows = by_hash[ranked]
    return Retrieved(rows, np.take_along_axis(scores, rows, axis=1))


def first_ranked(values: Floats, count: int) -> Ints:
    """Return the places of the `count` smallest values, as a stable sort orders them.

    >>> first_ranked(np.array([2.0, 0.0, 1.0, 0.0, 0.0]), 2).tolist()
    [1, 3]
    """
    if count >= len(values):
        return np.argsort(values, kind="stable")
    limit = np.partition(values, count - 1)[count - 1]
    near = np.flatnonzero(values <= limit)
    first: Ints = near[np.argsort(values[near], kind="stable")[:count]]
    return first


def max_and_mean(values: Floats) -> Floats:
    """Return the largest and the mean value over each target's candidates, as two columns.

    >>> max_and_mean(np.array([[1.0, 0.0], [0.5, 0.5]]))
    array([[1. , 0.5],
           [0.5, 0.5]])
    """
    return np.stack([values.max(axis=1), values.mean(axis=1)], axis=1)


def inverse_frequency(n: int, frequency: NDArray[np.integer]) -> Floats:
    """Return BM25's idf of what occurs in `frequency` of `n` texts: never negative.

    >>> inverse_frequency(3, np.array([0, 3])).round(3)
    array([2.079, 0.134])
    """
    idf: Floats = np.log(1 + (n - frequency + 0.5) / (frequency + 0.5))
    return idf


def bm25(numbered: Words) -> Floats:
    """Return the BM25 score of every text of O for every target, statistics from O alone.

    A word that no target has counts in the length of a text only.
    """
    from scipy.sparse import csr_matrix

    texts, n, known = numbered.of_texts, len(numbered.of_texts), numbered.known
    mean = texts.lengths.mean() or 1.0
    damping = K1 * (1 - B + B * texts.lengths / mean)
    shared = texts.values < known
    cells = texts.owners[shared] * known + texts.values[shared]
    cells, counts = np.unique(cells, return_counts=True)
    row, word = np.divmod(cells, max(known, 1))
    idf = inverse_frequency(n, np.bincount(word, minlength=known))
    weight = idf[word] * counts * (K1 + 1) / (counts + damping[row])
    by_word = csr_matrix((weight, (word, row)), shape=(known, n))
    queries = numbered.of_targets
    by_query = csr_matrix(
        (np.ones(len(queries.values)), queries.values, queries.starts), shape=(len(queries), known)
    )
    return np.asarray((by_query @ by_word).todense(), dtype=np.float64)


@remembered
def _by_content_hash(observation: Observation) -> Ints:
    """Order the texts by content hash: an order that does not depend on the order of O."""
    hashes = [
        hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in observation.texts
    ]
    return np.array(sorted(range(len(hashes)), key=hashes.__getitem__), dtype=np.int64)
