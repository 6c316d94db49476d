"""`canary`: records that nobody wrote, as unlikely as an audit can make them (docs/method.md §13).

Their design is that of Canary's Echo: an ordinary beginning, which a generator continues, and an
unlikely end, which it can only know from a canary that was in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median_low

from pydantic import Field

from synthleak.core.errors import PoolError
from synthleak.core.text import char_grams, fold, tokens
from synthleak.corpus.corpus import Labels, Record
from synthleak.pools.selection import Material, Writer, rules

NEAR = 0.3
"""Jaccard of character 5-grams from which a canary resembles a record."""
RAREST = 0.1
"""Of the vocabulary, how much counts as unlikely."""
FLOOR = 0.01
"""Chance that labels come from all combinations alike, as in the public prior (docs/method.md
§5)."""


@rules.register("canary", version=1)
class Canary(Writer):
    """Records written for the test: an ordinary beginning, unlikely words at the end."""

    prefix: float = Field(default=0.6, ge=0, le=1, description="share of words that are ordinary")
    words: int | None = Field(
        default=None, ge=2, le=1000, description="words of a canary; the median of R if not set"
    )

    def write(self, material: Material) -> Sequence[tuple[str, Labels]]:
        """Write the canaries from R: none resembles a record outside R, no two share an end."""
        texts = [record.text.split() for record in material.auxiliary]
        length = self.words or median_low(len(words) for words in texts)
        ordinary = min(round(self.prefix * length), length)
        ends = self._ends(texts, material, length - ordinary)
        beginnings = self._beginnings(texts, material, ordinary)
        apart = _Apart(material.others)
        canaries = [self._next(beginnings, end, apart) for end in ends]
        return [(text, _labels(material)) for text in canaries]

    def _ends(
        self, texts: Sequence[Sequence[str]], material: Material, length: int
    ) -> list[list[str]]:
        """Draw unlikely words, none twice: from the rarest tenth, or more where it is too small."""
        if length == 0:
            return [[] for _ in range(self.size)]
        seen = (word for words in texts for word in tokens(" ".join(words)))
        counts = Counter(word for word in seen if any(map(str.isalpha, word)))
        vocabulary = sorted(counts)
        shuffled = [vocabulary[n] for n in material.rng.permutation(len(vocabulary)).tolist()]
        rarest = sorted(shuffled, key=counts.__getitem__)  # a draw decides between equal ones
        needed = self.size * length
        if needed > len(rarest) // 2:
            raise PoolError(
                f"{self.size} canaries with {length} unlikely words each need {needed:,} different"
                f" words, and half of the vocabulary of R is {len(rarest) // 2:,}",
                remedy="use a smaller size, fewer words, or a larger prefix",
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
            f"R has too few records for {self.size} canaries that resemble no other record",
            remedy="use a smaller size, a smaller prefix, or set words",
        )


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
