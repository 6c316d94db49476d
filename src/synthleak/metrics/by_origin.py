"""Two kinds of records in one game, compared with the same non-members (docs/method.md §10.4).

Everything is counted on ranks of one signal: a member's AUC over all non-members of all rounds, its
TPR over rounds. Both are means over members, so a kind's figure is the mean over its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.measurements import known
from synthleak.metrics.member_comparison import resample
from synthleak.metrics.membership import FPR_LIMIT, Assignment, Small, threshold_at_fpr
from synthleak.metrics.null import SLACK
from synthleak.metrics.types import Bools, Ints, Rng

MEASURES = ("auc", "tpr_at_fpr05")
DRAWS = 1000
LIMITS = (2.5, 97.5)


@dataclass(frozen=True)
class RanksByKind:
    """One signal under one assignment: the ranks of all entries, and who is of the first kind."""

    low: Small
    first: Bools
    assignment: Assignment

    @property
    def records(self) -> Ints:
        """The record of each member."""
        return self.assignment.members % len(self.first)

    @property
    def members_first(self) -> Bools:
        """Whether each member is of the first kind."""
        return self.first[self.records]


def origin_measurements(
    assignments: Sequence[RanksByKind], rng: Rng, draws: int = DRAWS
) -> list[dict[str, Any]]:
    """Return the columns of `merged.csv` for each measure; None where nothing is left.

    Args:
        assignments: the observed one, then the redraws.
        rng: draws records again.
        draws: how often.
    """
    observed = assignments[0]
    first, second = by_kind(observed)
    deltas = np.stack([np.subtract(*by_kind(ranks)) for ranks in assignments])
    low, high = np.percentile(_resampled(observed, rng, draws), LIMITS, axis=0)
    own_first, own_second = against_own(observed, np.ones(len(observed.first)))
    own_low, own_high = _within_kind_limits(observed, rng, draws)
    columns = {
        **{"first_value": first, "second_value": second, "delta": first - second},
        **{"low": low, "high": high, "own_low": own_low, "own_high": own_high},
        **{"own_first": own_first, "own_second": own_second, "own_delta": own_first - own_second},
    }
    null = [against_redraws(deltas[:, number]) for number in range(len(MEASURES))]
    return [
        {
            "measure": measure,
            **{name: known(values[number]) for name, values in columns.items()},
            **dict(zip(("null_low", "null_high", "p"), null[number], strict=True)),
        }
        for number, measure in enumerate(MEASURES)
    ]


def against_shared(ranks: RanksByKind) -> Floats:
    """Return AUC and TPR of each member against all non-members, as [measure, member]."""
    members = ranks.low[ranks.assignment.members]
    others = ranks.low[ranks.assignment.others]
    # Ranks are small whole numbers: counting them is faster than sorting.
    counted = np.bincount(others.ravel(), minlength=len(ranks.low))
    lower = np.concatenate([[0], np.cumsum(counted)])
    return np.stack(
        [
            (lower[members] + lower[members + 1]) / (2 * others.size),
            (members[:, None] > threshold_at_fpr(others.T)).mean(axis=1),
        ]
    )


def by_kind(ranks: RanksByKind) -> tuple[Floats, Floats]:
    """Return both measures for the first kind and for the second; NaN for one without members."""
    scores, first = against_shared(ranks), ranks.members_first
    return _mean(scores[:, first]), _mean(scores[:, ~first])


def _mean(scores: Floats) -> Floats:
    return scores.mean(axis=1) if scores.shape[1] else np.full(len(scores), np.nan)


def _resampled(ranks: RanksByKind, rng: Rng, draws: int) -> Floats:
    """Return the differences of bootstrap draws: member records of each kind drawn again.

    A record brings all its trials with it, and the non-members stay (docs/method.md §10).
    """
    scores, first = against_shared(ranks), ranks.members_first
    means = []
    for kind in (first, ~first):
        _, record = np.unique(ranks.records[kind], return_inverse=True)
        count = np.bincount(record).astype(np.float64)
        total = np.stack([np.bincount(record, weights=row) for row in scores[:, kind]], axis=1)
        weight = resample(len(count), draws, rng)
        means.append((weight @ total) / (weight @ count)[:, None])
    return means[0] - means[1]


def against_own(ranks: RanksByKind, weight: Floats) -> tuple[Floats, Floats]:
    """Return both measures with each kind against its own non-members, records so weighted."""
    first, second = WithinKind.of(ranks, ranks.first), WithinKind.of(ranks, ~ranks.first)
    return first.figures(weight), second.figures(weight)


@dataclass(frozen=True)
class WithinKind:
    """Members and non-members of one kind, sorted once for all weights of its records.

    `member` and `other` name the record of each trial, the others in ascending order of score;
    `below` and `upto` count the others that each member outscores, and those it at least equals.
    """

    member: Ints
    other: Ints
    below: Ints
    upto: Ints
    last: Ints

    @classmethod
    def of(cls, ranks: RanksByKind, kind: Bools) -> WithinKind:
        targets = len(ranks.first)
        others = ranks.assignment.others.ravel()
        others = others[kind[others % targets]]
        others = others[np.argsort(ranks.low[others], kind="stable")]
        members = ranks.assignment.members[kind[ranks.records]]
        ordered, scores = ranks.low[others], ranks.low[members]
        return cls(
            member=members % targets,
            other=others % targets,
            below=np.searchsorted(ordered, scores, side="left"),
            upto=np.searchsorted(ordered, scores, side="right"),
            last=np.searchsorted(ordered, ordered, side="right"),
        )

    def figures(self, weight: Floats) -> Floats:
        """Return AUC and TPR with records so weighted; NaN where a side weighs nothing."""
        heavy = weight[self.member]
        mass = np.concatenate([[0.0], np.cumsum(weight[self.other])])
        whole = mass[-1]
        if heavy.sum() <= 0 or whole <= 0:
            return np.full(len(MEASURES), np.nan)
        # The highest non-members may be flagged as long as they weigh 5% at most.
        index = int(np.argmax(whole - mass[1:] <= FPR_LIMIT * whole + SLACK))
        return np.array(
            [
                heavy @ (mass[self.below] + mass[self.upto]) / (2 * whole * heavy.sum()),
                heavy @ (self.below >= self.last[index]) / heavy.sum(),
            ]
        )


def _within_kind_limits(ranks: RanksByKind, rng: Rng, draws: int) -> Floats:
    """Return the limits of the difference within kinds: all records drawn again, in and out."""
    first, second = WithinKind.of(ranks, ranks.first), WithinKind.of(ranks, ~ranks.first)
    weights = resample(len(ranks.first), draws, rng)
    drawn = np.stack([first.figures(weight) - second.figures(weight) for weight in weights])
    whole = drawn[np.isfinite(drawn).all(axis=1)]
    if len(whole) < draws / 2:
        return np.full((2, len(MEASURES)), np.nan)
    return np.percentile(whole, LIMITS, axis=0)


def against_redraws(deltas: Floats) -> tuple[float | None, float | None, float | None]:
    """Return the central 95% of the redraws, and the two-sided p of the first among them.

    A redraw that leaves a kind without members counts against the finding on both sides.

    >>> against_redraws(np.array([5.0, 1.0, 2.0, 3.0]))
    (1.05, 2.95, 0.5)
    """
    observed, redrawn = deltas[0], deltas[1:]
    finite = redrawn[np.isfinite(redrawn)]
    if not finite.size:
        return None, None, None
    lost = len(redrawn) - finite.size
    upper = 1 + lost + int((finite >= observed - SLACK).sum())
    lower = 1 + lost + int((finite <= observed + SLACK).sum())
    low, high = np.percentile(finite, LIMITS)
    return float(low), float(high), min(1.0, 2 * min(upper, lower) / len(deltas))
