"""Lower bounds on ε from one trial per instance, and the μ of a Gaussian mechanism.

In every trial the score of the designated target passes a threshold, chosen on other instances, or
does not. Members pass at the rate TPR, non-members at FPR, and (ε, δ)-privacy requires
TPR ≤ e^ε FPR + δ and 1 − FPR ≤ e^ε (1 − TPR) + δ. Clopper–Pearson limits, α/2 per side, turn counts
into a bound that holds with probability 1 − α (docs/method.md §8; design/epsilon.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.types import Bools, Rng

ALPHA = 0.05
RESERVED = 0.4


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound on ε at `delta`, and the largest bound that the design can give.

    `trials` is the number counted; `reason` says why there is no bound.
    """

    lower: float | None
    largest: float | None
    delta: float
    trials: int
    method: str
    reason: str | None = None


def clopper_pearson(hits: int, trials: int, alpha: float) -> tuple[float, float]:
    """Return the exact one-sided limits of a rate, each missed with probability at most `alpha`.

    >>> low, high = clopper_pearson(0, 50, 0.025)
    >>> low, round(high, 4)
    (0.0, 0.0711)
    """
    from scipy.stats import beta

    low = float(beta.ppf(alpha, hits, trials - hits + 1)) if hits > 0 else 0.0
    high = float(beta.ppf(1 - alpha, hits + 1, trials - hits)) if hits < trials else 1.0
    return low, high


def epsilon_of_counts(
    found: int, members: int, alarms: int, others: int, delta: float, alpha: float = ALPHA
) -> float:
    """Return the lower bound on ε from these counts, with confidence 1 − α.

    >>> [round(epsilon_of_counts(n, n, 0, n, 0.0), 2) for n in (50, 25)]
    [2.57, 1.84]
    """
    tpr = clopper_pearson(found, members, alpha / 2)[0]
    fpr = clopper_pearson(alarms, others, alpha / 2)[1]
    return _bound(tpr, fpr, delta)


def _bound(tpr: float, fpr: float, delta: float) -> float:
    return max(0.0, _log_ratio(tpr - delta, fpr), _log_ratio(1 - fpr - delta, 1 - tpr))


def _log_ratio(above: float, below: float) -> float:
    return math.log(above / below) if above > 0 else -math.inf


def lone_epsilon(
    scores: Floats, member: Bools, delta: float, rng: Rng, alpha: float = ALPHA
) -> EpsilonBound:
    """Bound ε from `scores[instance, signal]` of each instance's designated target.

    Signal and threshold are chosen on a reserved 40% of instances, stratified by membership; the
    rest is counted. Choosing on counted instances would invalidate the bound.
    """
    method = "Clopper–Pearson, one trial per instance, choices on a reserved 40%"
    reserved = np.zeros(len(member), dtype=np.bool_)
    for side in (member, ~member):
        drawn = rng.permutation(np.flatnonzero(side))
        reserved[drawn[: round(RESERVED * len(drawn))]] = True
    counts = [int((~reserved & side).sum()) for side in (member, ~member)]
    kept = [int((reserved & side).sum()) for side in (member, ~member)]
    if min(counts + kept) < 1:
        reason = f"{int(member.sum())} members and {int((~member).sum())} others are too few"
        return EpsilonBound(None, None, delta, sum(counts), method, reason)
    signal, threshold = _best_rule(scores[reserved], member[reserved], delta)
    passed = scores[~reserved, signal] > threshold
    truth = member[~reserved]
    lower = epsilon_of_counts(
        int((passed & truth).sum()),
        counts[0],
        int((passed & ~truth).sum()),
        counts[1],
        delta,
        alpha,
    )
    largest = largest_lone(int(member.sum()), int((~member).sum()), delta, alpha)
    return EpsilonBound(lower, largest, delta, sum(counts), method)


def largest_lone(members: int, others: int, delta: float, alpha: float = ALPHA) -> float | None:
    """Return the largest bound that `members` and `others` can give; None if they are too few.

    >>> [round(largest_lone(n, n, 0.0), 2) for n in (50, 10)]
    [2.03, 0.16]
    """
    counts = [side - round(RESERVED * side) for side in (members, others)]
    if min(*counts, members - counts[0], others - counts[1]) < 1:
        return None
    return epsilon_of_counts(counts[0], counts[0], 0, counts[1], delta, alpha)


def _best_rule(scores: Floats, member: Bools, delta: float) -> tuple[int, float]:
    """Return the signal and threshold with the best bound, ties by TPR − FPR, then by order.

    A threshold lies halfway between two scores, so that it favours neither side.
    """
    bounds = _bound_table(int(member.sum()), int((~member).sum()), delta)
    best, rule = (-1.0, -math.inf), (0, math.inf)
    for signal, column in enumerate(scores.T):
        passed = column > column[:, None]
        above = np.where(passed, column, np.inf).min(axis=1)
        found, alarms = passed[:, member].sum(axis=1), passed[:, ~member].sum(axis=1)
        gap = found / member.sum() - alarms / (~member).sum()
        place = np.lexsort((-gap, -bounds[found, alarms]))[0]
        quality = (float(bounds[found, alarms][place]), float(gap[place]))
        if quality > best:
            halfway = (column[place] + above[place]) / 2
            best, rule = quality, (signal, float(halfway))
    return rule


def _bound_table(members: int, others: int, delta: float) -> Floats:
    """Return the bound of every (members found, false alarms)."""
    tpr = np.array([clopper_pearson(k, members, ALPHA / 2)[0] for k in range(members + 1)])
    fpr = np.array([clopper_pearson(k, others, ALPHA / 2)[1] for k in range(others + 1)])
    return np.array([[_bound(t, f, delta) for f in fpr.tolist()] for t in tpr.tolist()])


def gdp_mu(auc: float) -> float:
    """Return μ̂ = √2 Φ⁻¹(AUC), at least 0: an estimate, never a bound.

    >>> gdp_mu(0.5), gdp_mu(0.4), round(gdp_mu(0.76025), 3)
    (0.0, 0.0, 1.0)
    """
    from scipy.stats import norm

    return max(0.0, math.sqrt(2) * float(norm.ppf(auc)))
