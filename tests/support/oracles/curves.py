"""ROC curves the slow way: count at every threshold; distances by walking along the line."""

from __future__ import annotations

import itertools
from collections.abc import Sequence


def roc_points(members: Sequence[float], others: Sequence[float]) -> list[tuple[float, float]]:
    """Flag all scores at or above each threshold, from the strictest to the laxest."""
    points = [(0.0, 0.0)]
    for threshold in sorted({*members, *others}, reverse=True):
        flagged = sum(score >= threshold for score in members) / len(members)
        alarms = sum(score >= threshold for score in others) / len(others)
        points.append((alarms, flagged))
    return points


def area(points: Sequence[tuple[float, float]]) -> float:
    """Sum the trapezoids."""
    return sum(
        (right[0] - left[0]) * (left[1] + right[1]) / 2
        for left, right in itertools.pairwise(points)
    )


def height(points: Sequence[tuple[float, float]], at: float) -> float:
    """Return the highest point of the line above `at`."""
    best = 0.0
    for left, right in itertools.pairwise(points):
        if left[0] <= at <= right[0]:
            width = right[0] - left[0]
            share = (at - left[0]) / width if width else 1.0
            best = max(best, left[1] + share * (right[1] - left[1]), left[1] if width else right[1])
    return best
