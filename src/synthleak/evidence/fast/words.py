"""Words, word pairs and n-grams of targets and texts as numbers, made once for all lexical proxies.

Words are numbered while the texts are cut up, so that no list of words is kept. BM25's weights and
the frequencies of word pairs depend on the texts alone and are computed once for all targets.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthleak.core.text import tokens
from synthleak.evidence.observation import (
    CHUNK,
    Floats,
    Ints,
    Observation,
    Targets,
    cached,
    cached_for_targets,
)

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ROWS = 2**14
"""Texts whose n-grams are counted together."""
K1 = 1.5
B = 0.75


@dataclass(frozen=True)
class Ragged:
    """Rows of different lengths in two flat arrays: row i is `values[starts[i]:starts[i + 1]]`."""

    values: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> Ints:
        return self.values[self.starts[row] : self.starts[row + 1]]

    @cached_property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    @property
    def owners(self) -> Ints:
        """The row of each value."""
        return np.repeat(np.arange(len(self)), self.lengths)

    def keep(self, wanted: NDArray[np.bool_]) -> Ragged:
        """Return the rows with the wanted values only."""
        before = np.concatenate([[0], np.cumsum(wanted)])
        return Ragged(self.values[wanted], before[self.starts])

    def rows(self, rows: Ints) -> Ragged:
        values, _ = self.take(rows)
        return Ragged(values, np.concatenate([[0], np.cumsum(self.lengths[rows])]))

    def parts(self, size: int | None = None) -> Iterator[Ragged]:
        """Yield the rows, some at a time: what is derived of millions at once takes memory."""
        size = size or ROWS
        for start in range(0, len(self), size):
            starts = self.starts[start : start + size + 1]
            yield Ragged(self.values[starts[0] : starts[-1]], starts - starts[0])

    def take(self, rows: Sequence[int] | Ints) -> tuple[Ints, Ints]:
        """Return the values of these rows, end to end, and the place in `rows` of each."""
        starts, ends = self.starts[rows].tolist(), self.starts[1:][rows].tolist()
        pieces = [self.values[a:b] for a, b in zip(starts, ends, strict=True)]
        owners = np.repeat(np.arange(len(pieces)), self.lengths[rows])
        return np.concatenate(pieces) if pieces else self.values[:0], owners


def ragged(rows: Iterable[Sequence[int]]) -> Ragged:
    """Flatten rows.

    >>> ragged([[5, 6], [], [7]]).take([2, 0])
    (array([7, 5, 6]), array([0, 1, 1]))
    """
    listed = list(rows)
    starts = np.cumsum([0, *map(len, listed)])
    flat = [value for row in listed for value in row]
    return Ragged(np.array(flat, dtype=np.int64), starts.astype(np.int64))


def places(keys: Ints, wanted: Ints) -> Ints:
    """Return where each wanted key stands among sorted keys; -1 for those that do not.

    >>> places(np.array([2, 7]), np.array([7, 3])).tolist()
    [1, -1]
    """
    if not len(keys):
        return np.full(len(wanted), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[place] == wanted, place, -1)


def presence(wanted: Ints, texts: Ragged, rows: Sequence[int] | Ints) -> NDArray[np.bool_]:
    """Say which of the `wanted` values (distinct, none negative) occur in each of these rows.

    >>> presence(np.array([7, 5]), ragged([[5, 6], [], [7]]), [0, 2])
    array([[False,  True],
           [ True, False]])
    """
    values, owners = texts.take(rows)
    width = len(wanted)
    column = np.full(int(max(wanted.max(initial=0), values.max(initial=0))) + 1, width)
    column[wanted] = np.arange(width)
    # What is not wanted falls into a last column, which is cut off.
    present = np.zeros((len(rows), width + 1), dtype=np.bool_)
    present.reshape(-1)[owners * (width + 1) + column[values]] = True
    return present[:, :width]


def number(
    rows: Iterable[Sequence[str]], kind: type[np.signedinteger] = np.int64
) -> tuple[Ragged, Mapping[str, int]]:
    """Number words in the order of their first occurrence.

    >>> number([["a", "b"], [], ["a"]])[0].values.tolist()
    [0, 1, 0]
    """
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    flat, lengths = array("i"), array("q", [0])
    for row in rows:
        flat.extend(map(numbers.__getitem__, row))
        lengths.append(len(row))
    return Ragged(np.asarray(flat, dtype=kind), np.cumsum(lengths)), dict(numbers)


class WordIndex:
    """The words of all texts as numbers, and what BM25 and rare pairs need to know of them."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.words, self.vocabulary = number(map(tokens, texts), np.int32)  # there may be millions

    @cached_property
    def weights(self) -> csr_matrix:
        """The BM25 weight `[text, word]`, statistics from these texts alone."""
        from scipy.sparse import csr_matrix

        n, size = len(self.words), max(len(self.vocabulary), 1)
        mean = self.words.lengths.mean() or 1.0
        damping = K1 * (1 - B + B * self.words.lengths / mean)
        each = (np.ones(len(self.words.values)), self.words.values.copy(), self.words.starts)
        table = csr_matrix(each, shape=(n, size))
        table.sum_duplicates()  # now the number of times that each text has each word
        idf = inverse_frequency(n, np.bincount(table.indices, minlength=size))
        for start in range(0, n, CHUNK):
            ends = table.indptr[start : start + CHUNK + 1]
            part = slice(ends[0], ends[-1])
            damped = np.repeat(damping[start : start + CHUNK], np.diff(ends))
            counts = table.data[part]
            table.data[part] = idf[table.indices[part]] * counts * (K1 + 1) / (counts + damped)
        return table

    @cached_property
    def _pairs(self) -> tuple[Ints, Ints]:
        """The pairs of neighbouring words, sorted, and in how many texts each occurs."""
        pairs = frequency = np.empty(0, dtype=np.int64)
        for part in self.words.parts(CHUNK):
            owners = part.owners
            inside = np.flatnonzero(owners[1:] == owners[:-1])
            keys = part.values[inside].astype(np.int64) * len(self.vocabulary)
            keys += part.values[inside + 1]
            order = np.argsort(keys, kind="stable")
            keys, owners = keys[order], owners[inside[order]]
            # A pair that a text has twice counts once: its owners stand in order.
            first = np.diff(keys, prepend=-1) != 0
            once = first | (np.diff(owners, prepend=-1) != 0)
            starts = np.flatnonzero(first)
            counts = np.add.reduceat(once, starts, dtype=np.int64) if len(starts) else starts
            place = places(pairs, keys[starts])
            new = place < 0
            frequency[place[~new]] += counts[~new]
            at = np.searchsorted(pairs, keys[starts[new]])
            pairs = np.insert(pairs, at, keys[starts[new]])
            frequency = np.insert(frequency, at, counts[new])
        return pairs, frequency

    def pair_frequency(self, first: Ints, second: Ints) -> Ints:
        """Return in how many texts each pair of words occurs; words of no text are negative."""
        pairs, frequency = self._pairs
        place = places(pairs, first * len(self.vocabulary) + second)
        known = np.flatnonzero((place >= 0) & (first >= 0) & (second >= 0))
        counts = np.zeros(len(first), dtype=np.int64)
        counts[known] = frequency[place[known]]
        return counts

    def numbers_of(self, vocabulary: Mapping[str, int]) -> Ints:
        """Return the numbers of other words, in the order of their own; -1 for a new one."""
        numbers = map(self.vocabulary.get, vocabulary)
        return np.fromiter((-1 if n is None else n for n in numbers), np.int64, len(vocabulary))


@cached
def word_index(observation: Observation) -> WordIndex:
    return WordIndex(observation.texts)


def inverse_frequency(n: int, frequency: NDArray[np.integer]) -> Floats:
    """Return BM25's idf of what occurs in `frequency` of `n` texts: never negative.

    >>> inverse_frequency(3, np.array([0, 3])).round(3)
    array([2.079, 0.134])
    """
    idf: Floats = np.log(1 + (n - frequency + 0.5) / (frequency + 0.5))
    return idf


@dataclass(frozen=True)
class Words:
    """Words as numbers: those below `known` occur in a target, all are below `size`."""

    of_targets: Ragged
    of_texts: Ragged
    known: int
    size: int


@cached
def target_words(targets: Targets) -> tuple[Ragged, Mapping[str, int]]:
    """Return the words of the targets as numbers, and their vocabulary."""
    return number(targets.tokens)


@cached_for_targets
def words(targets: Targets, observation: Observation) -> Words:
    """Number the words of texts that a target has as the targets do, all others after them."""
    of_targets, vocabulary = target_words(targets)
    whole, rows = observation.whole or (observation, None)
    index = word_index(whole)
    texts = index.words if rows is None else index.words.rows(rows)
    known, numbers = len(vocabulary), index.numbers_of(vocabulary)
    new_number = np.full(len(index.vocabulary), -1, dtype=np.int64)
    occurs = np.zeros(len(index.vocabulary), dtype=np.bool_)
    occurs[texts.values] = True
    new_number[numbers[numbers >= 0]] = np.flatnonzero(numbers >= 0)
    others = np.flatnonzero((new_number < 0) & occurs)
    new_number[others] = known + np.arange(len(others))
    of_texts = Ragged(new_number[texts.values], texts.starts)
    return Words(of_targets, of_texts, known, known + len(others))


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
        place = places(self.keys, keys.values)
        return Ragged(place, keys.starts).keep(place >= 0)

    def has_end(self, pairs: Ints) -> NDArray[np.bool_]:
        """Say which pairs hold the begin or the end of a text."""
        first, second = np.divmod(self.keys[pairs], self.known + 2)
        return np.asarray((first >= self.known) | (second >= self.known))


@cached
def target_pairs(targets: Targets) -> TargetPairs:
    rows, vocabulary = target_words(targets)
    keys = pair_keys(rows, len(vocabulary))
    names, inverse = np.unique(keys.values, return_inverse=True)
    return TargetPairs(names, Ragged(inverse.astype(np.int64), keys.starts), len(vocabulary))


@cached_for_targets
def text_pairs(targets: Targets, observation: Observation) -> Ragged:
    """Return the word pairs of each text that occur in a target, by their place in it."""
    return target_pairs(targets).find(words(targets, observation).of_texts)


def pair_keys(rows: Ragged, known: int) -> Ragged:
    """Return every pair of neighbours as one number; -1 where a word is in no target.

    A row of n words has n + 1 pairs: `known` is the number of its begin, `known + 1` of its end.

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


@dataclass(frozen=True)
class Ngrams:
    """The different n-grams of targets, n = 1 to `len(keys) + 1`.

    `rows` holds the n-grams of each target, every one once, in the order in which they first occur:
    it is the same for equal texts. An n-gram of n ≥ 2 is known by its first n - 1 symbols and its
    last one: `keys[n - 2]`, sorted.
    """

    rows: Ragged
    vocabulary: Mapping[str, int] = field(repr=False)  # words of private texts
    keys: tuple[Ints, ...]

    @cached_property
    def ends(self) -> Ints:
        """The number of n-grams up to each n: those of n = 1 come first."""
        return np.cumsum([len(self.vocabulary), *map(len, self.keys)])

    def frequencies(self, symbols: Ragged, vocabulary: Mapping[str, int]) -> Ints:
        """Return in how many texts each n-gram occurs.

        Args:
            symbols: the symbols of each text.
            vocabulary: the number of each symbol in `symbols`.
        """
        known = np.fromiter(
            (self.vocabulary.get(symbol, -1) for symbol in vocabulary), np.int64, len(vocabulary)
        )
        sizes = np.diff(self.ends, prepend=0).tolist()
        counts = [np.zeros(size, dtype=np.int64) for size in sizes]
        for part in symbols.parts():
            texts = Ragged(known[part.values], part.starts)
            grams_by_length = _walk(texts, len(self.vocabulary), self.keys)
            for total, grams in zip(counts, grams_by_length, strict=True):
                total[:] += _texts_with(grams, texts.owners, len(total))
        return np.concatenate(counts)


def ngrams(targets: Targets, cut: Callable[[str], Sequence[str]], longest: int) -> Ngrams:
    """Return the different n-grams of the targets.

    Args:
        targets: the targets.
        cut: turns a text into its symbols, in their order.
        longest: the largest n.

    >>> found = ngrams(Targets(["a b a b"], list), str.split, 2)
    >>> found.ends.tolist(), found.rows[0].tolist()  # a, b, ab, ba
    ([2, 4], [0, 1, 2, 3])
    """
    symbols, vocabulary = number(map(cut, targets.texts))
    keys: list[Ints] = []
    grams = symbols.values.astype(np.int64)
    parts, before = [grams], len(vocabulary)
    for n in range(2, longest + 1):
        extended = _extended(grams, symbols, n, len(vocabulary))
        names = np.unique(extended[extended >= 0])
        grams = places(names, extended)
        keys.append(names)
        parts.append(np.where(grams < 0, -1, grams + before))
        before += len(names)
    # By target, then n, then place: the first of equal ones stays.
    owners = np.tile(symbols.owners, longest)
    flat = np.concatenate(parts)
    there = np.flatnonzero(flat >= 0)
    there = there[np.argsort(owners[there], kind="stable")]
    _, first = np.unique(owners[there] * max(before, 1) + flat[there], return_index=True)
    there = there[np.sort(first)]
    lengths = np.bincount(owners[there], minlength=len(targets))
    rows = Ragged(flat[there], np.concatenate([[0], np.cumsum(lengths)]))
    return Ngrams(rows, vocabulary, tuple(keys))


def _walk(texts: Ragged, size: int, keys: Sequence[Ints]) -> list[Ints]:
    """Return the n-gram at each place, for n = 1 and so on; -1 for one that no target has."""
    grams_by_length = [texts.values]
    for n, names in enumerate(keys, start=2):
        grams_by_length.append(places(names, _extended(grams_by_length[-1], texts, n, size)))
    return grams_by_length


def _extended(grams: Ints, texts: Ragged, n: int, size: int) -> Ints:
    """Return the key of the n-gram at each place, from the (n - 1)-gram there; -1 for none."""
    keys = np.full(len(grams), -1, dtype=np.int64)
    inside = np.flatnonzero(grams[: max(len(grams) - n + 1, 0)] >= 0)
    last = texts.values[inside + n - 1]
    ends = texts.starts[1:][texts.owners[inside]]
    fits = (last >= 0) & (inside + n <= ends)
    keys[inside[fits]] = grams[inside[fits]] * size + last[fits]
    return keys


def _texts_with(grams: Ints, owners: Ints, size: int) -> Ints:
    """Return how many texts hold each n-gram; several times in one text count once."""
    there = np.flatnonzero(grams >= 0)
    cells = distinct(owners[there] * max(size, 1) + grams[there])
    return np.bincount(cells % max(size, 1), minlength=size)[:size]


def distinct(values: Ints) -> Ints:
    """Return the different values, sorted: faster than `np.unique`, which hashes them.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    values = np.sort(values)
    different: Ints = values[np.diff(values, prepend=-1) != 0]
    return different
