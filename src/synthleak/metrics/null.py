"""The one verdict: max-T within a statistic, min-P across statistics (docs/method.md §8.3).

The best of many signals looks like leakage when there is none, so it is compared with the best of
every redraw. The observed assignment is one of B + 1 that are treated alike (docs/design/nulls.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from synthleak.core.cell import LEVEL
from synthleak.evidence.observation import Floats
from synthleak.metrics.types import Ints

POWER = 0.8
SLACK = 1e-9
"""Equal statistics may differ by rounding; a redraw this close counts against the finding."""


@dataclass(frozen=True)
class MinPTest:
    """The test of `values[statistic, assignment, signal]`, the observed assignment first.

    `largest[statistic, assignment]` is T, the largest studentised signal; `smallest[assignment]` is
    U, the smallest over statistics of the number of assignments whose T is as large. `p` is the
    share of assignments whose U is as small as the observed one, and `floor` the smallest p that
    these assignments can give: where it exceeds the level, nothing could ever be found. `statistic`
    and `signal` are the ones that decided.
    """

    largest: Floats
    smallest: Ints
    centre: Floats
    scale: Floats
    p: float
    floor: float
    statistic: int
    signal: int

    def critical(self, level: float = LEVEL) -> Floats:
        """Return, per statistic, the T that an assignment must exceed for p ≤ `level`."""
        rising = np.sort(self.smallest)
        return np.asarray([critical_value(row, rising, len(rising), level) for row in self.falling])

    @property
    def falling(self) -> Floats:
        """T of every statistic, the largest first."""
        return -np.sort(-self.largest, axis=1)

    def ceilings(self, level: float = LEVEL) -> Floats:
        """Return m + q·s as [statistic, signal]: passing any of them means p ≤ `level`.

        ∞ where a signal never varies, or where no outcome could reach the level.
        """
        varies = self.scale > 0
        limits = np.where(varies, self.critical(level)[:, None], 0.0)
        return np.where(varies, self.centre + limits * self.scale, np.inf)


def min_p_test(values: Floats) -> MinPTest | None:
    """Test `values[statistic, assignment, signal]`; None if nothing varies."""
    centre, scale = values.mean(axis=1), values.std(axis=1)
    varies = scale > SLACK
    count = values.shape[1]
    if count < 2 or not varies.any():
        return None
    scaled = _studentised(values, centre, scale)
    largest = scaled.max(axis=2)
    as_large = np.stack([_as_large(row) for row in largest])
    smallest = as_large.min(axis=0)
    deciding = int(as_large[:, 0].argmin())
    return MinPTest(
        largest=largest,
        smallest=smallest,
        centre=centre,
        scale=np.where(varies, scale, 0.0),
        p=int((smallest <= smallest[0]).sum()) / count,
        floor=int((smallest <= smallest.min()).sum()) / count,
        statistic=deciding,
        signal=int(scaled[deciding, 0].argmax()),
    )


def continued_p(first: Floats, more: Iterable[Floats]) -> float:
    """Return the p of a cell from redraws of their own, where the first ones reach their floor.

    Signals are studentised by the first redraws, without the observed assignment: they then are
    numbers that the further assignments and the observed one know nothing of, and of these no more
    than T is kept (docs/design/nulls.md, "Drawing on").

    Args:
        first: `values[statistic, assignment, signal]`, the observed assignment first.
        more: the values of further redraws, in parts.

    Returns:
        The share of the observed and the further assignments whose U is as small as the observed.
    """
    spread = first[:, 1:].mean(axis=1), first[:, 1:].std(axis=1)
    parts = [_studentised(values, *spread).max(axis=2) for values in chain([first[:, :1]], more)]
    rows = np.concatenate(parts, axis=1)
    smallest = np.stack([_as_large(row) for row in rows]).min(axis=0)
    return int((smallest <= smallest[0]).sum()) / len(smallest)


def _studentised(values: Floats, centre: Floats, scale: Floats) -> Floats:
    """Return `values[statistic, assignment, signal]` in units of spread; -∞ where there is none."""
    scaled = np.full(values.shape, -np.inf)
    varies = np.broadcast_to((scale > SLACK)[:, None], values.shape)
    np.divide(values - centre[:, None], scale[:, None], out=scaled, where=varies)
    return scaled


def _as_large(largest: Floats) -> Ints:
    """Return, for each assignment, the number of assignments with a T as large, itself included."""
    below = np.searchsorted(np.sort(largest), largest - SLACK, side="left")
    return np.asarray(len(largest) - below, dtype=np.int64)


def critical_value(falling: Floats, rising: Ints, count: int, level: float) -> float:
    """Return the T that an assignment must exceed for p ≤ `level`; ∞ where none suffices.

    α* is the largest U that at most a share `level` of all `count` assignments reaches. The
    critical value is the largest T that more than α* assignments reach; exceeding it by a rounding
    error is not enough. The upper part of T and the lower part of U suffice, as long as both hold
    more than that share.

    >>> round(critical_value(np.arange(40.0, 0.0, -1), np.arange(1, 41), 40, 0.05), 6)
    38.0
    """
    reached = np.searchsorted(rising, rising, side="right")
    allowed = rising[reached <= math.floor(level * count + SLACK)]
    return float(falling[allowed[-1]]) + 2 * SLACK if len(allowed) else math.inf


def p_value(statistic: float, null: Floats) -> float:
    """Return (1 + #{T* ≥ T}) / (B + 1).

    >>> p_value(2.0, np.array([1.0, 2.0, 3.0]))
    0.75
    """
    return (1 + int((null >= statistic - SLACK).sum())) / (len(null) + 1)


def upper_point(null: Floats, level: float = LEVEL) -> float:
    """Return the smallest redraw that a value must exceed for p ≤ `level`; ∞ if none suffices.

    >>> upper_point(np.arange(1.0, 20.0))
    19.0
    >>> upper_point(np.arange(1.0, 10.0))
    inf
    """
    rank = math.ceil((1 - level) * (len(null) + 1) - SLACK)
    return float(np.sort(null)[rank - 1]) if rank <= len(null) else math.inf


def smallest_found(
    centre: float, scale: float, critical: float, power: float = POWER
) -> float | None:
    """Return the smallest AUC found with this probability; None where none could be.

    >>> round(smallest_found(0.5, 0.05, 2.85), 3)
    0.685
    """
    from scipy.stats import norm

    auc = centre + (critical + float(norm.ppf(power))) * scale
    return auc if math.isfinite(auc) and auc <= 1.0 and scale > 0 else None


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Return Holm's adjusted p-values; a cell without one neither counts nor gets one.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    known = [(p, index) for index, p in enumerate(p_values) if p is not None]
    adjusted: list[float | None] = [None] * len(p_values)
    worst = 0.0
    for done, (p, index) in enumerate(sorted(known)):
        worst = max(worst, min(1.0, (len(known) - done) * p))
        adjusted[index] = worst
    return adjusted


def false_discovery_rates(p_values: Floats, tests: int | None = None) -> Floats:
    """Return the smallest false-discovery rate at which each is named (Benjamini, Hochberg 1995).

    `tests` counts all tests where those that are not among `p_values` have a p-value of 1.

    >>> false_discovery_rates(np.array([0.01, 0.5, 0.02])).tolist()
    [0.03, 0.5, 0.03]
    >>> false_discovery_rates(np.array([0.01]), tests=20).tolist()
    [0.2]
    """
    order = np.argsort(p_values)
    rates = p_values[order] * (tests or len(p_values)) / np.arange(1, len(p_values) + 1)
    q_values = np.empty(len(p_values))
    q_values[order] = np.minimum(np.minimum.accumulate(rates[::-1])[::-1], 1.0)
    return q_values
