"""Curves and bands against slow reimplementations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.oracles.curves import area, height, roc_points
from synthleak.metrics.curves import GRID, TOLERANCE, drawable, read_curve, roc_curve, thinned
from synthleak.metrics.membership import auc

SCORES = st.lists(st.integers(0, 12), min_size=1, max_size=30)


@settings(deadline=None)
@given(SCORES, SCORES)
def test_roc_points_area_and_height_equal_counting(one: list[int], other: list[int]) -> None:
    members, others = np.array(one, dtype=float), np.array(other, dtype=float)
    fpr, tpr = roc_curve(members, others)
    points = roc_points(members.tolist(), others.tolist())
    assert np.allclose(np.stack([fpr, tpr], axis=1), points)
    assert area(points) == pytest.approx(float(auc(members, others)))
    read = read_curve(fpr, tpr, GRID)
    assert read.tolist() == pytest.approx([height(points, at) for at in GRID.tolist()])


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_a_thinned_curve_stays_where_it_was(seed: int) -> None:
    rng = np.random.default_rng(seed)
    fpr, tpr = roc_curve(rng.normal(0.7, 1, 3000), rng.normal(0, 1, 3000))
    kept = thinned(fpr, tpr)
    assert len(kept) < 200 < len(fpr)
    some = rng.integers(0, len(fpr), 40)
    for place in some.tolist():
        before = kept[np.searchsorted(kept, place, side="right") - 1]
        after = kept[min(np.searchsorted(kept, place), len(kept) - 1)]
        assert _distance(fpr, tpr, place, int(before), int(after)) <= TOLERANCE + 1e-12
    thin_fpr, thin_tpr = drawable(fpr, tpr)
    assert area(list(zip(thin_fpr, thin_tpr, strict=True))) == pytest.approx(
        area(list(zip(fpr, tpr, strict=True))), abs=2 * TOLERANCE
    )


def _distance(x: np.ndarray, y: np.ndarray, place: int, before: int, after: int) -> float:
    steps = np.linspace(0, 1, 2001)
    along_x = x[before] + steps * (x[after] - x[before])
    along_y = y[before] + steps * (y[after] - y[before])
    return float(np.hypot(along_x - x[place], along_y - y[place]).min())
