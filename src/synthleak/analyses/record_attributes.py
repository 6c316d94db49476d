"""Five attributes of a record, computed from the record and its pool before any release.

A data holder can know them without an audit (docs/method.md §10). The candidates C and the
auxiliary records R are those of the pool, and hold none of its targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from synthleak.analyses.cell_data import AttributeRow
from synthleak.core.text import entities, tokens
from synthleak.corpus.corpus import Corpus
from synthleak.encoders.encoder import Vectors
from synthleak.evidence.fast.ragged import Ints, Ragged
from synthleak.evidence.fast.words import number
from synthleak.evidence.observation import Floats
from synthleak.evidence.persons import starts_of
from synthleak.pools.pool import Pool

ATTRIBUTES_VERSION = 2
RARE_QUANTILE = 0.1


def record_attributes(
    corpus: Corpus, pool: Pool, vectors: Callable[[], Vectors]
) -> list[AttributeRow]:
    """Return the attributes of every target of a pool; `vectors` are those of `all_records`.

    Those of a person are the means over the person's records.

    Vectors are scaled to length 1, as the pool rule `outlier` scales them: an outlier by the rule
    is an outlier by the attribute.
    """
    made = _unit(vectors().astype(np.float64))
    words = [tokens(corpus.all_records[position].text) for position in pool.asked]
    known = [tokens(corpus.records[p].text) for p in (*pool.candidates, *pool.auxiliary)]
    targets = made[list(pool.asked)]
    columns: tuple[Sequence[float] | Floats, ...] = (
        [len(row) for row in words],
        np.linalg.norm(targets - made[: len(corpus)].mean(axis=0), axis=1),
        nearest_cosine(targets, made[list(pool.candidates)]),
        rare_bigram_density(words, known),
        [
            len(entities(corpus.all_records[position].text)) / max(len(row), 1)
            for position, row in zip(pool.asked, words, strict=True)
        ],
    )
    names = [corpus.all_records[position].id for position in pool.targets]
    if pool.persons is not None:
        names = [corpus.person_names[position] for position in pool.targets]
        starts = starts_of(pool.sizes)
        columns = tuple(np.add.reduceat(column, starts) / pool.sizes for column in columns)
    return [
        AttributeRow(corpus.name, pool.name, name, *map(float, values))
        for name, *values in zip(names, *columns, strict=True)
    ]


def nearest_cosine(rows: Floats, others: Floats) -> Floats:
    """Return the largest cosine of each row to any other record."""
    largest: Floats = (_unit(rows) @ _unit(others).T).max(axis=1)
    return largest


def _unit(vectors: Floats) -> Floats:
    scaled: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return scaled


def rare_bigram_density(texts: Sequence[Sequence[str]], known: Sequence[Sequence[str]]) -> Floats:
    """Return the share of each text's word bigrams that are rare among the `known` texts.

    Rare is a document frequency at or below the 10th percentile, every occurrence of a bigram
    counting once; a bigram that no known text has is rare. A text without bigrams has none rare.

    >>> known = [["a", "b"]] * 9 + [["b", "c"]]
    >>> rare_bigram_density([["a", "b", "c"], ["c", "a"], ["a"]], known).tolist()
    [0.5, 1.0, 0.0]
    """
    rows, size = number([*known, *texts], {})
    keys, owners = _bigrams(rows, size)
    background = owners < len(known)
    names, place = np.unique(keys, return_inverse=True)
    pairs = np.unique(owners[background] * len(names) + place[background])
    frequency = np.bincount(pairs % max(len(names), 1), minlength=len(names))
    own = owners[~background] - len(known)
    limit = _occurrence_quantile(frequency[place[background]])
    rare = np.bincount(own, frequency[place[~background]] <= limit, minlength=len(texts))
    return np.asarray(rare / np.maximum(np.bincount(own, minlength=len(texts)), 1))


def _bigrams(rows: Ragged, size: int) -> tuple[Ints, Ints]:
    """Return every pair of neighbouring words as one number, and the row that it is in."""
    owners = rows.owners
    inside = np.flatnonzero(owners[:-1] == owners[1:])
    return rows.values[inside] * size + rows.values[inside + 1], owners[inside]


def _occurrence_quantile(frequencies: Ints) -> int:
    """Return the document frequency that a tenth of all occurrences do not exceed."""
    if not len(frequencies):
        return 0
    place = max(0, int(np.ceil(RARE_QUANTILE * len(frequencies))) - 1)
    return int(np.partition(frequencies, place)[place])
