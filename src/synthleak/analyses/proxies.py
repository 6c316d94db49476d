"""Which proxies say the same: rank correlations, and groups that nobody could tell apart."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CorrelationRow:
    """A row of `proxy_correlations.csv`: two proxies of a scenario, over all scores of a cell.

    `rho` is the mean over cells, `low` and `high` the range; `views` is `lexical`, `embedding` or
    `across`.
    """

    scenario: str
    one: str
    other: str
    views: str
    cells: int
    rho: float
    low: float
    high: float


@dataclass(frozen=True)
class GroupRow:
    """A row of `proxy_groups.csv`: the equivalent proxies of a scenario, and how often one wins.

    Proxies of a group are linked by mean rank correlations of 0.95 or more; `wins` counts the cells
    in which this proxy is the best of its scenario.
    """

    scenario: str
    proxy: str
    view: str
    group: int
    size: int
    wins: int
    cells: int
