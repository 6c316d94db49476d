"""Corpus statistics and near-duplicates, against slow and obvious counts."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.corpus import Corpus, Record, statistics
from synthleak.corpus.statistics import frequency_bands, ranked_combinations, statistics_of

RECORDS = (
    Record("1", "one two three", ("a", "b"), group="p"),
    Record("2", "one", ("a",), group="p"),
    Record("3", "one two three four five six seven", ("a",), group="q"),
    Record("4", "x y z w", ()),
)


def test_statistics_by_hand() -> None:
    found = statistics_of(Corpus("c", RECORDS, duplicates=3))
    assert (found.records, found.duplicates_dropped) == (4, 3)
    assert (found.groups, found.records_in_largest_group) == (2, 2)
    assert (found.labels, found.combinations) == (2, 3)
    assert (found.labels_per_record_mean, found.labels_per_record_max) == (1.0, 2)
    assert (found.words_mean, found.words_median) == (3.75, 3.5)
    assert found.tokens_max >= 7  # no word is less than a token


def test_combinations_are_ranked_and_banded() -> None:
    ranked = ranked_combinations(Corpus("c", RECORDS))
    assert [(c.labels, c.records) for c in ranked] == [(("a",), 2), ((), 1), (("a", "b"), 1)]
    bands = frequency_bands(ranked)
    assert sum(band.records for band in bands) == 4
    assert [(b.combinations, b.records) for b in bands[:2]] == [(2, 2), (1, 2)]


@pytest.mark.parametrize("tall", [3, 7, 1024])
def test_near_duplicates_by_a_double_loop(monkeypatch: pytest.MonkeyPatch, tall: int) -> None:
    monkeypatch.setattr(statistics, "_TALL", tall)
    monkeypatch.setattr(statistics, "_WIDE", 5)
    rng = np.random.default_rng(1)
    vectors = rng.normal(size=(41, 4)).astype(np.float32)
    vectors[7] = 0
    vectors[30] = 2 * vectors[3]
    expected = []
    for i, one in enumerate(vectors):
        cosines = [
            one @ two / (np.linalg.norm(one) * np.linalg.norm(two))
            for j, two in enumerate(vectors)
            if i != j and np.linalg.norm(one) * np.linalg.norm(two) > 0
        ]
        expected.append(max(cosines, default=0) >= 0.8)
    assert 2 <= sum(expected) < 41
    assert statistics.near_duplicates(vectors, 0.8).tolist() == expected
