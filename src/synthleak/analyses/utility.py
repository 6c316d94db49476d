"""How useful releases are: privacy without utility is worth little.

The test set are real records that were in no training set of the release. Every measure of a
release stands beside the same measure of its private set, measured as if it were the release: what
a perfect release would reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.core.cell import Cell, CellColumns
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

    `score`: accuracy, on real records, of a bag-of-words classifier trained on the set.
    `label_accuracy`: accuracy, on the set, of one trained on real records. A prediction is right if
    it is one of the record's labels. `words`: mean length. `distinct_1` and `distinct_2`: different
    words and pairs of words per occurrence. `different`: share of texts that are not repetitions.
    `frontier`: see the function `frontier`.
    """

    score: float | None
    label_accuracy: float | None
    words: float
    distinct_1: float | None
    distinct_2: float | None
    different: float
    frontier: float | None


@dataclass(frozen=True)
class UtilityRow(CellColumns):
    """A row of `utility.csv`: means over some releases of a cell, and over their private sets."""

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
    pairs = [list(pairwise(row)) for row in words]
    texts = [text for text, _ in sample]
    return Measures(
        score=top_label_accuracy(sample, test),
        label_accuracy=top_label_accuracy(test, sample),
        words=float(np.mean([len(row) for row in words])) if words else 0.0,
        distinct_1=_distinct(words),
        distinct_2=_distinct(pairs),
        different=len({fold(text) for text in texts}) / max(len(texts), 1),
        frontier=frontier(encode(texts), encode([text for text, _ in test])),
    )


def _distinct(texts: Sequence[Sequence[Any]]) -> float | None:
    every = [part for text in texts for part in text]
    return len(set(every)) / len(every) if every else None


def top_label_accuracy(train: Sequence[Labelled], test: Sequence[Labelled]) -> float | None:
    """Return the share of `test` for which a model of `train` predicts one of the record's labels.

    The model is naive Bayes on counts of words. A training record counts once for each label.

    >>> train = [("good fine", ("up",)), ("bad poor", ("down",))]
    >>> top_label_accuracy(train, [("fine day", ("up",)), ("poor day", ("down", "sad"))])
    1.0
    """
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.naive_bayes import MultinomialNB

    known = [(text, label) for text, labels in train for label in labels]
    labelled = [(text, labels) for text, labels in test if labels]
    if not known or not labelled:
        return None
    counter = CountVectorizer(analyzer=tokens)
    try:
        table = counter.fit_transform([text for text, _ in known])
    except ValueError:  # no text has a word
        return None
    model = MultinomialNB(alpha=0.1).fit(table, [label for _, label in known])
    predicted = model.predict(counter.transform([text for text, _ in labelled]))
    return float(np.mean([p in labels for p, (_, labels) in zip(predicted, labelled, strict=True)]))


def frontier(sample: Vectors, real: Vectors) -> float | None:
    """Return how similar two sets of vectors are: 1 for equal distributions, 0 for disjoint ones.

    It is the area under a divergence frontier, as in MAUVE, but simplified: clusters of about 20
    vectors (k-means on both sets together), counts plus one half, 25 mixtures. Compare it with its
    value for real records, not with published MAUVE scores.
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
    x, y = [1.0], [0.0]
    for share in np.linspace(0.02, 0.98, 25):
        mixed = share * p + (1 - share) * q
        x.append(float(np.exp(-_STEEP * (q * np.log(q / mixed)).sum())))
        y.append(float(np.exp(-_STEEP * (p * np.log(p / mixed)).sum())))
    across, up = np.array([*x, 0.0]), np.array([*y, 1.0])
    order = np.lexsort((-up, across))
    across, up = across[order], up[order]
    return float((np.diff(across) * (up[1:] + up[:-1]) / 2).sum())


def utility_row(cell: Cell, releases: Sequence[Measures], real: Sequence[Measures]) -> UtilityRow:
    """Average the measures of some releases of a cell, and those of their private sets."""
    columns: dict[str, Any] = {}
    for field in fields(Measures):
        for column, sets in ((field.name, releases), (f"{field.name}_real", real)):
            measured = [getattr(measures, field.name) for measures in sets]
            known = [value for value in measured if value is not None]
            columns[column] = float(np.mean(known)) if known else None
    return UtilityRow(**cell.columns, releases=len(releases), **columns)
