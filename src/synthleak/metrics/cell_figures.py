"""What is known of a cell: its figures, as they are kept and read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from synthleak.metrics.epsilon import EpsilonBound
from synthleak.metrics.estimate import Estimate
from synthleak.metrics.nulls import (
    upper_point,
)


@dataclass(frozen=True)
class SignalFigures:
    """One signal: its two statistics, each with what the whole search stays below by chance."""

    auc: float
    auc_ceiling: float | None
    tail: float
    tail_ceiling: float | None


@dataclass(frozen=True)
class RowFigures:
    """One scenario of a cell. `signal` is the best by AUC; `centre` and `scale` are its null's.

    `auc` has an interval as if the proxy had been named beforehand, and the ceiling of the best of
    the scenario. `crossfit` is None where there was too little to fold; its interval is for this
    pool, `records_low` and `records_high` are for records like these.
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
class RecordFigures:
    """One record of a pool: its releases with and without it were compared.

    Where there is one release, a member: `auc` is the share of the holdout that it outscores.
    """

    target: int
    auc: float
    p: float
    q: float


@dataclass(frozen=True)
class CellFigures:
    """One cell: a row per scenario, and what concerns all signals together.

    `p` is p_cell; `reason` says why nothing can be said; `null` holds the upper part of T*,
    ascending, of `redraws` in all.
    """

    rows: tuple[RowFigures, ...]
    signals: tuple[SignalFigures, ...]
    p: float | None
    reason: str | None
    null: tuple[float, ...]
    redraws: int
    crossfit: Estimate | None
    crossfit_tpr: Estimate | None
    records_low: float | None
    records_high: float | None
    mu: float | None
    epsilon: EpsilonBound | None
    epsilon_claim: float | None
    records: tuple[RecordFigures, ...]

    def critical(self, level: float) -> float:
        """Return the T that only a share `level` of redraws reaches."""
        padded = np.concatenate([np.full(self.redraws - len(self.null), -np.inf), self.null])
        return upper_point(padded, level)

    def to_bytes(self) -> bytes:
        """Write the figures for the store."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> CellFigures:
        """Read figures from the store."""
        content: dict[str, Any] = json.loads(data)
        bound = content["epsilon"]
        content |= {
            "rows": tuple(_read_row(row) for row in content["rows"]),
            "signals": tuple(SignalFigures(**row) for row in content["signals"]),
            "null": tuple(content["null"]),
            "crossfit": _read_estimate(content["crossfit"]),
            "crossfit_tpr": _read_estimate(content["crossfit_tpr"]),
            "epsilon": None if bound is None else EpsilonBound(**bound),
            "records": tuple(RecordFigures(**row) for row in content["records"]),
        }
        return cls(**content)


def _read_row(row: dict[str, Any]) -> RowFigures:
    estimates = ("auc", "tpr", "pooled", "crossfit", "crossfit_tpr")
    made: dict[str, Any] = {
        key: _read_estimate(value) if key in estimates else value for key, value in row.items()
    }
    return RowFigures(**made)


def _read_estimate(value: dict[str, Any] | None) -> Estimate | None:
    return None if value is None else Estimate(**value)
