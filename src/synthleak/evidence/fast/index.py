"""An index of the words of a large observation, made once for all blocks of targets.

Words are numbered while the texts are cut up, so that no list of words is kept, and BM25's weights
and the frequencies of word pairs, which depend on the texts alone, are computed once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count

import numpy as np
from numpy.typing import NDArray

from synthleak.core.text import tokens
from synthleak.evidence.fast.ragged import Ints, Ragged
from synthleak.evidence.observation import Floats, Observation

K1 = 1.5
B = 0.75
_CHUNK = 4096


@dataclass(frozen=True)
class Weights:
    """BM25 weights: text i has the words `words[starts[i]:starts[i + 1]]`, and their weights."""

    starts: Ints
    words: NDArray[np.int32]
    values: Floats

    def take(self, rows: Ints) -> tuple[NDArray[np.int32], Ints, Floats]:
        """Return words, place in `rows` and weights of some texts, end to end."""
        lengths = self.starts[rows + 1] - self.starts[rows]
        before = np.cumsum(lengths) - lengths
        owners = np.repeat(np.arange(len(rows)), lengths)
        at = np.arange(len(owners)) + (self.starts[rows] - before)[owners]
        return self.words[at], owners, self.values[at]


class WordIndex:
    """The words of all texts as numbers, in the order of their first occurrence."""

    def __init__(self, texts: Sequence[str]) -> None:
        numbers: defaultdict[str, int] = defaultdict(count().__next__)
        parts = list(_numbered(texts, numbers))
        self.vocabulary: Mapping[str, int] = dict(numbers)
        self.words = Ragged(
            np.concatenate([values for values, _ in parts]),
            np.cumsum([0, *chain.from_iterable(lengths for _, lengths in parts)]),
        )

    @cached_property
    def weights(self) -> Weights:
        """The BM25 weight of every word in every text, statistics from these texts alone."""
        n, size = len(self.words), max(len(self.vocabulary), 1)
        mean = self.words.lengths.mean() or 1.0
        damping = K1 * (1 - B + B * self.words.lengths / mean)
        cells, counts = np.unique(
            np.repeat(np.arange(n), self.words.lengths) * size + self.words.values,
            return_counts=True,
        )
        row, word = np.divmod(cells, size)
        idf = inverse_frequency(n, np.bincount(word, minlength=size))
        values = idf[word] * counts * (K1 + 1) / (counts + damping[row])
        return Weights(np.searchsorted(row, np.arange(n + 1)), word.astype(np.int32), values)

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        """The pairs of neighbouring words, sorted, and in how many texts each occurs."""
        owners = self.words.owners
        inside = np.flatnonzero(owners[1:] == owners[:-1])
        keys = self.words.values[inside].astype(np.int64) * len(self.vocabulary)
        keys += self.words.values[inside + 1]
        order = np.argsort(keys, kind="stable")
        keys, owners = keys[order], owners[inside[order]]
        # A pair that a text has twice counts once: its owners stand in order.
        new = np.ones(len(keys), dtype=np.bool_)
        new[1:] = keys[1:] != keys[:-1]
        once = new.copy()
        once[1:] |= owners[1:] != owners[:-1]
        starts = np.flatnonzero(new)
        return keys[starts], np.add.reduceat(once, starts, dtype=np.int64) if len(
            starts
        ) else starts

    def pair_frequency(self, first: Ints, second: Ints) -> Ints:
        """Return in how many texts each pair of words occurs; words of no text are negative."""
        keys, frequency = self._pairs
        if not len(keys):
            return np.zeros(len(first), dtype=np.int64)
        wanted = first * len(self.vocabulary) + second
        place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
        there = (keys[place] == wanted) & (first >= 0) & (second >= 0)
        return np.where(there, frequency[place], 0)

    def numbers_of(self, vocabulary: Mapping[str, int]) -> Ints:
        """Return the numbers of other words, in the order of their own; -1 for a new one."""
        found = map(self.vocabulary.get, vocabulary)
        return np.fromiter((-1 if n is None else n for n in found), np.int64, len(vocabulary))


def word_index(observation: Observation) -> WordIndex:
    """Return the index of an observation's words, made once."""
    return observation.remember("word index", lambda: WordIndex(observation.texts))


def inverse_frequency(n: int, frequency: NDArray[np.integer]) -> Floats:
    """Return BM25's idf of what occurs in `frequency` of `n` texts: never negative.

    >>> inverse_frequency(3, np.array([0, 3])).round(3)
    array([2.079, 0.134])
    """
    idf: Floats = np.log(1 + (n - frequency + 0.5) / (frequency + 0.5))
    return idf


def _numbered(
    texts: Sequence[str], numbers: defaultdict[str, int]
) -> Iterator[tuple[NDArray[np.int32], list[int]]]:
    for start in range(0, len(texts), _CHUNK):
        cut = [tokens(text) for text in texts[start : start + _CHUNK]]
        lengths = [len(words) for words in cut]
        flat = map(numbers.__getitem__, chain.from_iterable(cut))
        yield np.fromiter(flat, np.int32, sum(lengths)), lengths
