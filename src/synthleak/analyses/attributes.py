"""Whether an attribute of a record foretells its vulnerability (METHOD §10)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class AttributeTest:
    """A row of `attributes.csv`: Spearman's ρ of one attribute with V in one pool.

    V is pooled over budgets under one (scenario, proxy) per pool and generator, chosen on 80% of
    the instances. `block` is the rule that selected the pool; `selected_on` is `†` where that rule
    looked at this very attribute. `floor` is the smallest |ρ| that so many records could show at
    5%. `p_holm` is over all attribute–pool tests.
    """

    corpus: str
    pool: str
    block: str
    generator: str
    attribute: str
    scenario: str
    proxy: str
    view: str
    budgets: int
    records: int
    rho: float | None
    p_value: float | None
    p_holm: float | None
    floor: float | None
    selected_on: str


@dataclass(frozen=True)
class CombinedRow:
    """A row of `attributes_combined.csv`: Fisher's z over the disjoint pools of a block.

    `selection` names the rule that chose the proxy: `split80`, `all`, `containment_max S2` or
    `cos_max S1`. `corpus` is `all`, with a test (`p_holm` over five attributes within generator,
    block and selection), or one corpus, without.
    """

    selection: str
    generator: str
    block: str
    corpus: str
    attribute: str
    pools: int
    records: int
    positive_pools: int
    rho: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_holm: float | None
