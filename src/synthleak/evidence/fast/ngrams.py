"""n-grams of words, or of other symbols, of the targets: in how many texts each occurs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from synthleak.evidence.fast.words import Ragged, number
from synthleak.evidence.observation import Ints, Targets


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
        grams = _places(names, extended)
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
        grams_by_length.append(_places(names, _extended(grams_by_length[-1], texts, n, size)))
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


def _places(names: Ints, keys: Ints) -> Ints:
    """Return where each key stands in `names`, which are sorted; -1 for those that do not."""
    if not len(names):
        return np.full(len(keys), -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(names, keys), len(names) - 1)
    return np.where(names[place] == keys, place, -1)


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
