"""The meta-classifier: all proxies of a scenario fused by logistic regression (METHOD §10)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MetaFigures:
    """The fusion in one scenario: its figures, and the choice that most of its folds made.

    `features` is the number of proxies it was allowed (0 for all), `penalty` the C of its ridge.
    """

    scenario: str
    auc: float
    auc_spread: float
    tpr: float
    features: int
    penalty: float
    records: int
