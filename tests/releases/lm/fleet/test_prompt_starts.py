"""What prompts begin with alike, and which rows of a table are equal."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from synthleak.releases.lm.fleet import frozen_llama


@pytest.mark.parametrize(
    ("begins", "lengths", "expected"),
    [
        ([0, 0, 0, 0], [30, 29, 28, 27], 24),
        ([0, 0, 0, 0], [30, 29, 28, 24], 16),  # every prompt has a token of its own
        ([0, 1, 2, 3], [30, 29, 28, 27], 0),
        ([0, 0, 1, 1], [90, 90, 28, 27], 24),
        ([0, 0, 1, 2], [90, 90, 90, 90], 0),  # too little to save
    ],
)
def test_common_starts_are_found(begins: list[int], lengths: list[int], expected: int) -> None:
    rng = np.random.default_rng(0)
    table = rng.integers(0, 50, (len(begins), max(lengths)))
    starts = rng.integers(0, 50, (4, 26))
    table[:, :26] = starts[begins]
    assert frozen_llama.common_start(table, np.array(lengths)) == expected


@pytest.mark.parametrize("hashed", [True, False])
def test_different_rows_are_found_even_if_hashes_are_equal(
    hashed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = np.array([[1, 2], [3, 4], [1, 2], [1, 4], [3, 4]])
    if not hashed:
        monkeypatch.setattr(frozen_llama, "_hashes", lambda table: [np.zeros(5, dtype=np.uint64)])
    first, which = frozen_llama.distinct_rows(table)
    assert sorted(first.tolist()) == [0, 1, 3]
    assert np.array_equal(table[first][which], table)
