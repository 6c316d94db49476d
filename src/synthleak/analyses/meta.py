"""The meta-classifier against single proxies, in hindsight and chosen beforehand (METHOD §10)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MetaRow:
    """A row of `meta.csv`: all proxies of a scenario fused, beside the best single one.

    `oracle_…` is the best proxy in hindsight, `crossfit_auc` the one chosen on other instances;
    `features` (0 for all) and `penalty` are what most folds chose. `outcome` compares with the
    oracle: `win`, `tie` or `loss`.
    """

    corpus: str
    pool: str
    generator: str
    epsilon: float
    scenario: str
    auc: float
    auc_spread: float
    tpr_at_fpr05: float
    oracle_auc: float
    oracle_proxy: str
    oracle_view: str
    oracle_delta: float
    crossfit_auc: float | None
    crossfit_delta: float | None
    features: int
    penalty: float
    records: int
    outcome: str
