"""The one verdict: a studentised maximum over all signals, against its own redraws (METHOD §8).

The best of many signals looks like leakage when there is none. So the best of many redraws is what
it is compared with, and the observed dealing stands among the redraws when they are centred and
scaled: then all B + 1 are exchangeable under "no leak" and the p-value is exact, whatever the
signals, their ties and their dependence. See design/nulls.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats

LEVEL = 0.05
SLACK = 1e-9
"""Equal statistics may differ by rounding; a redraw this close counts against the finding."""


@dataclass(frozen=True)
class MaxTest:
    """T = max over columns of (value − centre) / scale, observed and redrawn.

    `null` holds T* of the redraws, ascending. `floor` is the smallest p that these coins can give:
    where it exceeds the level, nothing could ever be found.
    """

    statistic: float
    null: Floats
    p: float
    floor: float
    centre: Floats
    scale: Floats
    best: int

    def ceilings(self, level: float = LEVEL) -> Floats:
        """Return m + q·s per column: what the whole search passes by chance in `level` of cases."""
        made: Floats = self.centre + upper_point(self.null, level) * self.scale
        return made


def max_test(values: Floats) -> MaxTest | None:
    """Test `values[dealing, column]`, the observed dealing first; None if no column ever varies."""
    centre, scale = values.mean(axis=0), values.std(axis=0)
    varies = scale > SLACK
    if len(values) < 2 or not varies.any():
        return None
    scaled = np.full(values.shape, -np.inf)
    np.divide(values - centre, scale, out=scaled, where=np.broadcast_to(varies, values.shape))
    largest = scaled.max(axis=1)
    statistic, null = float(largest[0]), np.sort(largest[1:])
    return MaxTest(
        statistic=statistic,
        null=null,
        p=p_value(statistic, null),
        floor=p_value(float(largest.max()), null),
        centre=centre,
        scale=np.where(varies, scale, 0.0),
        best=int(scaled[0].argmax()),
    )


def p_value(statistic: float, null: Floats) -> float:
    """Return (1 + #{T* ≥ T}) / (B + 1).

    >>> p_value(2.0, np.array([1.0, 2.0, 3.0]))
    0.75
    """
    return (1 + int((null >= statistic - SLACK).sum())) / (len(null) + 1)


def upper_point(null: Floats, level: float = LEVEL) -> float:
    """Return the smallest redraw that a figure must exceed for p ≤ `level`; ∞ if none will do.

    >>> upper_point(np.arange(1.0, 20.0))
    19.0
    >>> upper_point(np.arange(1.0, 10.0))
    inf
    """
    place = math.ceil((1 - level) * (len(null) + 1) - SLACK)
    return float(np.sort(null)[place - 1]) if place <= len(null) else math.inf


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's adjusted p-values; a cell without one neither counts nor gets one.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    known = [(p, place) for place, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    worst = 0.0
    for done, (p, place) in enumerate(sorted(known)):
        worst = max(worst, min(1.0, (len(known) - done) * p))
        adjusted[place] = worst
    return adjusted


def benjamini_hochberg(p_values: Floats) -> Floats:
    """Return the smallest false-discovery rate at which each would be named.

    >>> benjamini_hochberg(np.array([0.01, 0.5, 0.02])).tolist()
    [0.03, 0.5, 0.03]
    """
    order = np.argsort(p_values, kind="stable")
    scaled = p_values[order] * len(p_values) / np.arange(1, len(p_values) + 1)
    adjusted = np.empty(len(p_values))
    adjusted[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    return adjusted
