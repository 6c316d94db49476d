"""BM25 retrieval, once per (target, observation), shared by all lexical proxies (METHOD §6)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from synthleak.evidence.observation import Floats, Observation, Targets

TOP = 50
K1 = 1.5
B = 0.75


@dataclass(frozen=True)
class Retrieved:
    """The candidates of each target: `rows[t]` are positions in O, `scores[t]` their BM25."""

    rows: NDArray[np.int64]
    scores: Floats


def retrieve(targets: Targets, observation: Observation) -> Retrieved:
    """Return the top min(50, |O|) texts of O for each target, zero scores included."""
    return observation.remember(
        f"retrieved for {targets.key}", lambda: _retrieve(targets, observation)
    )


def _retrieve(targets: Targets, observation: Observation) -> Retrieved:
    scores = bm25(targets, observation)
    tie = observation.remember("tie order", lambda: _tie_order(observation))
    # lexsort's last key counts first: highest score, then the content hash.
    order = np.stack([np.lexsort((tie, -row)) for row in scores])[:, :TOP]
    return Retrieved(order, np.take_along_axis(scores, order, axis=1))


def bm25(targets: Targets, observation: Observation) -> Floats:
    """Return the BM25 score of every text of O for every target, statistics from O alone."""
    vocabulary: dict[str, int] = {}
    rows, columns = [], []
    for row, words in enumerate(observation.tokens):
        for word in words:
            rows.append(row)
            columns.append(vocabulary.setdefault(word, len(vocabulary)))
    n = len(observation)
    shape = (n, len(vocabulary))
    counts = csr_matrix((np.ones(len(rows)), (rows, columns)), shape=shape)
    counts.sum_duplicates()
    length = np.asarray(counts.sum(axis=1)).ravel()
    frequency = np.asarray((counts > 0).sum(axis=0)).ravel()
    idf = np.log(1 + (n - frequency + 0.5) / (frequency + 0.5))
    mean = length.mean() if length.any() else 1.0
    damping = K1 * (1 - B + B * length / mean)
    weights = counts.tocoo()
    saturated = idf[weights.col] * weights.data * (K1 + 1) / (weights.data + damping[weights.row])
    by_word = csr_matrix((saturated, (weights.col, weights.row)), shape=shape[::-1])
    found = [
        (row, vocabulary[word])
        for row, words in enumerate(targets.tokens)
        for word in words
        if word in vocabulary
    ]
    asked = np.array(found, dtype=np.int64).reshape(-1, 2)
    queries = csr_matrix(
        (np.ones(len(asked)), (asked[:, 0], asked[:, 1])), shape=(len(targets), len(vocabulary))
    )
    return np.asarray((queries @ by_word).todense(), dtype=np.float64)


def _tie_order(observation: Observation) -> NDArray[np.int64]:
    """Rank the texts by content hash: an order that no reordering of O can change."""
    hashes = [hashlib.sha256(text.encode()).digest() for text in observation.texts]
    ranks = np.empty(len(hashes), dtype=np.int64)
    ranks[sorted(range(len(hashes)), key=lambda row: hashes[row])] = np.arange(len(hashes))
    return ranks
