"""Character grams of the targets, found exactly in the texts of an observation.

A gram of length 2k is named by the names of its halves (Karp, Miller and Rosenberg 1972), so that
naming looks up numbers only, for all texts at once and for any length. Only grams that occur in a
target have a name, a number above 0; everything else is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from synthleak.core.text import char_grams
from synthleak.evidence.fast.ragged import Ints, Ragged
from synthleak.evidence.observation import (
    Observation,
    Targets,
    TextSet,
    remembered,
    remembered_beside,
)

GRAM = 5
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_LARGEST = 1 << 63
Step = Callable[[int, Ints, Ints], Ints]


@dataclass(frozen=True)
class Letters:
    """Folded texts end to end as numbers; 0s after each keep grams within one text."""

    codes: Ints
    starts: Ints
    lengths: Ints

    @cached_property
    def windows(self) -> Ragged:
        """Where the 5-grams of each text start; a shorter text is one gram, padded."""
        fits = np.where(self.lengths > 0, np.maximum(self.lengths - GRAM + 1, 1), 0)
        ends = np.cumsum(fits)
        place = np.arange(fits.sum()) + np.repeat(self.starts - ends + fits, fits)
        return Ragged(place, np.concatenate([[0], ends]))

    def cut(self, names: Ints) -> Ragged:
        """Return the names above 0, text by text."""
        there = np.flatnonzero(names)
        bounds = np.append(self.starts, len(self.codes))
        return Ragged(names[there], np.searchsorted(there, bounds))


@remembered
def letters(texts: TextSet) -> Letters:
    """Return the folded texts as numbers."""
    folded = texts.folded
    lengths = np.array([len(text) for text in folded], dtype=np.int64)
    starts = np.cumsum(lengths + GRAM) - lengths - GRAM
    raw = np.frombuffer("".join(folded).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    codes = np.zeros(len(raw) + GRAM * len(folded), dtype=np.int64)
    inside = np.arange(len(raw)) + np.repeat(GRAM * np.arange(len(folded)), lengths)
    codes[inside] = raw.astype(np.int64) + 1
    return Letters(codes, starts, lengths)


@remembered
def distinct_grams(texts: TextSet) -> Ints:
    """Return how many different 5-grams each text has."""
    there = letters(texts)
    seen = np.zeros(int(there.codes.max(initial=0)) + 1, dtype=np.bool_)
    seen[there.codes] = True
    alphabet = int(seen.sum())
    if alphabet**GRAM >= _LARGEST:  # too many different characters for one number
        return np.array([len(char_grams(text, GRAM)) for text in texts.texts], dtype=np.int64)
    packed = _packed((np.cumsum(seen) - 1)[there.codes], GRAM, alphabet)
    grams = Ragged(packed[there.windows.values], there.windows.starts)
    return np.array([_count_distinct(row) for row in _rows(grams)], dtype=np.int64)


def _count_distinct(values: Ints) -> int:
    ordered = np.sort(values)
    return int(np.count_nonzero(ordered[1:] != ordered[:-1])) + (len(values) > 0)


def _packed(digits: Ints, count: int, base: int) -> Ints:
    """Return the number that each digit and the next ones form."""
    packed = digits
    for offset in range(1, count):
        packed = packed * base + ahead(digits, offset)
    return packed


def ahead(values: Ints, offset: int) -> Ints:
    """Return the value `offset` places further on, 0 past the end."""
    further = np.zeros_like(values)
    further[: len(values) - offset] = values[offset:]
    return further


class Naming:
    """Names for the pairs of numbers that it was built from, each below 2^63 / `span`.

    A hash table with open addressing in two arrays: a million look-ups take 16 ms; binary search
    takes 140 ms.
    """

    def __init__(self, left: Ints, right: Ints, span: int) -> None:
        self._span = span
        keys = np.unique((left * span + right)[(left > 0) & (right > 0)])
        self._keys = np.append(-1, keys)
        bits = max(int(4 * len(keys)).bit_length(), 1)
        self._shift = np.uint64(64 - bits)
        self._table = np.zeros((1 << bits) + len(keys) + 1, dtype=np.int64)
        slots, waiting = self._slots(keys), np.arange(len(keys))
        while len(waiting):
            free = waiting[self._table[slots[waiting]] == 0]
            self._table[slots[free]] = free + 1
            waiting = waiting[self._table[slots[waiting]] != waiting + 1]
            slots[waiting] += 1

    def __call__(self, left: Ints, right: Ints) -> Ints:
        """Return the names of pairs, 0 for an unknown pair."""
        found = np.zeros(len(left), dtype=np.int64)
        both = np.flatnonzero((left > 0) & (right > 0))
        keys = left[both] * self._span + right[both]
        slots = self._slots(keys)
        names = self._table[slots]
        waiting = np.flatnonzero((names > 0) & (self._keys[names] != keys))
        while len(waiting):
            slots[waiting] += 1
            names[waiting] = again = self._table[slots[waiting]]
            waiting = waiting[(again > 0) & (self._keys[again] != keys[waiting])]
        found[both] = names
        return found

    def _slots(self, keys: Ints) -> Ints:
        """Spread keys evenly (Fibonacci hashing)."""
        return ((keys.astype(np.uint64) * _GOLDEN) >> self._shift).astype(np.int64)


@dataclass(frozen=True)
class Distinct:
    """The different grams of one target, and which of them starts at each of its characters."""

    names: Ints
    at: Ints


class TargetGrams:
    """The names of the targets' grams, and the grams of each target by length."""

    def __init__(self, there: Letters) -> None:
        used = np.unique(np.append(there.codes, 0))
        self._span = len(used) + 1
        self._alphabet = np.zeros(int(used.max()) + 2, dtype=np.int64)
        self._alphabet[used] = np.arange(1, self._span)
        self._namings: dict[int, Naming] = {}
        self.of_targets = {
            size: [
                Distinct(*np.unique(row, return_inverse=True)) for row in _rows(there.cut(names))
            ]
            for size, names in self._climb(there, self._learn)
        }

    def find(self, there: Letters) -> Iterator[tuple[int, Ragged]]:
        """Yield (length, names in each text) for length 5, 10, 20, ... while there are any."""
        for size, names in self._climb(there, self._recall):
            yield size, there.cut(names)

    def _climb(self, there: Letters, step: Step) -> Iterator[tuple[int, Ints]]:
        one = self._alphabet[np.minimum(there.codes, len(self._alphabet) - 1)]
        if self._span**GRAM < _LARGEST:
            four = _packed(one, 4, self._span)
        else:
            two = step(2, one, ahead(one, 1))
            four = step(4, two, ahead(two, 2))
        names, size = np.zeros_like(one), GRAM
        starts = there.windows.values
        names[starts] = step(GRAM, four[starts], one[starts + 4])
        while names.any():
            yield size, names
            names, size = step(2 * size, names, ahead(names, size)), 2 * size

    def _learn(self, size: int, left: Ints, right: Ints) -> Ints:
        span = self._span if size == GRAM else int(left.max(initial=0)) + 1
        self._namings[size] = Naming(left, right, span)
        return self._namings[size](left, right)

    def _recall(self, size: int, left: Ints, right: Ints) -> Ints:
        return self._namings[size](left, right)


def _rows(rows: Ragged) -> Iterator[Ints]:
    return (rows[row] for row in range(len(rows)))


@remembered
def target_grams(targets: Targets) -> TargetGrams:
    """Name the grams of the targets, once for all observations."""
    return TargetGrams(letters(targets))


class TextGrams:
    """The grams of each text that occur in a target; longer ones are found when first needed."""

    def __init__(self, found: Iterator[tuple[int, Ragged]]) -> None:
        self._found = found
        self._levels: list[tuple[int, Ragged]] = []

    def __iter__(self) -> Iterator[tuple[int, Ragged]]:
        """Yield (length, names in each text) for length 5, 10, 20, ... while there are any."""
        yield from self._levels
        for level in self._found:
            self._levels.append(level)
            yield level


@remembered_beside
def text_grams(targets: Targets, observation: Observation) -> TextGrams:
    """Return the grams of the texts that occur in a target."""
    return TextGrams(target_grams(targets).find(letters(observation)))
