"""A number with what it is worth."""

from __future__ import annotations

from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure, its interval, what chance would give, and how it was come by.

    `null` is the chance ceiling and `p` the p-value; both are None where `method` offers none.
    """

    value: float
    low: float | None = None
    high: float | None = None
    null: float | None = None
    p: float | None = None
    n: int
    method: str


def interval(value: float, error: float, fewest: int) -> tuple[float, float]:
    """Return the 95% interval of an AUC from its standard error, within 0 and 1.

    At exactly 0 or 1 every resample agrees and the standard error is 0, which proves little: then
    the limit is the rate of misordered pairs that `fewest` separate pairs would still all have
    missed with probability 2.5%.

    >>> interval(0.7, 0.05, 50)
    (0.602, 0.7979999999999999)
    >>> interval(1.0, 0.0, 50)[0] == 0.025 ** (1 / 50)
    True
    """
    reach = 1.96 * error
    low, high = max(0.0, value - reach), min(1.0, value + reach)
    certain = ((1 - CONFIDENCE) / 2) ** (1 / max(fewest, 1))
    if value >= 1.0:
        low = min(low, certain)
    if value <= 0.0:
        high = max(high, 1 - certain)
    return low, high
