"""What releases are good for: privacy without utility is empty.

A release is measured by what it is there for. Real records that were in no training set of it are
the test. Every figure of a release has its twin: the same figure of the private set itself,
measured as if it were the release, which is what a perfect release would reach.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.core.cell import Cell
from synthleak.core.text import fold, tokens
from synthleak.corpus.corpus import Labels
from synthleak.encoders.encoder import Vectors

UTILITY_VERSION = 1
RELEASES = 5
"""How many releases of a cell are measured: the first of the plan, whatever their coins."""

MOST_TESTS = 500
"""Real records that a release is tested on, at most."""

_STEEP = 5.0
_CLUSTER = 20
_MOST_CLUSTERS = 50

Labelled = tuple[str, Labels]
Encode = Callable[[Sequence[str]], Vectors]


@dataclass(frozen=True)
class Measures:
    """One set of records against real ones; None where there are no labels, or too few records.

    `score`: a bag-of-words classifier trained on the set; share of real records whose likeliest
    label is one of theirs. `label_accuracy`: the other way round, trained on real records, share of
    the set's records whose likeliest label is one of theirs. `words`: mean length. `distinct_1` and
    `distinct_2`: different words and pairs of words per occurrence. `different`: share of texts
    that are not repetitions. `frontier`: see `frontier`.
    """

    score: float | None
    label_accuracy: float | None
    words: float
    distinct_1: float | None
    distinct_2: float | None
    different: float
    frontier: float | None

    def to_bytes(self) -> bytes:
        """Write the measures for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Measures:
        """Read measures from the store."""
        return cls(**json.loads(data))


@dataclass(frozen=True)
class UtilityRow:
    """A row of `utility.csv`: means over some releases of a cell, and over their private sets."""

    corpus: str
    pool: str
    generator: str
    epsilon: float
    releases: int
    score: float | None
    score_real: float | None
    label_accuracy: float | None
    label_accuracy_real: float | None
    words: float | None
    words_real: float | None
    distinct_1: float | None
    distinct_1_real: float | None
    distinct_2: float | None
    distinct_2_real: float | None
    different: float | None
    different_real: float | None
    frontier: float | None
    frontier_real: float | None


def measure(sample: Sequence[Labelled], test: Sequence[Labelled], encode: Encode) -> Measures:
    """Measure a set of records against real ones that it was not made from."""
    words = [tokens(text) for text, _ in sample]
    pairs = [list(pairwise(own)) for own in words]
    texts = [text for text, _ in sample]
    return Measures(
        score=top_label_accuracy(sample, test),
        label_accuracy=top_label_accuracy(test, sample),
        words=float(np.mean([len(own) for own in words])) if words else 0.0,
        distinct_1=_distinct(words),
        distinct_2=_distinct(pairs),
        different=len({fold(text) for text in texts}) / max(len(texts), 1),
        frontier=frontier(encode(texts), encode([text for text, _ in test])),
    )


def _distinct(texts: Sequence[Sequence[Any]]) -> float | None:
    every = [part for text in texts for part in text]
    return len(set(every)) / len(every) if every else None


def top_label_accuracy(train: Sequence[Labelled], test: Sequence[Labelled]) -> float | None:
    """Return the share of `test` whose likeliest label, by a model of `train`, is one of theirs.

    The model is naive Bayes on counts of words. A record with several labels counts once for each.

    >>> train = [("good fine", ("up",)), ("bad poor", ("down",))]
    >>> top_label_accuracy(train, [("fine day", ("up",)), ("poor day", ("down", "sad"))])
    1.0
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    known = [(text, label) for text, labels in train for label in labels]
    asked = [(text, labels) for text, labels in test if labels]
    if not known or not asked:
        return None
    counter = CountVectorizer(analyzer=tokens)
    try:
        table = counter.fit_transform([text for text, _ in known])
    except ValueError:  # no text has a word
        return None
    model = MultinomialNB(alpha=0.1).fit(table, [label for _, label in known])
    said = model.predict(counter.transform([text for text, _ in asked]))
    return float(np.mean([s in labels for s, (_, labels) in zip(said, asked, strict=True)]))


def frontier(sample: Vectors, real: Vectors) -> float | None:
    """Return how near two sets of vectors are: 1 for the same distribution, 0 for none in common.

    The area under the divergence frontier that MAUVE is known for, in a small form of our own:
    clusters of about 20 vectors (k-means on both sets together), counts plus one half, mixtures at
    25 places. Compare it with its twin for real records, not with published MAUVE figures.
    """
    if min(len(sample), len(real)) < 2 * _CLUSTER:
        return None
    from sklearn.cluster import KMeans

    rows = min(len(sample), len(real))
    both = np.concatenate([sample[:rows], real[:rows]]).astype(np.float64)
    clusters = min(_MOST_CLUSTERS, 2 * rows // _CLUSTER)
    kinds = KMeans(clusters, n_init=1, random_state=0, max_iter=30).fit_predict(both)
    p, q = (np.bincount(part, minlength=clusters) + 0.5 for part in (kinds[:rows], kinds[rows:]))
    return frontier_area(p / p.sum(), q / q.sum())


def frontier_area(p: NDArray[np.float64], q: NDArray[np.float64]) -> float:
    """Return the area under exp(-c KL) of both against their mixtures.

    >>> half = np.array([0.5, 0.5])
    >>> round(frontier_area(half, half), 6)
    1.0
    """
    places = np.linspace(0.02, 0.98, 25)
    x, y = [1.0], [0.0]
    for share in places:
        mixed = share * p + (1 - share) * q
        x.append(float(np.exp(-_STEEP * (q * np.log(q / mixed)).sum())))
        y.append(float(np.exp(-_STEEP * (p * np.log(p / mixed)).sum())))
    x.append(0.0)
    y.append(1.0)
    order = np.lexsort((-np.array(y), np.array(x)))
    across, up = np.array(x)[order], np.array(y)[order]
    return float((np.diff(across) * (up[1:] + up[:-1]) / 2).sum())


def utility_row(cell: Cell, made: Sequence[Measures], real: Sequence[Measures]) -> UtilityRow:
    """Average the measures of some releases of a cell, and those of their private sets."""
    columns: dict[str, Any] = {}
    for column in fields(Measures):
        columns[column.name] = _mean([getattr(one, column.name) for one in made])
        columns[f"{column.name}_real"] = _mean([getattr(one, column.name) for one in real])
    return UtilityRow(
        **asdict(cell),
        releases=len(made),
        **columns,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
