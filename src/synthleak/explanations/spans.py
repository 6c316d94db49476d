"""What a record and a synthetic text have in common, by place: offsets, never the words themselves.

All offsets count characters of the texts as they are, although overlap is looked for in folded text
(docs/method.md §6), where case and white space play no part.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import pairwise

import numpy as np

from synthleak.core.text import entities, tokens
from synthleak.evidence.fast.grams import GRAM
from synthleak.evidence.fast.index import inverse_frequency
from synthleak.evidence.proxies.rare_ngram import rare_limit

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Span:
    """A stretch of the record, `start` to `end`, and where it stands in the synthetic text."""

    start: int
    end: int
    other_start: int
    other_end: int
    weight: float = 1.0

    @property
    def length(self) -> int:
        """How many characters of the record it covers."""
        return self.end - self.start


@dataclass(frozen=True)
class Overlap:
    """What a record shares with one synthetic text.

    `longest` is the longest common substring; `grams` the stretches of the record whose character
    5-grams all occur; `bigrams` its rare word pairs that occur, weighted by idf; `entities` its
    numbers, identifiers and names that occur. Shares are of the record's own.
    """

    longest: Span | None
    grams: tuple[tuple[int, int], ...]
    gram_share: float
    bigrams: tuple[Span, ...]
    bigram_share: float
    entities: tuple[Span, ...]
    entity_share: float


@dataclass(frozen=True)
class Folded:
    """A text folded, with the place in the original of each of its characters."""

    text: str
    at: tuple[int, ...]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return a stretch of the folded text as one of the original.

        >>> folded("  Dr.\\n GREY").original(4, 8)
        (7, 11)
        """
        return (self.at[start], self.at[end - 1] + 1) if end > start else (0, 0)


def folded(text: str) -> Folded:
    """Fold case and white space as `synthleak.core.text.fold` does, remembering places.

    >>> folded(" A  ß ")
    Folded(text='a ss', at=(1, 2, 4, 4))
    """
    letters: list[str] = []
    places: list[int] = []
    gap: int | None = None
    for place, character in enumerate(text):
        if character.isspace():
            gap = place if gap is None else gap
            continue
        if gap is not None and letters:
            letters.append(" ")
            places.append(gap)
        gap = None
        for letter in character.casefold():
            letters.append(letter)
            places.append(place)
    return Folded("".join(letters), tuple(places))


class Lookout:
    """A record, ready to be held against the texts of one release, which say what is rare."""

    def __init__(self, text: str, release: Sequence[str]) -> None:
        self.text = text
        self._folded = folded(text)
        self._entities = sorted(set(entities(text)))
        self._rare = _rare_pairs(text, release)

    def beside(self, other: str) -> Overlap:
        """Return what the record shares with one text."""
        theirs = folded(other)
        grams, share = self._grams(theirs)
        held = set(entities(other))
        shared = [name for name in self._entities if name in held]
        found = [span for name in shared if (span := _named(name, self._folded, theirs))]
        return Overlap(
            longest=self._longest(theirs),
            grams=grams,
            gram_share=share,
            bigrams=tuple(self._bigrams(other)),
            bigram_share=self.rare_share(other),
            entities=tuple(found),
            entity_share=len(shared) / len(self._entities) if self._entities else 0.0,
        )

    def rare_share(self, other: str) -> float:
        """Return the idf-weighted share of the record's rare word pairs in a text."""
        total = sum(pair.weight for pair in self._rare)
        return sum(span.weight for span in self._bigrams(other)) / total if total else 0.0

    def entity_f1(self, other: str) -> float:
        """Return F1 on distinct numbers, identifiers and names; 0 if neither has one."""
        theirs = set(entities(other))
        shared = len(theirs.intersection(self._entities))
        return 2 * shared / max(len(theirs) + len(self._entities), 1)

    def _bigrams(self, other: str) -> list[Span]:
        return [span for pair in self._rare if (span := _pair(pair, other)) is not None]

    def _longest(self, theirs: Folded) -> Span | None:
        own = self._folded
        match = SequenceMatcher(None, own.text, theirs.text, autojunk=False).find_longest_match()
        if not match.size:
            return None
        return Span(
            *own.original(match.a, match.a + match.size),
            *theirs.original(match.b, match.b + match.size),
        )

    def _grams(self, theirs: Folded) -> tuple[tuple[tuple[int, int], ...], float]:
        """Return the stretches covered by shared 5-grams, and the share of distinct ones."""
        text = self._folded.text
        size = min(GRAM, len(text))
        own = [text[place : place + size] for place in range(len(text) - size + 1)] if size else []
        there = {theirs.text[k : k + size] for k in range(len(theirs.text) - size + 1)}
        hit = [gram in there for gram in own]
        stretches: list[tuple[int, int]] = []
        for place in (place for place, found in enumerate(hit) if found):
            if stretches and place <= stretches[-1][1]:
                stretches[-1] = (stretches[-1][0], place + size)
            else:
                stretches.append((place, place + size))
        share = len(set(own) & there) / len(set(own)) if own else 0.0
        return tuple(self._folded.original(*stretch) for stretch in stretches), share


@dataclass(frozen=True)
class _Pair:
    words: tuple[str, str] = field(repr=False)
    start: int
    end: int
    weight: float


def _rare_pairs(text: str, release: Sequence[str]) -> list[_Pair]:
    """Return the rare word pairs of a record, each once, with their idf (docs/method.md §6)."""
    words = list(_WORD.finditer(text))
    pairs = {
        (one.group().lower(), other.group().lower()): (one.start(), other.end())
        for one, other in reversed(list(pairwise(words)))
    }
    frequency: Counter[tuple[str, str]] = Counter()
    for other in release:
        frequency.update(set(pairwise(tokens(other))) & pairs.keys())
    return [
        _Pair(pair, *place, float(inverse_frequency(len(release), np.array(frequency[pair]))))
        for pair, place in sorted(pairs.items(), key=lambda item: item[1])
        if frequency[pair] <= rare_limit(len(release))
    ]


def _pair(pair: _Pair, other: str) -> Span | None:
    for one, following in pairwise(_WORD.finditer(other)):
        if (one.group().lower(), following.group().lower()) == pair.words:
            return Span(pair.start, pair.end, one.start(), following.end(), pair.weight)
    return None


def _named(name: str, own: Folded, theirs: Folded) -> Span | None:
    """Return where an entity stands in both texts, as a word of its own where it can be."""
    places: list[int] = []
    for text in (own, theirs):
        match = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text.text)
        start = match.start() if match else text.text.find(name)
        if start < 0:
            return None
        places += text.original(start, start + len(name))
    return Span(*places)
