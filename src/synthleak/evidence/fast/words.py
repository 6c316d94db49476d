"""Numbered words and word pairs of targets and texts, made once for all lexical proxies."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count

import numpy as np

from synthleak.evidence.fast.index import WordIndex, word_index
from synthleak.evidence.fast.neighbours import is_large
from synthleak.evidence.fast.ragged import Ints, Ragged
from synthleak.evidence.observation import Observation, Targets


@dataclass(frozen=True)
class Words:
    """Words as numbers: those below `known` occur in a target, all are below `size`."""

    of_targets: Ragged
    of_texts: Ragged
    known: int
    size: int


@dataclass(frozen=True)
class TargetPairs:
    """Neighbouring words of the targets, the two ends of a text counting as words.

    `keys[p]` is what `pair_keys` makes of pair p, sorted; `rows` holds the pairs of each target.
    """

    keys: Ints
    rows: Ragged
    known: int

    def find(self, texts: Ragged) -> Ragged:
        """Return the pairs of each text that occur in a target."""
        keys = pair_keys(texts, self.known)
        place = np.minimum(np.searchsorted(self.keys, keys.values), len(self.keys) - 1)
        return Ragged(place, keys.starts).keep(self.keys[place] == keys.values)

    def has_end(self, pairs: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Say which pairs hold the begin or the end of a text."""
        first, second = np.divmod(self.keys[pairs], self.known + 2)
        return np.asarray((first >= self.known) | (second >= self.known))


def words(targets: Targets, observation: Observation) -> Words:
    """Number the words of targets and texts."""

    def make() -> Words:
        vocabulary, of_targets = target_words(targets)
        if is_large(observation):
            index = word_index(observation)
            return _indexed(index, index.words, vocabulary, of_targets)
        if observation.whole is not None and is_large(observation.whole[0]):
            index = word_index(observation.whole[0])
            rows = index.words.rows(observation.whole[1])
            return _indexed(index, rows, vocabulary, of_targets)
        of_texts, size = number(observation.tokens, vocabulary)
        return Words(of_targets, of_texts, len(vocabulary), size)

    return observation.beside(targets, "words", make)


def _indexed(
    index: WordIndex, texts: Ragged, vocabulary: Mapping[str, int], of_targets: Ragged
) -> Words:
    """Number the words of texts that a target has as the targets do, all others after them."""
    known, numbers = len(vocabulary), index.numbers_of(vocabulary)
    number = np.full(len(index.vocabulary), -1, dtype=np.int64)
    there = np.zeros(len(index.vocabulary), dtype=np.bool_)
    there[texts.values] = True
    number[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    others = np.flatnonzero((number < 0) & there)
    number[others] = known + np.arange(len(others))
    of_texts = Ragged(number[texts.values], texts.starts)
    return Words(of_targets, of_texts, known, known + len(others))


def text_pairs(targets: Targets, observation: Observation) -> Ragged:
    """Return the word pairs of each text that occur in a target, by their place in it."""
    return observation.beside(
        targets,
        "word pairs",
        lambda: target_pairs(targets).find(words(targets, observation).of_texts),
    )


def target_words(targets: Targets) -> tuple[Mapping[str, int], Ragged]:
    """Return the vocabulary of the targets, and their words as numbers."""

    def make() -> tuple[Mapping[str, int], Ragged]:
        vocabulary: defaultdict[str, int] = defaultdict(count().__next__)
        rows = _flatten(targets.tokens, vocabulary)
        return dict(vocabulary), rows

    return targets.remember("words", make)


def target_pairs(targets: Targets) -> TargetPairs:
    """Return the word pairs of the targets."""

    def make() -> TargetPairs:
        vocabulary, rows = target_words(targets)
        keys = pair_keys(rows, len(vocabulary))
        names, inverse = np.unique(keys.values, return_inverse=True)
        return TargetPairs(names, Ragged(inverse.astype(np.int64), keys.starts), len(vocabulary))

    return targets.remember("word pairs", make)


def number(tokens: Sequence[Sequence[str]], vocabulary: Mapping[str, int]) -> tuple[Ragged, int]:
    """Return words as numbers, new ones after those of the vocabulary, and how many there are."""
    numbers = defaultdict(count(len(vocabulary)).__next__, vocabulary)
    rows = _flatten(tokens, numbers)
    return rows, len(numbers)


def _flatten(tokens: Sequence[Sequence[str]], numbers: defaultdict[str, int]) -> Ragged:
    starts = np.cumsum([0, *map(len, tokens)]).astype(np.int64)
    flat = map(numbers.__getitem__, chain.from_iterable(tokens))
    return Ragged(np.fromiter(flat, dtype=np.int64, count=int(starts[-1])), starts)


def pair_keys(rows: Ragged, known: int) -> Ragged:
    """Return every pair of neighbours as one number; -1 where a word is in no target.

    A row of n words has n + 1 pairs: `known` is the number of its begin, `known + 1` of its end.

    >>> from synthleak.evidence.fast.ragged import ragged
    >>> pair_keys(ragged([[0, 1]]), known=2).values  # (2, 0), (0, 1), (1, 3) in base 4
    array([8, 1, 7])
    """
    starts = rows.starts + np.arange(len(rows) + 1)
    first = np.full(starts[-1], known, dtype=np.int64)
    inside = np.arange(len(rows.values)) + rows.owners + 1
    first[inside] = np.where(rows.values < known, rows.values, -1)
    second = np.append(first[1:], known)
    second[starts[1:] - 1] = known + 1
    known_both = (first >= 0) & (second >= 0)
    return Ragged(np.where(known_both, first * (known + 2) + second, -1), starts)
