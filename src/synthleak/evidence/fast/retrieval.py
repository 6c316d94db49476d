"""The candidates of each target by BM25, shared by all lexical proxies (docs/method.md §6)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.words import Ragged, target_words, word_index
from synthleak.evidence.observation import (
    Floats,
    Ints,
    Observation,
    Targets,
    cached,
    cached_for_targets,
)

TOP = 50
TILE = 2048
_DIGITS = 9
_WAITING = 2**16
Singles = NDArray[np.float32]
Pairs = tuple[Ints, Ints, Singles]
"""Targets, texts and scores of some pairs."""


@dataclass(frozen=True)
class Retrieved:
    """The candidates of each target: `rows[t]` are positions in O, `scores[t]` their BM25.

    `texts` holds all candidates, and `places[t]` says where: what is derived from candidates alone
    is derived from these. They are all texts of a small O, and some of a large one.
    """

    rows: Ints
    scores: Floats
    texts: Observation
    places: Ints


@cached_for_targets
def retrieve(targets: Targets, observation: Observation) -> Retrieved:
    """Return the top min(50, |O|) texts of O for each target, zero scores included."""
    by_hash = _by_content_hash(observation)
    if observation.is_large:
        rows, scores = _Ranking(targets, observation).best(by_hash)
        candidates, places = np.unique(rows, return_inverse=True)
        return Retrieved(rows, scores, observation.part(candidates), places.reshape(rows.shape))
    every = bm25(targets, observation)
    # Rounded, so that the order in which a sum was added up cannot decide a tie.
    ranked = np.stack([first_ranked(-np.round(row[by_hash], _DIGITS), TOP) for row in every])
    rows = by_hash[ranked]
    return Retrieved(rows, np.take_along_axis(every, rows, axis=1), observation, rows)


def bm25(targets: Targets, observation: Observation) -> Floats:
    """Return the BM25 score of every text of O for every target, statistics from O alone."""
    from scipy.sparse import csr_matrix

    weights, queries = word_index(observation).weights, _queries(targets, observation)
    ones, shape = np.ones(len(queries.values)), (len(queries), weights.shape[1])
    asking = csr_matrix((ones, queries.values, queries.starts), shape=shape)
    return np.asarray((asking @ weights.T.tocsr()).todense(), dtype=np.float64)


def _queries(targets: Targets, observation: Observation) -> Ragged:
    """Return the words of each target that O has, as O numbers them."""
    rows, vocabulary = target_words(targets)
    numbers = word_index(observation).numbers_of(vocabulary)[rows.values]
    return Ragged(numbers, rows.starts).keep(numbers >= 0)


class _Ranking:
    """The best texts of a large observation: found in single precision, scored in double.

    A sum of m weights in single precision is off by at most m roundings: texts that come within
    twice that of the 50th are scored again, word by word in the order of the target.
    """

    def __init__(self, targets: Targets, observation: Observation) -> None:
        self.weights = word_index(observation).weights
        self.queries = _queries(targets, observation)
        self.asked, self.words = np.unique(self.queries.values, return_inverse=True)
        self.error = (int(np.diff(self.weights.indptr).max()) + 4) * 2.0**-24

    def best(self, by_hash: Ints) -> tuple[Ints, Floats]:
        """Return rows and scores of the best texts of each target, in their order."""
        target, text = self._candidates()
        bounds = np.searchsorted(target, np.arange(len(self.queries) + 1))
        candidates, text = np.unique(text, return_inverse=True)
        weights = self.weights[candidates][:, self.asked]
        words = Ragged(self.words, self.queries.starts)
        rank = np.empty(len(by_hash), dtype=np.int64)
        rank[by_hash] = np.arange(len(rank))
        rows = np.empty((len(self.queries), TOP), dtype=np.int64)
        scores = np.empty(rows.shape)
        for number in range(len(rows)):
            near = text[bounds[number] : bounds[number + 1]]
            # Summed in the order of the target's words.
            different, order = np.unique(words[number], return_inverse=True)
            score = weights[near][:, different].T.toarray()[order].sum(axis=0)
            near = candidates[near]
            if np.count_nonzero(np.round(score, _DIGITS)) < TOP:  # texts that score 0 come in
                others = np.setdiff1d(by_hash[: TOP + len(near)], near)
                near = np.append(near, others)
                score = np.append(score, np.zeros(len(others)))
            first = np.lexsort((rank[near], -np.round(score, _DIGITS)))[:TOP]
            rows[number], scores[number] = near[first], score[first]
        return rows, scores

    def _candidates(self) -> tuple[Ints, Ints]:
        """Return (target, text) of all that can be among the best, by target; none that score 0."""
        queries = self.queries
        table = np.zeros((len(self.asked), len(queries)), dtype=np.float32)
        np.add.at(table, (self.words, queries.owners), 1)
        least = np.zeros(len(queries))
        kept: Pairs = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        pending: list[Pairs] = []
        for start in range(0, self.weights.shape[0], TILE):
            tile = self.weights[start : start + TILE][:, self.asked].astype(np.float32)
            score: Singles = tile @ table
            if start == 0 and len(score) >= TOP:
                least = np.partition(score, len(score) - TOP, axis=0)[len(score) - TOP]
            at = np.flatnonzero(score > self._bound(least))
            text, target = np.divmod(at, len(queries))
            pending.append((target, text + start, score.reshape(-1)[at]))
            if sum(len(part[0]) for part in pending) > max(_WAITING, len(kept[0])):
                kept, least = self._prune([kept, *pending])
                pending = []
        kept, _ = self._prune([kept, *pending])
        return kept[0], kept[1]

    def _bound(self, least: NDArray[np.floating]) -> Singles:
        """Return what a score must exceed to be scored again."""
        bound = least * (1 - 3 * self.error) - 3 * 10.0**-_DIGITS
        return np.asarray(np.maximum(bound, 0), dtype=np.float32)

    def _prune(self, parts: list[Pairs]) -> tuple[Pairs, Floats]:
        """Return the pairs that still can be among the best, by target, and the 50th scores."""
        target, text, score = map(np.concatenate, zip(*parts, strict=True))
        order = np.lexsort((-score, target))
        target, text, score = target[order], text[order], score[order]
        starts = np.searchsorted(target, np.arange(len(self.queries) + 1))
        least = np.zeros(len(self.queries))
        many = np.flatnonzero(np.diff(starts) >= TOP)
        least[many] = score[starts[many] + TOP - 1]
        near = score > self._bound(least)[target]
        return (target[near], text[near], score[near]), least


def first_ranked(values: Floats, count: int) -> Ints:
    """Return the places of the `count` smallest values, ties in their order: a stable sort's start.

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


@cached
def _by_content_hash(observation: Observation) -> Ints:
    """Order the texts by content hash: an order that no reordering of O can change."""
    hashes = [
        hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in observation.texts
    ]
    return np.array(sorted(range(len(hashes)), key=hashes.__getitem__), dtype=np.int64)
