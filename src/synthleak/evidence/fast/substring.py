"""Longest common substring of every target and its candidates, exactly.

The grams of a target that occur in a candidate form runs, and every common substring lies within a
run. Often the longest run is itself a common substring; one search of the candidate tells. If it is
not, grams of twice the length leave shorter runs, until there are none; then the last runs are
searched character by character.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from synthleak.evidence.fast.grams import GRAM, target_grams, text_grams
from synthleak.evidence.fast.overlap import Hits, gram_hits
from synthleak.evidence.fast.ragged import Ints, Ragged, found
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.observation import Floats, Observation, Targets


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


def runs_of(hits: Hits, size: int) -> Runs:
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
    candidates_of = retrieve(targets, observation)
    rows, folded = candidates_of.places, candidates_of.texts.folded
    fives = gram_hits(targets, observation)
    own, texts = target_grams(targets).of_targets, text_grams(targets, candidates_of.texts)
    pieces = Pieces()

    def runs(target: int, size: int, named: Ragged, places: Sequence[int]) -> Runs:
        grams = own[size][target]
        hits = (
            fives[target]
            if size == GRAM
            else found(grams.names, named, rows[target, np.asarray(places)])
        )
        return runs_of(hits[:, grams.at], size)

    lengths = [
        _settle(
            targets.folded[target],
            [folded[row] for row in candidates],
            (partial(runs, target, size, named) for size, named in texts),
            pieces,
        )
        for target, candidates in enumerate(rows.tolist())
    ]
    return np.array(lengths, dtype=np.float64).reshape(rows.shape)


def _settle(
    text: str,
    others: Sequence[str],
    levels: Iterable[Callable[[Sequence[int]], Runs]],
    pieces: Pieces,
) -> list[int]:
    """Return the length of the longest common substring of a text with each of the others.

    A level gives the runs for those others whose length is not known yet.
    """
    lengths = [0] * len(others)
    last: dict[int, tuple[Runs, int]] = {}
    waiting = list(range(len(others)))
    for level in levels:
        runs, still = level(waiting), []
        for row, (place, (begin, end)) in enumerate(zip(waiting, runs.longest(), strict=True)):
            if begin == end:
                continue
            last[place] = runs, row
            if text[begin:end] in others[place]:
                lengths[place] = min(end, len(text)) - begin
            else:
                still.append(place)
        waiting = still
        if not waiting:
            break
    for place, other in enumerate(others):
        if not lengths[place] and place in last:
            runs, row = last[place]
            lengths[place] = runs.walk(row, text, other)
        elif not lengths[place]:
            lengths[place] = pieces.longest(text, other)
    return lengths


def _walk(text: str, other: str, begin: int, end: int, longest: int) -> int:
    """Return the length of the longest substring of `other` in `text[begin:end]`, or `longest`."""
    while end - begin > longest:
        if text[begin : begin + longest + 1] in other:
            longest += 1
        else:
            begin += 1
    return longest


class Pieces:
    """Sets of pieces of up to 4 characters, for texts that have no 5-gram in common."""

    def __init__(self) -> None:
        self._sets: dict[tuple[str, int], set[str]] = {}

    def of(self, text: str, size: int) -> set[str]:
        """Return the pieces of a text."""
        if (text, size) not in self._sets:
            ends = range(size, len(text) + 1)
            self._sets[text, size] = {text[end - size : end] for end in ends}
        return self._sets[text, size]

    def longest(self, text: str, other: str) -> int:
        """Return the size of the longest piece that both have."""
        sizes = range(GRAM - 1, 0, -1)
        return next((n for n in sizes if not self.of(text, n).isdisjoint(self.of(other, n))), 0)
