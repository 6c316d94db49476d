"""`canary`: records that nobody wrote, as unlikely as an audit can make them (docs/method.md §13).

Their design is that of Canary's Echo: an ordinary beginning, which a generator continues, and an
unlikely end, which it can only know from a canary that was in. Other kinds also have a mark that a
tokenizer, a vocabulary, a limit of lengths or a set of classes may take up beside the mechanism.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import inf
from statistics import median_low
from string import ascii_lowercase
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BeforeValidator, Field

from synthleak.core.errors import PoolError
from synthleak.core.text import char_grams, fold, tokens
from synthleak.core.validation import listed
from synthleak.corpus.corpus import Labels, Record
from synthleak.pools.selection import Material, Writer, rules

NEAR = 0.3
"""Jaccard of character 5-grams from which a canary resembles a record."""
RAREST = 0.1
"""Of the vocabulary, how much counts as unlikely."""
FLOOR = 0.01
"""Chance that labels come from all combinations alike, as in the public prior (docs/method.md
§5)."""
SIGNS = tuple(map(chr, range(0x3400, 0x4DB6)))
"""Han characters of extension A: seldom used, unchanged by folding, each of three bytes."""
REPEATED = 25
"""How often an unknown word is repeated: after 20 times it was seldom a token of its own."""
LETTERS = 8
LONG = 4
"""How many times as long as the longest record a long canary is."""
Kind = Literal["text", "character", "word", "long", "label"]


@rules.register("canary", version=1)
class Canary(Writer):
    """Records written for the test: an ordinary beginning, unlikely words at the end, a mark."""

    kinds: Annotated[tuple[Kind, ...], BeforeValidator(listed)] = Field(
        default=("text",),
        min_length=1,
        validation_alias=AliasChoices("kind", "kinds"),
        description="text, character, word, long, label, or several that take turns",
    )
    prefix: float = Field(default=0.6, ge=0, le=1, description="share of words that are ordinary")
    words: int | None = Field(
        default=None,
        ge=2,
        le=1000,
        description="words of a canary; the median of the auxiliary records if not set",
    )

    def identity(self) -> dict[str, Any]:
        """Leave out the kind of plain canaries, whose keys are older."""
        settings = super().identity()
        if not self.marked:
            del settings["kinds"]
        return settings

    @property
    def marked(self) -> bool:
        """Whether some canaries have a mark."""
        return set(self.kinds) != {"text"}

    @property
    def looked_for_by(self) -> tuple[str, ...]:
        return ("marker",) if self.marked else ()

    def write(self, material: Material) -> Sequence[tuple[str, Labels]]:
        """Write the canaries from R: none resembles a record outside R, no two share an end."""
        texts = _words_of(material.auxiliary)
        ordinary, unlikely = self._lengths(texts)
        ends = self._ends(texts, material, unlikely)
        beginnings = self._beginnings(texts, material, ordinary)
        apart = _Apart(material.others)
        kinds = [self.kinds[number % len(self.kinds)] for number in range(self.size)]
        marks = _Marks(material, texts) if self.marked else None
        canaries = [
            self._next(beginnings, [*(marks.words(kind) if marks else ()), *end], apart)
            for kind, end in zip(kinds, ends, strict=True)
        ]
        labels = [_labels(material) for _ in canaries]
        if marks is not None:
            labels = [
                marks.label() if kind == "label" else drawn
                for kind, drawn in zip(kinds, labels, strict=True)
            ]
        return list(zip(canaries, labels, strict=True))

    def most(self, auxiliary: Sequence[Record]) -> float:
        """Return for how many canaries the auxiliary records have unlikely words."""
        texts = _words_of(auxiliary)
        _, unlikely = self._lengths(texts)
        return len(_vocabulary(texts)) // 2 // unlikely if unlikely else inf

    def _lengths(self, texts: Sequence[Sequence[str]]) -> tuple[int, int]:
        """Return how many words of a canary are ordinary, and how many unlikely."""
        length = self.words or median_low(len(words) for words in texts)
        ordinary = min(round(self.prefix * length), length)
        return ordinary, length - ordinary

    def _ends(
        self, texts: Sequence[Sequence[str]], material: Material, length: int
    ) -> list[list[str]]:
        """Draw unlikely words, none twice: from the rarest tenth, or more where it is too small."""
        if length == 0:
            return [[] for _ in range(self.size)]
        counts = _vocabulary(texts)
        vocabulary = sorted(counts)
        shuffled = [vocabulary[n] for n in material.rng.permutation(len(vocabulary)).tolist()]
        rarest = sorted(shuffled, key=counts.__getitem__)  # a draw decides between equal ones
        needed = self.size * length
        if needed > len(rarest) // 2:
            raise PoolError(
                f"{self.size} canaries with {length} unlikely words each need {needed:,} different"
                f" words, and half of the auxiliary records' vocabulary is {len(rarest) // 2:,}",
                remedy=f"use size = {len(rarest) // 2 // length:,} or less, fewer words, or a"
                " larger prefix",
            )
        unlikely = rarest[: max(needed, round(RAREST * len(rarest)))]
        order = material.rng.permutation(len(unlikely))[:needed].tolist()
        drawn = [unlikely[number] for number in order]
        return [drawn[start : start + length] for start in range(0, needed, length)]

    def _beginnings(
        self, texts: Sequence[Sequence[str]], material: Material, length: int
    ) -> Iterator[list[str]]:
        """Yield the first words of records of R, each record once, in a random order."""
        for number in material.rng.permutation(len(texts)).tolist():
            if len(texts[number]) >= length:
                yield list(texts[number][:length])

    def _next(self, beginnings: Iterator[list[str]], end: Sequence[str], apart: _Apart) -> str:
        """Return the first text that resembles no record and no earlier canary."""
        for beginning in beginnings:
            text = " ".join([*beginning, *end])
            if apart.takes(text):
                return text
        raise PoolError(
            f"too few auxiliary records for {self.size} canaries that resemble no other record",
            remedy="use a smaller size, a smaller prefix, or set words",
        )


def _words_of(records: Sequence[Record]) -> list[list[str]]:
    return [record.text.split() for record in records]


def _vocabulary(texts: Sequence[Sequence[str]]) -> Counter[str]:
    """Count the words that have a letter."""
    seen = (word for words in texts for word in tokens(" ".join(words)))
    return Counter(word for word in seen if any(map(str.isalpha, word)))


class _Marks:
    """What no record of the corpus has: signs, words, lengths and classes, each given once."""

    def __init__(self, material: Material, texts: Sequence[Sequence[str]]) -> None:
        records = material.corpus.records
        self._rng, self._texts = material.rng, texts
        self._all = "\n".join(
            fold(part) for record in records for part in (record.text, *record.labels)
        )
        self._longest = max(len(record.text.split()) for record in records)
        self._labelled = any(record.labels for record in records)
        drawn: list[int] = self._rng.permutation(len(SIGNS)).tolist()
        self._signs = [SIGNS[n] for n in drawn]
        letters = fold("".join(word for words in texts for word in words))
        self._letters = [letter for letter in letters if letter.isalpha()] or [*ascii_lowercase]
        self._drawn: set[str] = set()

    def words(self, kind: Kind) -> list[str]:
        """Return the words that mark a canary of this kind; they follow its beginning."""
        if kind == "character":
            return [self._sign()]
        if kind == "word":
            return [self._word()] * REPEATED
        if kind == "long":
            known = [word for words in self._texts for word in words]
            self._longest += 1  # so that the longest of those in a set tells itself from the others
            return [known[n] for n in self._rng.integers(len(known), size=LONG * self._longest)]
        assert kind in ("text", "label"), kind  # a label is no word
        return []

    def label(self) -> Labels:
        if not self._labelled:
            raise PoolError(
                "no record has a label, so that no canary can have a class of its own",
                remedy="leave out the kind label, or name the field of the labels",
            )
        return (self._word(),)

    def _sign(self) -> str:
        while self._signs:
            if (sign := self._signs.pop()) not in self._all:
                return sign
        raise PoolError(
            f"{len(SIGNS):,} signs are known, and too few of them are in no record",
            remedy="write fewer canaries of the kind character",
        )

    def _word(self) -> str:
        """Draw letters as often as R has them, until they are a word that no record holds."""
        while True:
            drawn = self._rng.integers(len(self._letters), size=LETTERS).tolist()
            word = "".join(self._letters[n] for n in drawn)
            if word not in self._drawn and word not in self._all:
                self._drawn.add(word)
                return word


class _Apart:
    """Records that a canary must not resemble, and the canaries that were taken so far."""

    def __init__(self, records: Sequence[Record]) -> None:
        self._grams = [char_grams(record.text) for record in records]
        self._taken: set[str] = set()

    def takes(self, text: str) -> bool:
        """Say whether a text is apart from all, and remember it if it is."""
        grams = char_grams(text)
        if fold(text) in self._taken or any(_near(grams, other) for other in self._grams):
            return False
        self._taken.add(fold(text))
        return True


def _near(one: set[str], two: set[str]) -> bool:
    """Say whether the Jaccard index reaches NEAR; sizes alone often say that it cannot."""
    if min(len(one), len(two)) < NEAR * max(len(one), len(two)):
        return False
    shared = len(one & two)
    return shared >= NEAR * (len(one) + len(two) - shared)


def _labels(material: Material) -> Labels:
    """Draw labels from the public prior: those of a record of R, now and then any."""
    if material.rng.random() < FLOOR:
        known = sorted(material.corpus.combinations)
        return known[int(material.rng.integers(len(known)))]
    return material.auxiliary[int(material.rng.integers(len(material.auxiliary)))].labels
