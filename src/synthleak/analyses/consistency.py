"""Whether the same records are hit again: V across generators, budgets and scenarios."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ConsistencyRow:
    """A row of `consistency.csv`: V of the same records in two settings, by one proxy.

    `across` is `generators` (`one` and `other` are names; V pooled over the budgets of both, under
    the first one's pair), `budgets` (ε of one generator) or `scenarios` (the same proxy). The band
    and `p_value` come from redraws that deal both sides the same coins. `turnover` is the share of
    one's top tenth that is not in the other's, `chance_turnover` what unrelated ranks would give.
    """

    across: str
    corpus: str
    pool: str
    block: str
    generator: str
    one: str
    other: str
    scenario: str
    proxy: str
    records: int
    rho: float | None
    null_mean: float | None
    null_low: float | None
    null_high: float | None
    p_value: float | None
    p_holm: float | None
    top: int
    turnover: float | None
    chance_turnover: float | None
    turnover_p: float | None
