"""An estimate with its interval and its chance limit."""

from __future__ import annotations

import math
from dataclasses import dataclass

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value, its interval, what chance would give, and how it was computed.

    `null` is the chance limit and `p` the p-value; both are None where `method` offers none.
    """

    value: float
    low: float | None = None
    high: float | None = None
    null: float | None = None
    p: float | None = None
    n: int
    method: str


def known(value: float) -> float | None:
    """Return a value; None if it is not finite."""
    return float(value) if math.isfinite(value) else None


def interval(value: float, error: float, sides: tuple[float, float]) -> tuple[float, float]:
    """Return the 95% interval of an AUC from its bootstrap standard error.

    `sides` is how many independent units members and others have. It is an interval of Student's t
    on the logit scale: with few units the standard error is itself uncertain, and an AUC far from
    0.5 errs further towards 0.5 (docs/method.md §8; coverage: benchmarks/coverage.py).

    At exactly 0 or 1 every resample agrees and the standard error is 0, which proves little. Then
    the limit is the rate of misordered pairs at which n separate pairs, n the units of the smaller
    side, would all be ordered correctly with probability 2.5%.

    >>> [round(limit, 3) for limit in interval(0.7, 0.05, (50, 50))]
    [0.591, 0.79]
    >>> interval(1.0, 0.0, (50, 80))[0] == 0.025 ** (1 / 50)
    True
    """
    reach = 0.0 if error == 0 else _multiplier(sides) * error
    if not math.isfinite(reach):
        return 0.0, 1.0
    certain = ((1 - CONFIDENCE) / 2) ** (1 / max(min(sides), 1))
    if value >= 1.0:
        return max(0.0, min(certain, 1.0 - reach)), 1.0
    if value <= 0.0:
        return 0.0, min(1.0, max(1 - certain, reach))
    middle, reach = math.log(value / (1 - value)), reach / (value * (1 - value))
    return _expit(middle - reach), _expit(middle + reach)


def _expit(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


def _multiplier(sides: tuple[float, float]) -> float:
    """Return the half-width of an interval in bootstrap standard errors.

    A bootstrap of n units gives (n − 1)/n of their variance, and Student's t accounts for
    estimating it. Degrees of freedom are Satterthwaite's for two sides with equal variance per
    unit: 2(n − 1) for equal sides, those of the smaller side where the other is much larger.
    """
    from scipy.stats import t

    if min(sides) <= 1:
        return math.inf
    shares = [1 / side for side in sides]
    seen = sum(share * (1 - 1 / side) for share, side in zip(shares, sides, strict=True))
    freedom = sum(shares) ** 2 / sum(
        share**2 / (side - 1) for share, side in zip(shares, sides, strict=True)
    )
    quantile = float(t.ppf((1 + CONFIDENCE) / 2, freedom))
    return quantile * math.sqrt(sum(shares) / seen)
