"""Disclosures: what a release says of a record and no other record says (docs/method.md §11).

A passage or an identifier is a record's own if nobody else has it: no other member, no held-out
record and no reference, the records of its group aside. Who was in plays no part in that, so what a
release has of held-out records is what chance gives. A game compares releases with and without the
record.

Texts are compared word by word, in time and memory linear in what they hold: hashes name the runs
of words, and those that are somebody's own are looked up in the release.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice

import numpy as np
from numpy.typing import NDArray

from synthleak.analyses.copies import exceeds_chance
from synthleak.core.cell import CellColumns
from synthleak.core.text import identifiers, word_spans, words
from synthleak.evidence.fast.words import ROWS, Ragged
from synthleak.evidence.observation import Floats, Ints
from synthleak.metrics.null import min_p_test

DISCLOSURES_VERSION = 2
PASSAGES = (12, 8, 5)
"""The lengths at which passages are looked for, in words, the longest first."""
LONGEST = 8
"""Words by which an identifier is looked for, at most."""
PASSAGE, NAME = "passage", "name"
RUN = 3
"""Words of the runs by which a passage is judged: phrases of habit hold few that are new."""
DISTINCTIVE = {PASSAGE: 5, "number": 6, "code": 6, "e-mail": 6, "url": 6, NAME: 2}
"""What seldom matches by chance: runs of a passage, words of a name, characters of others."""
TESTED = ("any", "distinctive", "distinctive passage", "distinctive identifier")
"""What is tested; a name is no distinctive identifier: many a name belongs to several people."""

Bools = NDArray[np.bool_]
Hashes = NDArray[np.uint64]
Codes = NDArray[np.integer]


@dataclass(frozen=True)
class DisclosureRow(CellColumns):
    """A row of `disclosures.csv`: a passage or identifier of a record, and where a release has it.

    `side` is members or holdout, and in a game `in` or `out`: whether the record was in the private
    set. `row` counts the records of `release` from 1. `length` counts the words of a passage or
    name and the characters of other identifiers; `start` and `end` say where it stands in the
    record. `held_out` counts held-out records of whom the release has something of this kind as
    distinctive, which chance gives. `p_value` and `q_value` are those of a member, over all kinds.
    """

    side: str
    record: str
    release: str
    row: int
    kind: str
    length: int
    start: int
    end: int
    held_out: int
    p_value: float | None = None
    q_value: float | None = None
    person: str = ""


@dataclass(frozen=True)
class Disclosure:
    """A passage or identifier of one record, and the first row of a release that has it.

    `target` is the place of the record among all records of the targets; in a game `release` is
    the place of the set, and `joined` says whether that held the record. `strength` is 1 for what
    just is distinctive for its kind: it counts the own runs of `RUN` words of a passage and the
    passage itself, the words of a name, and the characters of other identifiers.
    """

    target: int
    row: int
    kind: str
    length: int
    start: int
    end: int
    strength: float
    release: int = 0
    joined: bool = True


@dataclass(frozen=True)
class Disclosures:
    """What is disclosed by a release, or by those of a game.

    Of `inside` targets (members, or in a game those that were in some release) and of `outside`
    others (held out, or out of some) something is disclosed of the numbers in `counts`, each of
    `TESTED`. `p` is the chance of such a surplus, and `deciding` has the largest; p is None where
    there can be no verdict. `rates` are p and q of members of a check, by target.
    """

    found: tuple[Disclosure, ...]
    inside: int
    outside: int
    counts: dict[str, tuple[int, int]]
    p: float | None
    deciding: str
    rates: dict[int, tuple[float, float]]

    @property
    def exceed(self) -> bool:
        return exceeds_chance(self.p)

    @property
    def disclosed(self) -> int:
        """How many targets are concerned where they were in."""
        return self.counts["any"][0]

    @property
    def by_chance(self) -> int:
        """How many are concerned where they were not."""
        return self.counts["any"][1]


@dataclass(frozen=True)
class _Own:
    """Runs of `n` words that are somebody's own.

    `keys` are their hashes, sorted. Run i has `keys[key[i]]` and begins at word `place[i]` of all
    texts; of identifiers it is the `about[i]`-th. In names the case of letters counts (`exact`).
    """

    n: int
    exact: bool
    keys: Hashes
    key: Ints
    place: Ints
    about: Ints | None


@dataclass(frozen=True)
class _Named:
    """An identifier of a target's record: where its words begin, how many, and the characters."""

    place: int
    words: int
    kind: str
    target: int
    start: int
    end: int


class OwnWords:
    """The passages and identifiers of some texts that nobody else has, to look for in releases.

    Args:
        texts: everything that anybody has.
        owner: the number of whoever has each text.
        asked: the positions of the texts that are asked about.
    """

    def __init__(self, texts: Sequence[str], owner: Ints, asked: Sequence[int]) -> None:
        self._numbers: defaultdict[str, int] = defaultdict(count().__next__)
        self._lower: defaultdict[str, int] = defaultdict(count().__next__)
        self._folded = np.empty(0, dtype=np.int32)
        self._texts = [texts[position] for position in asked]
        self._asked = np.asarray(asked, dtype=np.int64)
        exact = self._code(texts)
        self._starts, self._codes = exact.starts, self._folded[exact.values]
        self._named = list(self._identifiers())
        place = np.array([one.place for one in self._named], dtype=np.int64)
        length = np.array([one.words for one in self._named], dtype=np.int64)
        name = np.array([one.kind == NAME for one in self._named], dtype=np.bool_)
        owners = np.repeat(owner, exact.lengths)
        inside = np.repeat(np.isin(np.arange(len(texts)), self._asked), exact.lengths)
        cased = dict(_hashes(exact.values, {*length[name].tolist()}))
        self._own: list[_Own] = []
        self._runs_before = np.zeros(len(self._codes) + 1, dtype=np.int64)
        for n, hashes in _hashes(self._codes, {RUN, *PASSAGES, *length.tolist()}):
            fits = _fits(self._starts, n)
            if n in (RUN, *PASSAGES):
                asked_at = fits[inside[fits]]
                own = _of_one_owner(hashes[fits], owners[fits])
                own_at = asked_at[_among(own, hashes[asked_at])]
                if n == RUN:
                    self._runs_before[own_at + 1] = 1
                    self._runs_before.cumsum(out=self._runs_before)
                else:
                    self._add(n, hashes, own_at)
            about = np.flatnonzero(length == n)
            if len(about):
                same = fits[_among(np.unique(hashes[place[about]]), hashes[fits])]
                own = _of_one_owner(hashes[same], owners[same])
                about = about[_among(own, hashes[place[about]])]
                self._add(n, hashes, place, about[~name[about]])
                if name[about].any():
                    self._add(n, cased[n], place, about[name[about]], exact=True)

    def _add(
        self, n: int, hashes: Hashes, place: Ints, about: Ints | None = None, exact: bool = False
    ) -> None:
        place = place if about is None else place[about]
        keys, key = np.unique(hashes[place], return_inverse=True)
        if len(keys):
            self._own.append(_Own(n, exact, keys, key, place, about))

    def _code(self, texts: Iterable[str]) -> Ragged:
        """Number the words of texts; new ones are noted with what they are in lower case."""
        flat, lengths = array("i"), array("q", [0])
        for text in texts:
            row = words(text)
            flat.extend(map(self._numbers.__getitem__, row))
            lengths.append(len(row))
        new = islice(self._numbers, len(self._folded), None)
        lower = [self._lower[word.lower().replace("’", "'")] for word in new]
        self._folded = np.append(self._folded, np.array(lower, dtype=np.int32))
        return Ragged(np.asarray(flat, dtype=np.int32), np.cumsum(lengths))

    def _identifiers(self) -> Iterator[_Named]:
        for target, (text, position) in enumerate(zip(self._texts, self._asked, strict=True)):
            found = identifiers(text)
            starts = [start for start, _ in word_spans(text)] if found else []
            for kind, start, end in found:
                first = max(bisect_right(starts, start) - 1, 0)
                length = min(bisect_left(starts, end) - first, LONGEST)
                yield _Named(int(self._starts[position]) + first, length, kind, target, start, end)

    def find(self, release: Sequence[str]) -> list[Disclosure]:
        """Return what of these texts a release has, in their order."""
        exact = self._code(release)
        first = [np.full(len(own.keys), -1) for own in self._own]
        for number, part in enumerate(exact.parts()):
            before = int(exact.starts[number * ROWS])
            for cased in (False, True):
                wanted = {own.n for own in self._own if own.exact == cased}
                codes = part.values if cased else self._folded[part.values]
                for n, hashes in _hashes(codes, wanted):
                    fits = _fits(part.starts, n)
                    for own, seen in zip(self._own, first, strict=True):
                        if (own.n, own.exact) == (n, cased):
                            key, at = _first_of(own.keys, hashes[fits])
                            new = seen[key] < 0
                            seen[key[new]] = before + fits[at[new]]
        found = {*self._found_passages(exact, first), *self._found_identifiers(exact, first)}
        return sorted(found, key=lambda one: (one.target, one.start, one.end, one.kind))

    def _found_identifiers(self, release: Ragged, first: Sequence[Ints]) -> Iterator[Disclosure]:
        for own, seen in zip(self._own, first, strict=True):
            if own.about is None:
                continue
            there = seen[own.key] >= 0
            for about, at in zip(own.about[there].tolist(), seen[own.key[there]], strict=True):
                one = self._named[about]
                length = one.words if one.kind == NAME else one.end - one.start
                row = int(np.searchsorted(release.starts, at, side="right"))
                strength = length / DISTINCTIVE[one.kind]
                yield Disclosure(one.target, row, one.kind, length, one.start, one.end, strength)

    def _found_passages(self, release: Ragged, first: Sequence[Ints]) -> Iterator[Disclosure]:
        """Yield passages, the longest ones first; none lies within another."""
        covered = np.zeros(len(self._codes) + 1, dtype=np.int64)
        said = self._folded[release.values]
        target_of = {position: target for target, position in enumerate(self._asked.tolist())}
        for n in PASSAGES:
            for own, seen in zip(self._own, first, strict=True):
                if own.about is not None or own.n != n:
                    continue
                before = np.concatenate([[0], np.cumsum(covered)])
                open_ = (before[own.place + n] - before[own.place] < n) & (seen[own.key] >= 0)
                places, end = own.place[open_].tolist(), 0
                for place, at in zip(places, seen[own.key[open_]].tolist(), strict=True):
                    if place + n <= end:
                        continue
                    position = bisect_right(self._starts, place) - 1
                    row = bisect_right(release.starts, at)
                    one = self._codes[self._starts[position] : self._starts[position + 1]]
                    other = said[release.starts[row - 1] : release.starts[row]]
                    offset = place - int(self._starts[position])
                    low, high = _widened(one, other, offset, at - int(release.starts[row - 1]), n)
                    begin, end = place - offset + low, place - offset + high
                    covered[begin:end] = 1
                    runs = self._runs_before[end - RUN + 1] - self._runs_before[begin]
                    target = target_of[position]
                    spans = word_spans(self._texts[target])
                    shown = spans[low][0], spans[high - 1][1]
                    strength = int(1 + runs) / DISTINCTIVE[PASSAGE]
                    yield Disclosure(target, row, PASSAGE, high - low, *shown, strength)


def _widened(one: Codes, other: Codes, here: int, there: int, n: int) -> tuple[int, int]:
    """Return the stretch of `one` around a run of n words that both have, as far as they agree."""
    low = min(here, there)
    differ = np.flatnonzero(one[here - low : here] != other[there - low : there])
    low = low - 1 - int(differ[-1]) if len(differ) else low
    high = min(len(one) - here, len(other) - there)
    differ = np.flatnonzero(one[here : here + high] != other[there : there + high])
    return here - low, here + (int(differ[0]) if len(differ) else high)


def _hashes(codes: Codes, sizes: set[int]) -> Iterator[tuple[int, Hashes]]:
    """Yield (n, hash of the n words from each place on) for the sizes that are wanted."""
    mixed = codes.astype(np.uint64) + np.uint64(1)
    for shift, prime in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        mixed = (mixed * np.uint64(0x9E3779B97F4A7C15)) ^ (mixed >> np.uint64(shift))
        mixed = mixed * np.uint64(prime)
    hashes = np.zeros(len(mixed) + 1, dtype=np.uint64)
    for n in range(1, max(sizes, default=0) + 1):
        hashes = hashes[:-1] * np.uint64(0xD1342543DE82EF95) + mixed[n - 1 :]
        if n in sizes:
            yield n, hashes
        if not len(hashes):
            return


def _fits(starts: Ints, n: int) -> Ints:
    """Return the places from which n words stand in one text."""
    lengths = np.maximum(np.diff(starts) - n + 1, 0)
    ends = np.cumsum(lengths)
    shifts = np.repeat(starts[:-1] - ends + lengths, lengths)
    return np.asarray(np.arange(len(shifts)) + shifts)


def _of_one_owner(hashes: Hashes, owners: Ints) -> Hashes:
    """Return the hashes, sorted, that a single owner has.

    >>> hashes = np.array([7, 5, 7, 5], dtype=np.uint64)
    >>> _of_one_owner(hashes, np.array([1, 1, 1, 2])).tolist()
    [7]
    """
    if not len(hashes):
        return hashes
    order = np.argsort(hashes, kind="stable")
    hashes, owners = hashes[order], owners[order]
    starts = np.flatnonzero(np.concatenate([[True], hashes[1:] != hashes[:-1]]))
    alone = np.minimum.reduceat(owners, starts) == np.maximum.reduceat(owners, starts)
    kept: Hashes = hashes[starts[alone]]
    return kept


def _among(keys: Hashes, hashes: Hashes) -> Bools:
    """Say which hashes are among sorted keys."""
    if not len(keys):
        return np.zeros(len(hashes), dtype=np.bool_)
    nearest: Hashes = keys[np.minimum(np.searchsorted(keys, hashes), len(keys) - 1)]
    return np.asarray(nearest == hashes)


def _first_of(keys: Hashes, hashes: Hashes) -> tuple[Ints, Ints]:
    """Return which of sorted keys occur, and where each does first."""
    at = np.flatnonzero(_among(keys, hashes))
    key, place = np.unique(np.searchsorted(keys, hashes[at]), return_index=True)
    return key, at[place]


def strengths_of(found: Iterable[Disclosure], owner: Ints, shape: tuple[int, int]) -> Floats:
    """Return `[kind, release, target]`: the largest strength of each kind, 0 where there is none.

    Args:
        found: what is disclosed.
        owner: the target of each record.
        shape: how many releases and targets there are.
    """
    kinds, strengths = [*DISTINCTIVE], np.zeros((len(DISTINCTIVE), *shape))
    for one in found:
        place = kinds.index(one.kind), one.release, owner[one.target]
        strengths[place] = max(strengths[place], one.strength)
    return strengths


def concerned(strengths: Floats) -> Bools:
    """Return who is concerned by what is tested, `[tested, release, target]`.

    Args:
        strengths: those of each kind, `[kind, release, target]`.
    """
    passage, *identifiers, _ = distinctive = strengths >= 1
    return np.stack(
        [
            (strengths > 0).any(axis=0),
            distinctive.any(axis=0),
            passage,
            np.any(identifiers, axis=0),
        ]
    )


Sides = tuple[Bools, Bools]
"""Who was in, and who was not."""


def surplus_test(flags: Bools, observed: Sides, redrawn: Iterable[Sides]) -> tuple[float, int]:
    """Return (p of the largest surplus on the one side, the number of that with the largest).

    Args:
        flags: who is concerned, `[counted, ...]`.
        observed: who was in and who was out, `[...]`.
        redrawn: the same as it might have been drawn.
    """
    some = np.flatnonzero(flags.any(axis=0).ravel())
    if not len(some):
        return 1.0, 0
    flat = flags.reshape(len(flags), -1)[:, some].astype(np.float64)

    def surplus(sides: Sides) -> Floats:
        inside, outside = (flat @ side.ravel()[some] / max(side.sum(), 1) for side in sides)
        return np.asarray(inside - outside)

    values = np.stack([surplus(observed), *(surplus(sides) for sides in redrawn)], axis=1)
    test = min_p_test(values[:, :, None])
    return (1.0, 0) if test is None else (test.p, test.statistic)


def count_targets(flags: Bools, sides: Sides) -> list[tuple[int, int]]:
    """Count the targets concerned on either side, by what is counted.

    Args:
        flags: who is concerned, `[counted, release, target]`.
        sides: who was in each set, and who was out.
    """
    inside, outside = ((flags & side).any(axis=1).sum(axis=1).tolist() for side in sides)
    return list(zip(inside, outside, strict=True))
