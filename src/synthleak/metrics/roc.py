"""AUC and TPR at a given FPR, for many signals at once (docs/method.md §7)."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.observation import Floats

FPR_LIMIT = 0.05


def auc(positive: Floats, negative: Floats) -> Floats:
    """Return the chance that a member outscores a non-member, ties counting half.

    The first axis is trials; all others are signals.

    >>> auc(np.array([2.0, 1.0]), np.array([0.0, 1.0]))
    array(0.875)
    """
    from scipy.stats import rankdata

    members, others = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]), axis=0)
    wins = ranks[:members].sum(axis=0) - members * (members + 1) / 2
    return np.asarray(wins / (members * others))


def tpr_at_fpr(positive: Floats, negative: Floats) -> Floats:
    """Return the largest share of members found while the false-positive rate is at most 5%.

    A threshold flags what lies strictly above it, so tied scores are flagged together.

    >>> tpr_at_fpr(np.array([3.0, 1.0]), np.array([2.0, 0.0]))
    array(0.5)
    """
    # The lowest threshold is the score of the first non-member beyond the permitted false alarms.
    place = len(negative) - 1 - allowed_alarms(len(negative))
    threshold = np.partition(negative, place, axis=0)[place]
    return np.asarray((positive > threshold).mean(axis=0))


def allowed_alarms(negatives: int) -> int:
    """Return how many of `negatives` non-members may be flagged at 5% FPR.

    >>> allowed_alarms(50), allowed_alarms(20), allowed_alarms(19)
    (2, 1, 0)
    """
    return int(np.floor(FPR_LIMIT * negatives + 1e-9))
