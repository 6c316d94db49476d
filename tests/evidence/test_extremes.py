"""The largest and smallest of rows against sorting all of them."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.seeds import stream
from synthleak.evidence.fast.nearest import largest, smallest_places


@pytest.mark.parametrize("columns", [3, 160, 1280])
@pytest.mark.parametrize("k", [1, 10])
def test_they_are_what_sorting_finds(columns: int, k: int) -> None:
    values = stream("extremes", columns).normal(size=(40, columns))
    if columns > 3:
        # All that count in a row, in the last columns, out of reach, or equal.
        values[:5, 32 : 32 + k] -= 20
        values[5:10, -k:] -= 20
        values[10:15, 32:64] = np.inf
        values[15:20] = np.round(values[15:20])
    expected = np.sort(values, axis=1)
    places = smallest_places(values, k)
    assert all(len(set(row)) == min(k, columns) for row in places.tolist())
    assert np.array_equal(np.sort(np.take_along_axis(values, places, 1), 1), expected[:, :k])
    assert np.array_equal(np.sort(largest(-values, k), 1), -expected[:, :k][:, ::-1])
