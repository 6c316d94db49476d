"""Character grams and substrings of the targets, found exactly in the texts of an observation.

A gram of length 2k is named by the names of its halves (Karp, Miller and Rosenberg 1972), so that
naming looks up numbers only, for all texts at once and for any length. Only grams that occur in a
target have a name, a number above 0; everything else is 0.

The grams of a target that occur in a candidate form runs, and every common substring lies within a
run. Often the longest run is itself a common substring; one search of the candidate tells. If it is
not, grams of twice the length leave shorter runs, until there are none; then the last runs are
searched character by character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
from numpy.typing import NDArray

from synthleak.core.text import char_grams
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.fast.words import Ragged, presence
from synthleak.evidence.observation import (
    Floats,
    Ints,
    Observation,
    Targets,
    TextSet,
    cached,
    cached_for_targets,
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


@cached
def letters(texts: TextSet) -> Letters:
    folded = texts.folded
    lengths = np.array([len(text) for text in folded], dtype=np.int64)
    starts = np.cumsum(lengths + GRAM) - lengths - GRAM
    raw = np.frombuffer("".join(folded).encode("utf-32-le", "surrogatepass"), dtype="<u4")
    codes = np.zeros(len(raw) + GRAM * len(folded), dtype=np.int64)
    inside = np.arange(len(raw)) + np.repeat(GRAM * np.arange(len(folded)), lengths)
    codes[inside] = raw.astype(np.int64) + 1
    return Letters(codes, starts, lengths)


@cached
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


@cached
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


@cached_for_targets
def text_grams(targets: Targets, observation: Observation) -> TextGrams:
    """Return the grams of the texts that occur in a target."""
    return TextGrams(target_grams(targets).find(letters(observation)))


@cached_for_targets
def gram_hits(targets: Targets, observation: Observation) -> list[NDArray[np.bool_]]:
    """Return `[candidate, distinct 5-gram of the target]` for each target."""
    retrieved, known = retrieve(targets, observation), target_grams(targets)
    rows = retrieved.places
    named = next(iter(text_grams(targets, retrieved.texts)), None)
    if named is None:  # not one gram in common
        return [np.zeros((rows.shape[1], 0), dtype=np.bool_)] * len(rows)
    return [
        presence(known.of_targets[GRAM][target].names, named[1], candidates)
        for target, candidates in enumerate(rows)
    ]


def shared_grams(targets: Targets, observation: Observation) -> Floats:
    """Return how many different 5-grams each target shares with each of its candidates."""
    hits = gram_hits(targets, observation)
    return np.stack([np.count_nonzero(of_target, axis=1) for of_target in hits]).astype(np.float64)


@dataclass(frozen=True)
class Runs:
    """Stretches of a target that a candidate may contain, for some of its candidates.

    Row r has the stretches `text[begins[i]:ends[i]]`, i from `bounds[r]` to `bounds[r + 1]`.
    """

    size: int
    begins: Ints
    ends: Ints
    bounds: Ints

    def longest(self) -> Iterator[tuple[int, int]]:
        """Yield begin and end of each row's longest stretch, (0, 0) where there is none."""
        count = len(self.begins)
        begins, ends = np.zeros((2, len(self.bounds) - 1), dtype=np.int64)
        some = np.flatnonzero(np.diff(self.bounds))
        if len(some):
            # Length and place in one number: the largest is the first of the longest stretches.
            ranked = (self.ends - self.begins) * count + np.arange(count)[::-1]
            best = count - 1 - np.maximum.reduceat(ranked, self.bounds[some]) % count
            begins[some], ends[some] = self.begins[best], self.ends[best]
        return zip(begins.tolist(), ends.tolist(), strict=True)

    def walk(self, row: int, text: str, other: str) -> int:
        """Return the longest common substring's length, at least `size`, in a row's stretches."""
        here = slice(self.bounds[row], self.bounds[row + 1])
        begins, ends = self.begins[here], self.ends[here]
        order = np.argsort(begins - ends, kind="stable")
        longest = self.size
        for begin, end in zip(begins[order].tolist(), ends[order].tolist(), strict=True):
            if end - begin <= longest:
                break
            longest = _walk(text, other, begin, end, longest)
        return longest


def runs_of(hits: NDArray[np.bool_], size: int) -> Runs:
    """Return where consecutive grams of this size occur, row by row.

    >>> runs_of(np.array([[True, True, False, True], [False] * 4]), size=5)
    Runs(size=5, begins=array([0, 3]), ends=array([6, 8]), bounds=array([0, 2, 2]))
    """
    height, width = hits.shape
    closed = np.zeros((height, width + 1), dtype=np.bool_)
    closed[:, :width] = hits
    edges = np.flatnonzero(np.diff(closed.reshape(-1), prepend=False))
    row, begins = np.divmod(edges[::2], width + 1)
    ends = edges[1::2] - row * (width + 1) + size - 1
    return Runs(size, begins, ends, np.searchsorted(row, np.arange(height + 1)))


def longest_substrings(targets: Targets, observation: Observation) -> Floats:
    """Return the length in characters of the longest common substring with each candidate."""
    retrieved = retrieve(targets, observation)
    rows, folded = retrieved.places, retrieved.texts.folded
    fives, grams_of = gram_hits(targets, observation), target_grams(targets).of_targets
    levels, pieces = text_grams(targets, retrieved.texts), cache(_pieces)
    lengths = np.zeros(rows.shape)
    for target, text in enumerate(targets.folded):
        others = [folded[row] for row in rows[target].tolist()]
        last_runs: dict[int, tuple[Runs, int]] = {}
        waiting = list(range(len(others)))  # candidates whose length is not known yet
        for size, named in levels:
            grams = grams_of[size][target]
            hits = fives[target]
            if size != GRAM:
                hits = presence(grams.names, named, rows[target, np.asarray(waiting)])
            runs, still_waiting = runs_of(hits[:, grams.at], size), []
            for row, (other, (begin, end)) in enumerate(zip(waiting, runs.longest(), strict=True)):
                if begin == end:
                    continue
                last_runs[other] = runs, row
                if text[begin:end] in others[other]:
                    lengths[target, other] = min(end, len(text)) - begin
                else:
                    still_waiting.append(other)
            waiting = still_waiting
            if not waiting:
                break
        for other in np.flatnonzero(lengths[target] == 0).tolist():
            if other in last_runs:
                runs, row = last_runs[other]
                lengths[target, other] = runs.walk(row, text, others[other])
            else:  # no 5-gram in common
                sizes = range(GRAM - 1, 0, -1)
                shared = (
                    n for n in sizes if not pieces(text, n).isdisjoint(pieces(others[other], n))
                )
                lengths[target, other] = next(shared, 0)
    return lengths


def _walk(text: str, other: str, begin: int, end: int, longest: int) -> int:
    """Return the length of the longest substring of `other` in `text[begin:end]`, or `longest`."""
    while end - begin > longest:
        if text[begin : begin + longest + 1] in other:
            longest += 1
        else:
            begin += 1
    return longest


def _pieces(text: str, size: int) -> set[str]:
    return {text[end - size : end] for end in range(size, len(text) + 1)}
