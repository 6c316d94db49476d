"""What more knowledge buys an attacker: the change at each step between scenarios (METHOD §10)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScalingRow:
    """A row of `scenario_scaling.csv`: one step, for one view and one kind of proxy.

    `proxy` is `best` or `median` (of a view, or of `any`), or `crossfit`: the deployable figure.
    The interval is over cells; cells that share a plan are not independent.
    """

    generator: str
    step: str
    view: str
    proxy: str
    cells: int
    change: float
    low: float | None
    high: float | None
