"""The best proxy of a scenario, chosen again in every assignment (docs/method.md §7, §8).

A scenario reports its best proxy by AUC, ties by TPR, then by catalogue order. For the chance limit
every redraw chooses its best in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.null import SLACK
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.roc import allowed_alarms
from synthleak.metrics.types import Ints, Signals


@dataclass(frozen=True)
class Chosen:
    """Per assignment: the signal chosen, its level, its TPR at 5% FPR and its pooled AUC."""

    signal: Ints
    level: Floats
    tpr: Floats
    pooled: Floats


def choose(
    ranks: Ranks, assignments: Sequence[Assignment], level: Floats, group: Signals
) -> Chosen:
    """Choose among a group's signals in every assignment, by `level[assignment, signal]`."""
    signals, rates, pooled = [], [], []
    for assignment, values in zip(assignments, level[:, group], strict=True):
        tied = group[values >= values.max() - SLACK]
        tied = tied[np.unique(ranks.same[tied], return_index=True)[1]]
        found = [mean_tpr(ranks, assignment, signal) for signal in tied.tolist()]
        best = int(np.argmax(found))
        signals.append(int(tied[best]))
        rates.append(found[best])
        pooled.append(pooled_auc(ranks, assignment, int(tied[best])))
    chosen = np.asarray(signals, dtype=np.int64)
    return Chosen(
        chosen, level[np.arange(len(assignments)), chosen], np.asarray(rates), np.asarray(pooled)
    )


def mean_tpr(ranks: Ranks, assignment: Assignment, signal: int) -> float:
    """Return TPR at an FPR of at most 5% in every round, averaged over rounds."""
    low = ranks.low[signal]
    others = low[assignment.others]
    if not others.size or not assignment.members.size:
        return 0.0
    place = others.shape[1] - 1 - allowed_alarms(others.shape[1])
    threshold = np.partition(others, place, axis=1)[:, place]
    return float((low[assignment.members][:, None] > threshold).mean())


def pooled_auc(ranks: Ranks, assignment: Assignment, signal: int) -> float:
    """Return the AUC of all members against all non-members of all rounds.

    Cells that no trial uses do not count.
    """
    low = ranks.low[signal]
    others, members = low[assignment.others], low[assignment.members]
    if not others.size or not members.size:
        return 0.5
    # Ranks are small whole numbers: counting them takes a third of the time of sorting.
    upto = np.cumsum(np.bincount(others.ravel(), minlength=len(low)))
    below = np.concatenate([[0], upto[:-1]])
    return float((below[members] + upto[members]).mean() / (2 * others.size))
