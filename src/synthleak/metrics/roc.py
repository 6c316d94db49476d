"""ROC figures, for many signals at once (METHOD §7)."""

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
    more = (positive[:, None] > negative[None]).mean(axis=(0, 1))
    same = (positive[:, None] == negative[None]).mean(axis=(0, 1))
    return np.asarray(more + same / 2)


def tpr_at_fpr(positive: Floats, negative: Floats, limit: float = FPR_LIMIT) -> Floats:
    """Return the largest share of members found while the false-positive rate is at most `limit`.

    A threshold flags what lies strictly above it, so tied scores are flagged together.

    >>> tpr_at_fpr(np.array([3.0, 1.0]), np.array([2.0, 0.0]), limit=0.05)
    array(0.5)
    """
    allowed = int(np.floor(limit * len(negative) + 1e-9))
    # With `allowed` false alarms permitted, the next non-member's score is the lowest threshold.
    threshold = np.sort(negative, axis=0)[len(negative) - 1 - allowed]
    return np.asarray((positive > threshold).mean(axis=0))
