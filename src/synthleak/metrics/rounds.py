"""The paper's measurements: means over rounds, and their spread from sampling negatives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthleak.calibration import Scores
from synthleak.evidence.observation import Floats
from synthleak.metrics.roc import auc, tpr_at_fpr
from synthleak.plan.plan import EVERY_ROUND, Trials


@dataclass(frozen=True)
class RoundMeasurements:
    """Per proxy: AUC and TPR at 5% FPR, with `1.96 σ/√T` over rounds.

    The spread covers the sampling of negatives only; it is not an interval for the leakage.
    """

    auc: Floats
    auc_spread: Floats
    tpr: Floats
    tpr_spread: Floats
    n_positive: int
    n_negative: int


def round_measurements(scores: Scores, trials: Trials) -> RoundMeasurements:
    """Evaluate every proxy in every round, and average."""
    values = scores.values[trials.set, trials.target]
    always = trials.round == EVERY_ROUND
    aucs, tprs, negatives = [], [], 0
    for number in range(trials.rounds):
        now = always | (trials.round == number)
        positive, negative = values[now & trials.member], values[now & ~trials.member]
        aucs.append(auc(positive, negative))
        tprs.append(tpr_at_fpr(positive, negative))
        negatives = len(negative)
    return RoundMeasurements(
        auc=np.mean(aucs, axis=0),
        auc_spread=_spread(np.array(aucs)),
        tpr=np.mean(tprs, axis=0),
        tpr_spread=_spread(np.array(tprs)),
        n_positive=int((trials.member & (always | (trials.round == 0))).sum()),
        n_negative=negatives,
    )


def _spread(values: Floats) -> Floats:
    rounds = len(values)
    if rounds < 2:
        return np.zeros(values.shape[1])
    spread: Floats = 1.96 * values.std(axis=0, ddof=1) / np.sqrt(rounds)
    return spread
