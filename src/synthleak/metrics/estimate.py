"""A number with what it is worth."""

from __future__ import annotations

from dataclasses import dataclass


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
