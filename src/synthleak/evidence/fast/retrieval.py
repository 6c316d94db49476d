"""The candidates of each target by BM25, shared by all lexical proxies (docs/method.md §6)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.fast.index import K1, B, inverse_frequency, word_index
from synthleak.evidence.fast.neighbours import is_large
from synthleak.evidence.fast.pairs import Singles
from synthleak.evidence.fast.ragged import Ints, Ragged
from synthleak.evidence.fast.words import Words, target_words, words
from synthleak.evidence.observation import Floats, Observation, Targets

TOP = 50
TILE = 2048
_DIGITS = 9
_WAITING = 2**16


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


def retrieve(targets: Targets, observation: Observation) -> Retrieved:
    """Return the top min(50, |O|) texts of O for each target, zero scores included."""

    def make() -> Retrieved:
        if not is_large(observation):
            return _retrieve(targets, observation)
        rows, scores = _Ranking(targets, observation).best()
        some, places = np.unique(rows, return_inverse=True)
        return Retrieved(rows, scores, observation.part(some), places.reshape(rows.shape))

    return observation.beside(targets, "retrieved", make)


def _retrieve(targets: Targets, observation: Observation) -> Retrieved:
    scores = bm25(words(targets, observation))
    by_hash = _by_content_hash(observation)
    # Rounded, so that the order in which a sum was added up cannot decide a tie.
    ranked = np.stack([first_ranked(-np.round(row[by_hash], _DIGITS), TOP) for row in scores])
    rows = by_hash[ranked]
    return Retrieved(rows, np.take_along_axis(scores, rows, axis=1), observation, rows)


class _Ranking:
    """The best texts of a large observation: found in single precision, scored in double.

    A sum of m weights in single precision is off by at most m roundings: texts that come within
    twice that of the 50th are scored again, word by word in the order of the target.
    """

    def __init__(self, targets: Targets, observation: Observation) -> None:
        self.index = word_index(observation)
        self.by_hash = _by_content_hash(observation)
        vocabulary, own = target_words(targets)
        numbers = self.index.numbers_of(vocabulary)[own.values]
        self.queries = Ragged(numbers, own.starts).keep(numbers >= 0)
        longest = int(np.diff(self.index.weights.starts).max(initial=0))
        self.error = (longest + 4) * 2.0**-24

    def best(self) -> tuple[Ints, Floats]:
        """Return rows and scores of the best texts of each target, in their order."""
        target, text = self._candidates()
        bounds = np.searchsorted(target, np.arange(len(self.queries) + 1))
        place = np.empty(len(self.by_hash), dtype=np.int64)
        place[self.by_hash] = np.arange(len(place))
        rows = np.empty((len(self.queries), TOP), dtype=np.int64)
        scores = np.empty(rows.shape)
        for number in range(len(rows)):
            some = text[bounds[number] : bounds[number + 1]]
            exact = self._scores(number, some)
            if np.count_nonzero(np.round(exact, _DIGITS)) < TOP:  # texts that score 0 come in
                some = np.union1d(some, self.by_hash[: TOP + len(some)])
                exact = self._scores(number, some)
            first = np.lexsort((place[some], -np.round(exact, _DIGITS)))[:TOP]
            rows[number], scores[number] = some[first], exact[first]
        return rows, scores

    def _scores(self, target: int, texts: Ints) -> Floats:
        """Return the scores of some texts, summed in the order of the target's words."""
        own = self.queries[target]
        different, order = np.unique(own, return_inverse=True)
        words, owners, values = self.index.weights.take(texts)
        at = np.minimum(np.searchsorted(different, words), max(len(different) - 1, 0))
        asked = different[at] == words if len(different) else np.zeros(len(words), dtype=np.bool_)
        table = np.zeros((len(different), len(texts)))
        table[at[asked], owners[asked]] = values[asked]
        scores: Floats = table[order].sum(axis=0)
        return scores

    def _candidates(self) -> tuple[Ints, Ints]:
        """Return (target, text) of all that can be among the best, by target; none that score 0."""
        weights, queries = self.index.weights, self.queries
        used, inverse = np.unique(queries.values, return_inverse=True)
        table = np.zeros((len(used), len(queries)), dtype=np.float32)
        np.add.at(table, (inverse, queries.owners), 1)
        column = np.full(len(self.index.vocabulary) + 1, -1, dtype=np.int32)
        column[used] = np.arange(len(used))
        least = np.zeros(len(queries))
        found = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.float32))
        pending: list[tuple[Ints, Ints, Singles]] = []
        for start in range(0, len(weights.starts) - 1, TILE):
            score = self._tile(start, column, table)
            if start == 0 and len(score) >= TOP:
                least = np.partition(score, len(score) - TOP, axis=0)[len(score) - TOP]
            at = np.flatnonzero(score > self._bound(least))
            text, target = np.divmod(at, len(queries))
            pending.append((target, text + start, score.reshape(-1)[at]))
            if sum(len(part[0]) for part in pending) > max(_WAITING, len(found[0])):
                found, least = self._prune([found, *pending])
                pending = []
        found, _ = self._prune([found, *pending])
        return found[0], found[1]

    def _tile(self, start: int, column: NDArray[np.int32], table: Singles) -> Singles:
        """Return the scores of some texts for all targets in single precision."""
        from scipy.sparse import csr_matrix

        weights = self.index.weights
        starts = weights.starts[start : start + TILE + 1]
        here = slice(starts[0], starts[-1])
        place = column[weights.words[here]]
        asked = place >= 0
        before = np.concatenate([[0], np.cumsum(asked)])
        values = weights.values[here][asked].astype(np.float32)
        shape = (len(starts) - 1, len(table))
        rows = csr_matrix((values, place[asked], before[starts - starts[0]]), shape=shape)
        score: Singles = rows @ table
        return score

    def _bound(self, least: NDArray[np.floating]) -> Singles:
        """Return what a score must exceed to be scored again."""
        bound = least * (1 - 3 * self.error) - 3 * 10.0**-_DIGITS
        return np.asarray(np.maximum(bound, 0), dtype=np.float32)

    def _prune(
        self, parts: list[tuple[Ints, Ints, Singles]]
    ) -> tuple[tuple[Ints, Ints, Singles], Floats]:
        """Return the pairs that still can be among the best, by target, and the 50th scores."""
        target, text, score = map(np.concatenate, zip(*parts, strict=True))
        order = np.lexsort((-score, target))
        target, text, score = target[order], text[order], score[order]
        starts = np.searchsorted(target, np.arange(len(self.queries) + 1))
        least = np.zeros(len(self.queries))
        many = np.flatnonzero(np.diff(starts) >= TOP)
        least[many] = score[starts[many] + TOP - 1]
        kept = score > self._bound(least)[target]
        return (target[kept], text[kept], score[kept]), least


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


def bm25(numbered: Words) -> Floats:
    """Return the BM25 score of every text of O for every target, statistics from O alone.

    A word that no target has adds to the length of a text and to nothing else.
    """
    from scipy.sparse import csr_matrix

    texts, n, known = numbered.of_texts, len(numbered.of_texts), numbered.known
    mean = texts.lengths.mean() or 1.0
    damping = K1 * (1 - B + B * texts.lengths / mean)
    asked = texts.values < known
    cells = texts.owners[asked] * known + texts.values[asked]
    cells, counts = np.unique(cells, return_counts=True)
    row, word = np.divmod(cells, max(known, 1))
    idf = inverse_frequency(n, np.bincount(word, minlength=known))
    weight = idf[word] * counts * (K1 + 1) / (counts + damping[row])
    by_word = csr_matrix((weight, (word, row)), shape=(known, n))
    queries = numbered.of_targets
    asking = csr_matrix(
        (np.ones(len(queries.values)), queries.values, queries.starts), shape=(len(queries), known)
    )
    return np.asarray((asking @ by_word).todense(), dtype=np.float64)


def _by_content_hash(observation: Observation) -> Ints:
    """Order the texts by content hash, once: an order that no reordering of O can change."""

    def make() -> Ints:
        hashes = [
            hashlib.sha256(text.encode(errors="surrogatepass")).digest()
            for text in observation.texts
        ]
        return np.array(sorted(range(len(hashes)), key=hashes.__getitem__), dtype=np.int64)

    return observation.remember("by content hash", make)
