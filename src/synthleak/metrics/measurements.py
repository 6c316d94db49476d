"""The measurements of a cell, as they are stored and read; estimates and their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from synthleak.core.cell import NAMED
from synthleak.metrics.epsilon import EpsilonBound
from synthleak.metrics.null import critical_value

CONFIDENCE = 0.95


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value, its interval, what chance would give, and how it was computed.

    Attributes:
        value: the estimate.
        low: the lower end of its 95% interval; None where `method` offers none, as for `high`.
        high: the upper end.
        null: the chance limit; None where `method` offers none, as for `p`.
        p: the p-value.
        n: the number of trials behind it.
        method: how it was computed, in words.
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


@dataclass(frozen=True)
class SignalMeasurements:
    """One signal: its statistics, each with the chance limit of the whole search.

    A limit is None where no value could pass it.
    """

    values: tuple[float, ...]
    ceilings: tuple[float | None, ...]

    @property
    def auc(self) -> float:
        """The AUC, which is the first statistic."""
        return self.values[0]

    @property
    def auc_ceiling(self) -> float | None:
        return self.ceilings[0]


def passable(limit: float) -> float | None:
    """Return a chance limit; None where no value could pass it, since all statistics end at 1."""
    return limit if limit < 1.0 else None


@dataclass(frozen=True)
class Null:
    """The part of the verdict's null that decides: enough for any level up to 10%.

    `largest` holds T of the AUC in redraws, the largest first; `smallest` holds U, the smallest
    first; `count` is the number of assignments, the observed one included.
    """

    largest: tuple[float, ...]
    smallest: tuple[int, ...]
    count: int

    def critical(self, level: float) -> float:
        """Return the T of the AUC that only a share `level` of chance results exceeds."""
        return critical_value(
            np.asarray(self.largest), np.asarray(self.smallest), self.count, level
        )


@dataclass(frozen=True)
class Deciding:
    """The statistic and the signal with the smallest p-value, on which the verdict rests."""

    statistic: str
    signal: int
    value: float
    ceiling: float | None


ESTIMATES = ("auc", "tpr", "pooled", "crossfit", "crossfit_tpr")
"""What is estimated in every scenario."""


@dataclass(frozen=True)
class ScenarioMeasurements:
    """One scenario of a cell. `signal` is the best by AUC; `centre` and `scale` are its null's.

    The interval of `auc` is that of a proxy fixed in advance; its chance limit is that of the best
    of the scenario. `crossfit` is None where there were too few units to fold; its interval is for
    this pool, `records_low` and `records_high` are for records like these.
    """

    scenario: str
    signal: int
    auc: Estimate
    tpr: Estimate
    pooled: Estimate
    crossfit: Estimate | None
    crossfit_tpr: Estimate | None
    records_low: float | None
    records_high: float | None
    centre: float
    scale: float


@dataclass(frozen=True)
class RecordMeasurements:
    """One record of a pool, compared over its releases with and without it.

    Where there is one release, the record is a member, and `auc` is the share of the holdout that
    it outscores; `copied` says that the release holds it word for word, and copies more members
    than a random split would (docs/method.md §11).
    """

    target: int
    auc: float
    p: float
    q: float
    copied: bool = False

    @property
    def named(self) -> bool:
        """Whether the record is named: by its false-discovery rate, or by its copy."""
        return self.q <= NAMED or self.copied


@dataclass(frozen=True)
class CellMeasurements:
    """One cell: a row per scenario, and the measurements over all signals.

    `p` is p_cell; `reason` says why no verdict is possible; `statistics` names the values of every
    signal. Where nothing varies there is no `null` and nothing was `deciding`.
    """

    rows: tuple[ScenarioMeasurements, ...]
    statistics: tuple[str, ...]
    signals: tuple[SignalMeasurements, ...]
    p: float | None
    reason: str | None
    null: Null | None
    deciding: Deciding | None
    redraws: int
    crossfit: Estimate | None
    crossfit_tpr: Estimate | None
    records_low: float | None
    records_high: float | None
    mu: float | None
    epsilon: EpsilonBound | None
    epsilon_claim: float | None
    records: tuple[RecordMeasurements, ...]

    def without_tests(self, reason: str) -> CellMeasurements:
        """Return the figures alone, where no test is valid: no p-value, no bound, nobody named."""

        def bare(estimate: Estimate | None) -> Any:
            return estimate and replace(estimate, p=None)

        rows = tuple(
            replace(row, **{name: bare(getattr(row, name)) for name in ESTIMATES})
            for row in self.rows
        )
        return replace(
            self,
            rows=rows,
            p=None,
            reason=reason,
            deciding=None,
            crossfit=bare(self.crossfit),
            crossfit_tpr=bare(self.crossfit_tpr),
            mu=None,
            epsilon=None,
            records=(),
        )

    @property
    def named(self) -> int | None:
        """The number of records that are named; None if none was tested."""
        return sum(row.named for row in self.records) if self.records else None


def larger_of(one: CellMeasurements, other: CellMeasurements) -> CellMeasurements:
    """Return the measurements of a cell that was redrawn in two ways, each with its larger p.

    What does not depend on redraws is that of `one`. Chance limits are the larger ones as well: a
    value that passes has p ≤ 0.05 in both (docs/method.md §11).
    """

    def both(estimate: Estimate | None, beside: Estimate | None) -> Any:
        if estimate is None or beside is None:
            return estimate
        ceiling = _larger(estimate.null, beside.null)
        return replace(estimate, null=ceiling, p=_larger(estimate.p, beside.p))

    base = one if other.p is None or (one.p or 0.0) >= other.p else other
    return replace(
        base,
        rows=tuple(
            replace(
                row, **{name: both(getattr(row, name), getattr(peer, name)) for name in ESTIMATES}
            )
            for row, peer in zip(one.rows, other.rows, strict=True)
        ),
        signals=tuple(
            replace(signal, ceilings=tuple(map(_larger, signal.ceilings, peer.ceilings)))
            for signal, peer in zip(one.signals, other.signals, strict=True)
        ),
        reason=one.reason or other.reason,
        crossfit=both(one.crossfit, other.crossfit),
        crossfit_tpr=both(one.crossfit_tpr, other.crossfit_tpr),
    )


def _larger(one: float | None, other: float | None) -> float | None:
    """Return the larger of two; None, where one is None, stands for what nothing passes."""
    return None if one is None or other is None else max(one, other)
