"""The figures that describe a corpus: the study's table of corpora, for any corpus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.corpus.corpus import Corpus, Labels
from synthleak.encoders.builtin.static import count_tokens

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
