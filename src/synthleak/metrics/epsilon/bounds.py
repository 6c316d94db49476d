"""The test of a claim and the bound on ε from one trial per instance, and the μ of a Gaussian.

In every trial the score of the designated target passes a threshold, chosen on other instances, or
does not. Members pass at the rate TPR, non-members at FPR, and a claim requires that TPR is at most
its curve at FPR. One-sided binomial tests of both rates, shared equally, turn counts into a p-value
of the whole curve; at a single (ε, δ), Clopper–Pearson limits give a bound that holds with
probability 1 − α (docs/method.md §8.9; design/epsilon.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.epsilon.claims import LARGEST, Promise, TradeOff
from synthleak.metrics.types import Bools, Rng

ALPHA = 0.05
RESERVED = 0.4
ENOUGH, LEAST_SHARE = 200, 0.2
"""More trials than `ENOUGH` are reserved only where they are less than `LEAST_SHARE` of all."""
_FPR = (np.arange(1, 401) / 400) ** 2
"""False-positive rates that are tried as the true one: between two of them p errs upwards."""


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound on ε at `delta`, and the largest claim that the design can contradict.

    `p` is that of the claim's whole curve, None without a claim. `trials` is the number counted;
    `reason` says why there is no bound.
    """

    lower: float | None
    largest: float | None
    delta: float
    trials: int
    method: str
    reason: str | None = None
    p: float | None = None


def reserved_share(trials: int, share: float) -> float:
    """Return the share of trials that is reserved for choices: less where there are many.

    >>> [reserved_share(trials, 0.5) for trials in (140, 800, 1000, 50_000)]
    [0.5, 0.25, 0.2, 0.2]
    """
    return max(min(share, ENOUGH / trials), LEAST_SHARE)


def largest_refuted(refutes: Callable[[float], bool]) -> float:
    """Return the largest ε that is refuted, where all smaller ones are; 0 if none is."""
    low, high = 0.0, LARGEST
    if not refutes(low):
        return low
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refutes(middle) else (low, middle)
    return low


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


@lru_cache(maxsize=64)
def lone_p_values(members: int, others: int, curve: TradeOff) -> Floats:
    """Return p of a curve for every (members found, false alarms).

    If FPR were x, so few alarms or fewer have probability a(x); if it is at most x, TPR is at most
    the curve there, and so many members or more have probability at most b(x). One of both is small
    whatever x is, or the curve is not refuted: p = 2 min over x of max(a(x), b(x)).

    >>> table = lone_p_values(30, 30, TradeOff(((1.0, 0.0),)))
    >>> bool(table[30, 0] < 1e-3), float(table[10, 10])
    (True, 1.0)
    """
    from scipy.stats import binom

    few = binom.cdf(np.arange(others + 1)[:, None], others, _FPR)
    many = binom.sf(np.arange(members + 1)[:, None] - 1, members, curve.tpr(_FPR))
    smallest = [np.maximum(few, row).min(axis=1) for row in many]
    table: Floats = np.minimum(1.0, 2 * np.array(smallest))
    return table


def lone_epsilon(
    scores: Floats, member: Bools, promise: Promise, rng: Rng, alpha: float = ALPHA
) -> EpsilonBound:
    """Test a claim and bound ε by `scores[instance, signal]` of each instance's designated target.

    Signal and threshold are chosen on a reserved 40% of instances (fewer of more than 500),
    stratified by membership; the rest is counted. Choosing on counted instances would invalidate
    both.
    """
    method = "one trial per instance, choices on a reserved part"
    reserved = np.zeros(len(member), dtype=np.bool_)
    for side in (member, ~member):
        drawn = rng.permutation(np.flatnonzero(side))
        reserved[drawn[: _reserved_of(len(drawn), len(member))]] = True
    counts = [int((~reserved & side).sum()) for side in (member, ~member)]
    kept = [int((reserved & side).sum()) for side in (member, ~member)]
    delta = promise.delta
    if min(counts + kept) < 1:
        reason = f"{int(member.sum())} members and {int((~member).sum())} others are too few"
        return EpsilonBound(None, None, delta, sum(counts), method, reason)
    signal, threshold = _best_rule(scores[reserved], member[reserved], promise.aim)
    passed = scores[~reserved, signal] > threshold
    truth = member[~reserved]
    found, alarms = int((passed & truth).sum()), int((passed & ~truth).sum())
    p = None
    if promise.curve is not None:
        p = float(lone_p_values(*counts, promise.curve)[found, alarms])
    lower = epsilon_of_counts(found, counts[0], alarms, counts[1], delta, alpha)
    largest = largest_lone(int(member.sum()), int((~member).sum()), promise, alpha)
    return EpsilonBound(lower, largest, delta, sum(counts), method, p=p)


@lru_cache(maxsize=64)
def largest_lone(members: int, others: int, promise: Promise, alpha: float = ALPHA) -> float | None:
    """Return the largest ε of such a claim that `members` and `others` can refute at level α.

    None if they are too few. A stated point is refuted up to a smaller ε than a whole curve.

    >>> [round(largest_lone(n, n, Promise(0.0)), 2) for n in (50, 10)]
    [2.03, 0.16]
    """
    kept = [_reserved_of(side, members + others) for side in (members, others)]
    counts = [members - kept[0], others - kept[1]]
    if min(counts + kept) < 1:
        return None
    tpr = clopper_pearson(counts[0], counts[0], alpha / 2)[0]
    fpr = np.array([clopper_pearson(0, counts[1], alpha / 2)[1]])
    return largest_refuted(lambda epsilon: bool(promise.alike(epsilon).tpr(fpr)[0] < tpr))


def _reserved_of(side: int, trials: int) -> int:
    return round(reserved_share(trials, RESERVED) * side)


def _best_rule(scores: Floats, member: Bools, curve: TradeOff) -> tuple[int, float]:
    """Return the signal and threshold with the smallest p, ties by TPR − FPR, then by order.

    A threshold lies halfway between two scores, so that it favours neither side.
    """
    table = lone_p_values(int(member.sum()), int((~member).sum()), curve)
    best, rule = (-1.0, -math.inf), (0, math.inf)
    for signal, column in enumerate(scores.T):
        passed = column > column[:, None]
        above = np.where(passed, column, np.inf).min(axis=1)
        found, alarms = passed[:, member].sum(axis=1), passed[:, ~member].sum(axis=1)
        gap = found / member.sum() - alarms / (~member).sum()
        place = np.lexsort((-gap, table[found, alarms]))[0]
        quality = (1 - float(table[found, alarms][place]), float(gap[place]))
        if quality > best:
            halfway = (column[place] + above[place]) / 2
            best, rule = quality, (signal, float(halfway))
    return rule


def gdp_mu(auc: float) -> float:
    """Return μ̂ = √2 Φ⁻¹(AUC), at least 0: an estimate, never a bound.

    >>> gdp_mu(0.5), gdp_mu(0.4), round(gdp_mu(0.76025), 3)
    (0.0, 0.0, 1.0)
    """
    from scipy.stats import norm

    return max(0.0, math.sqrt(2) * float(norm.ppf(auc)))
