"""The largest and smallest of wide rows against sorting all of them."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.seeds import stream
from synthleak.evidence.fast import extremes
from synthleak.evidence.fast.extremes import GROUP, largest, smallest_places


@pytest.mark.parametrize("wide", [1, 10**9])
@pytest.mark.parametrize("columns", [3, 5 * GROUP, 40 * GROUP, 40 * GROUP + 7])
@pytest.mark.parametrize("k", [1, 10])
def test_they_are_what_sorting_finds(
    wide: int, columns: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(extremes, "WIDE", wide)
    values = stream("extremes", columns).normal(size=(40, columns))
    if columns > GROUP:
        # All that count in one group, in the columns beyond the last, out of reach, or equal.
        values[:5, GROUP : GROUP + k] -= 20
        values[5:10, -k:] -= 20
        values[10:15, GROUP : 2 * GROUP] = np.inf
        values[15:20] = np.round(values[15:20])
    expected = np.sort(values, axis=1)
    places = smallest_places(values, k)
    assert all(len(set(row)) == min(k, columns) for row in places.tolist())
    assert np.array_equal(np.sort(np.take_along_axis(values, places, 1), 1), expected[:, :k])
    assert np.array_equal(np.sort(largest(-values, k), 1), -expected[:, :k][:, ::-1])
