"""What describes a corpus: its figures, whether it looks English, and near-duplicates."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.text import tokens
from synthleak.corpus.corpus import Corpus, Labels
from synthleak.encoders.builtin.static import count_tokens
from synthleak.encoders.encoder import Vectors, at_unit_length

TOKENIZER = "tokenizer of the encoder static (WordLlama)"
_BANDS = ((1, 1), (2, 3), (4, 10), (11, 100), (101, None))


@dataclass(frozen=True)
class Statistics:
    """What a corpus holds, in numbers."""

    records: int
    duplicates_dropped: int
    groups: int
    records_in_largest_group: int
    labels: int
    combinations: int
    labels_per_record_mean: float
    labels_per_record_max: int
    words_mean: float
    words_median: float
    tokens_median: float
    tokens_p95: float
    tokens_max: int


def statistics_of(corpus: Corpus) -> Statistics:
    """Count records, labels, words and tokens; words are what white space parts."""
    texts = [record.text for record in corpus.records]
    groups = Counter(record.group for record in corpus.records if record.group is not None)
    cardinality = [len(record.labels) for record in corpus.records]
    words = [len(text.split()) for text in texts]
    tokens = count_tokens(texts)
    return Statistics(
        records=len(corpus),
        duplicates_dropped=corpus.duplicates,
        groups=len(groups),
        records_in_largest_group=max(groups.values(), default=0),
        labels=len(corpus.label_names),
        combinations=len(corpus.combinations),
        labels_per_record_mean=float(np.mean(cardinality)),
        labels_per_record_max=max(cardinality),
        words_mean=float(np.mean(words)),
        words_median=float(np.median(words)),
        tokens_median=float(np.median(tokens)),
        tokens_p95=float(np.percentile(tokens, 95)),
        tokens_max=int(tokens.max()),
    )


@dataclass(frozen=True)
class Combination:
    """A label combination and how often it is seen."""

    labels: Labels
    records: int


@dataclass(frozen=True)
class Band:
    """All label combinations that are seen about equally often."""

    seen: str
    combinations: int
    records: int


def ranked_combinations(corpus: Corpus) -> list[Combination]:
    """Return every label combination, the most frequent first, ties in alphabetic order."""
    pairs = sorted(corpus.combinations.items(), key=lambda pair: (-pair[1], pair[0]))
    return [Combination(labels, count) for labels, count in pairs]


def frequency_bands(combinations: Sequence[Combination]) -> list[Band]:
    """Return how many combinations are rare and how many records carry them.

    >>> bands = frequency_bands([Combination(("a",), 12), Combination(("b",), 1)])
    >>> [(band.seen, band.records) for band in bands]
    [('once', 1), ('2 to 3 times', 0), ('4 to 10 times', 0), ('11 to 100 times', 12), ('more', 0)]
    """
    bands = []
    for low, high in _BANDS:
        counts = [c.records for c in combinations if low <= c.records <= (high or c.records)]
        seen = "once" if high == 1 else f"{low} to {high} times" if high else "more"
        bands.append(Band(seen, len(counts), sum(counts)))
    return bands


LITTLE_WORDS = frozenset(
    tokens(
        "the and of to for from with is are was were be been it its this that these those i you"
        " she we they my your his her our their him us them not does did have has had will would"
        " can could there what which who when if than then but or an"
    )
)
FEWEST = 0.1
"""Share of little words below which a text hardly is English; news has 0.27, chats have 0.34."""
MOST_FOREIGN = 0.2
SAMPLE = 2000


def looks_foreign(texts: Sequence[str]) -> str | None:
    """Say in what way texts do not look English, or None; the first 2,000 are looked at.

    >>> looks_foreign(["Der Patient nahm die Tabletten am Morgen und schlief danach."])
    '0% of words are common English ones'
    >>> looks_foreign(["The patient took it in the morning and slept."]) is None
    True
    """
    sample = texts[:SAMPLE]
    letters = [mark for text in sample for mark in text if mark.isalpha()]
    if not letters:
        return None
    foreign = sum(not _latin(mark) for mark in letters) / len(letters)
    if foreign > MOST_FOREIGN:
        return f"{foreign:.0%} of letters are not Latin"
    words = [word for text in sample for word in tokens(text) if word.isalpha()]
    share = sum(word in LITTLE_WORDS for word in words) / max(len(words), 1)
    return f"{share:.0%} of words are common English ones" if share < FEWEST else None


def _latin(mark: str) -> bool:
    return mark < "\u0250" or unicodedata.name(mark, "").startswith("LATIN")


THRESHOLD = 0.95
_TALL, _WIDE = 1024, 8192


def near_duplicates(vectors: Vectors, threshold: float = THRESHOLD) -> NDArray[np.bool_]:
    """Say of each record whether another has a cosine of at least `threshold` to it.

    A target with a near-duplicate among the candidates has a twin in every world, so that its
    absence can hardly be seen. Worked tile by tile: memory does not grow with the square of the
    corpus. A zero vector is near nothing.

    >>> near_duplicates(np.array([[1, 0], [2, 0.1], [0, 1], [0, 0]], dtype=np.float32)).tolist()
    [True, True, False, False]
    """
    unit = at_unit_length(vectors)
    near = np.zeros(len(unit), dtype=bool)
    for top in range(0, len(unit), _TALL):
        rows = unit[top : top + _TALL]
        for left in range(top - top % _WIDE, len(unit), _WIDE):
            close = rows @ unit[left : left + _WIDE].T >= threshold
            here = np.arange(max(top, left), min(top + len(rows), left + close.shape[1]))
            close[here - top, here - left] = False  # a record is not its own duplicate
            near[top : top + _TALL] |= close.any(axis=1)
            near[left : left + _WIDE] |= close.any(axis=0)
    return near
