"""Tests of privacy claims by their whole curve, and lower bounds on ε (docs/method.md §8.9).

Every point (ε, δ) of a claim limits the rates of a test that tells members from others: TPR ≤ e^ε
FPR + δ and 1 − FPR ≤ e^ε (1 − TPR) + δ. The tightest of all points is the claim's curve. `lone` has
one trial per instance, tested by binomial tests; `cohort`, and `given` by coins, many independent
coins at once (Mahloujifar, Melis and Chaudhuri, 2024, arXiv 2410.22235).

Guesses use outputs only, and all choices are made on other instances (docs/design/epsilon.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from synthleak.core.spec import Adjacency
from synthleak.evidence.observation import Floats
from synthleak.metrics.types import Bools, Ints, Rng
from synthleak.releases.claim import Claim, gaussian_delta, gaussian_mu

POINTS = 96
LARGEST = 50.0
"""The largest ε of a point, and of a bound: beyond it nothing is allowed that is not possible."""
_BINS = 4096


@dataclass(frozen=True)
class TradeOff:
    """A curve given by points (ε, δ): fewer points allow more, so that a test stays valid."""

    points: tuple[tuple[float, float], ...]

    @cached_property
    def _lines(self) -> Floats:
        """`[line, (slope, at 0)]` of the TPR: two lines for each point."""
        epsilon, delta = np.array(self.points, dtype=np.float64).T
        slope = np.exp(np.stack([epsilon, -epsilon]))
        at_zero = np.stack([delta, 1 - (1 - delta) * slope[1]])
        return np.stack([slope.ravel(), at_zero.ravel()], axis=1)

    def tpr(self, fpr: Floats) -> Floats:
        """Return the largest TPR allowed at each FPR.

        >>> TradeOff(((math.log(3), 0.1),)).tpr(np.array([0.0, 0.05, 1.0])).round(4).tolist()
        [0.1, 0.25, 1.0]
        """
        slope, at_zero = self._lines.T[:, :, None]
        tightest: Floats = (slope * fpr + at_zero).min(axis=0)
        return np.clip(tightest, 0.0, 1.0)

    @cached_property
    def _steepest(self) -> tuple[list[float], list[float]]:
        """The line that needs the largest FPR in each bin of √TPR, as slope and value at 0."""
        slope, at_zero = self._lines.T
        tpr = ((np.arange(_BINS + 1) + 0.5) / _BINS) ** 2
        best = ((tpr[:, None] - at_zero) / slope).argmax(axis=1)
        return (1 / slope[best]).tolist(), (-at_zero[best] / slope[best]).tolist()

    def fpr(self, tpr: float) -> float:
        """Return the smallest FPR at which this TPR is allowed, or a little less.

        >>> round(TradeOff(((math.log(3), 0.1),)).fpr(0.25), 6)
        0.05
        """
        if len(self.points) == 1:
            epsilon, delta = self.points[0]
            growth = math.exp(epsilon)
            return max(0.0, (tpr - delta) / growth, 1 - delta - (1 - tpr) * growth)
        slopes, at_zero = self._steepest
        bin_of_tpr = int(math.sqrt(min(tpr, 1.0)) * _BINS)
        return max(0.0, slopes[bin_of_tpr] * tpr + at_zero[bin_of_tpr])


def point_curve(epsilon: float, delta: float) -> TradeOff:
    """Return what the single point (ε, δ) allows."""
    return TradeOff(((epsilon, delta),))


def gaussian_curve(mu: float) -> TradeOff:
    """Return what a Gaussian mechanism with means μ apart allows.

    >>> round(float(gaussian_curve(1.0).tpr(np.array([0.5]))[0]), 3)
    0.841
    """
    epsilons = np.linspace(0.0, min(LARGEST, mu * (mu / 2 + 5)), POINTS)
    return TradeOff(tuple((e, gaussian_delta(mu, e)) for e in epsilons.tolist()))


@dataclass(frozen=True)
class Promise:
    """A claim as it is tested: its curve, and the δ at which one ε stands for it.

    `curve` is None where nothing is promised; `gaussian` says that a claim of another ε would be
    that of a Gaussian mechanism, and not a single point.
    """

    delta: float
    curve: TradeOff | None = None
    gaussian: bool = False

    @property
    def aim(self) -> TradeOff:
        """The curve that choices are made against; that of ε = 1 if nothing is promised."""
        return self.curve or point_curve(1.0, self.delta)

    def alike(self, epsilon: float) -> TradeOff:
        """Return the curve of a claim of the same kind, with this ε at the same δ."""
        if self.gaussian and self.delta > 0:
            return gaussian_curve(gaussian_mu(epsilon, self.delta))
        return point_curve(epsilon, self.delta)


def promise_of(claim: Claim, adjacency: Adjacency, nominal: int) -> Promise:
    """Return a claim as it is tested; without one, a bound on ε is measured at δ = 1/N².

    A claim that is one stated point has the δ of that point, as it is for this adjacency.
    """
    if not claim.promises:
        return Promise(1 / nominal**2)
    delta = claim.point(adjacency)[1] if claim.stated else claim.delta
    return Promise(delta, curve_of(claim, adjacency), not claim.stated)


def curve_of(claim: Claim, adjacency: Adjacency) -> TradeOff:
    """Return the curve of a claim: a stated point alone, else many points of its δ(ε)."""
    if claim.stated:
        epsilon, delta = claim.point(adjacency)
        return point_curve(min(epsilon, LARGEST), delta if epsilon <= LARGEST else 1.0)
    top = min(LARGEST, max(claim.epsilon_at(min(claim.delta, 1e-6), adjacency), 1e-3))
    epsilons = np.linspace(0.0, top, POINTS).tolist()
    return TradeOff(tuple((e, min(1.0, claim.delta_at(e, adjacency))) for e in epsilons))


def claim_roc(claim: Claim, adjacency: Adjacency, fpr: Floats) -> Floats:
    """Return the trade-off curve of a claim as TPR at FPR; without a claim all is allowed."""
    return curve_of(claim, adjacency).tpr(fpr) if claim.promises else np.ones_like(fpr)


ALPHA = 0.05
RESERVED = 0.4
ENOUGH, LEAST_SHARE = 200, 0.2
"""More trials than `ENOUGH` are reserved only where they are less than `LEAST_SHARE` of all."""
LONE_VERSION = 2
NEARLY = 10
"""A signal of `lone` is nearly as good as the best if its p is at most this many times larger."""
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
    members_found: int, members: int, alarms: int, others: int, delta: float, alpha: float = ALPHA
) -> float:
    """Return the lower bound on ε from these counts, with confidence 1 − α.

    >>> [round(epsilon_of_counts(n, n, 0, n, 0.0), 2) for n in (50, 25)]
    [2.57, 1.84]
    """
    tpr = clopper_pearson(members_found, members, alpha / 2)[0]
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
    return np.asarray(np.minimum(1.0, 2 * np.array(smallest)))


def lone_epsilon(
    scores: Floats, member: Bools, promise: Promise, rng: Rng, alpha: float = ALPHA
) -> EpsilonBound:
    """Test a claim and bound ε by `scores[instance, signal]` of each instance's designated target.

    Choosing on counted instances would invalidate both: a part is reserved for it.
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
    signal, threshold = _best_rule(scores[reserved], member[reserved], promise)
    passed = scores[~reserved, signal] > threshold
    truth = member[~reserved]
    members_found, alarms = int((passed & truth).sum()), int((passed & ~truth).sum())
    p = None
    if promise.curve is not None:
        p = float(lone_p_values(*counts, promise.curve)[members_found, alarms])
    lower = epsilon_of_counts(members_found, counts[0], alarms, counts[1], delta, alpha)
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


def _best_rule(scores: Floats, member: Bools, promise: Promise) -> tuple[int, float]:
    """Return the signal and threshold to count by (docs/method.md §8.9, reserved part).

    A threshold has the smallest p of its signal, ties by TPR − FPR, then by order, and lies halfway
    between two scores, so that it favours neither side.
    """
    table = lone_p_values(int(member.sum()), int((~member).sum()), promise.aim)
    qualities, thresholds = [], []
    for column in scores.T:
        passed = column > column[:, None]
        above = np.where(passed, column, np.inf).min(axis=1)
        members_found, alarms = passed[:, member].sum(axis=1), passed[:, ~member].sum(axis=1)
        gap = members_found / member.sum() - alarms / (~member).sum()
        p = table[members_found, alarms]
        strictest = np.lexsort((-gap, p))[0]
        qualities.append((1 - float(p[strictest]), float(gap[strictest])))
        thresholds.append(float(column[strictest] + above[strictest]) / 2)
    best = max(range(len(qualities)), key=lambda signal: qualities[signal])
    if promise.curve is not None:
        p = 1 - np.array(qualities)[:, 0]
        near = p <= NEARLY * p[best]
        best = int(np.where(near, _distance(scores, member), -np.inf).argmax())
    return best, thresholds[best]


def _distance(scores: Floats, member: Bools) -> Floats:
    """Return how far members are from the others in each signal, in standard deviations."""
    spread = np.sqrt((scores[member].var(axis=0) + scores[~member].var(axis=0)) / 2)
    apart = scores[member].mean(axis=0) - scores[~member].mean(axis=0)
    farthest = np.where(apart > 0, np.inf, 0.0)
    return np.asarray(np.divide(apart, spread, out=farthest, where=spread > 0))


def gdp_mu(auc: float) -> float:
    """Return μ̂ = √2 Φ⁻¹(AUC), at least 0: how far apart two normal scores would be.

    Of a mechanism it is an estimate, never a bound.

    >>> gdp_mu(0.5), gdp_mu(0.4), round(gdp_mu(0.76025), 3)
    (0.0, 0.0, 1.0)
    """
    from scipy.stats import norm

    return max(0.0, math.sqrt(2) * float(norm.ppf(auc)))


SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
"""Shares of the coins to guess on each side."""
HALF = 0.5
METHOD = "one-run test over all counted coins, choices on a reserved part"
_SMALLEST = -40.0
"""log2 of the smallest p that is told from 0."""


def refuted(level: float, coins: int, guesses: int, right: int, curve: TradeOff) -> bool:
    """Say whether `right` or more of `guesses` have a smaller probability than `level`.

    Let p_j be the probability of j right guesses, A = Σ_{j ≥ i} j p_j / m and B = Σ_{j ≥ i} (r − j)
    p_j / m. Turning a coin whose guess is right makes one guess wrong, so that the curve limits A
    from i on by B from i − 1 on. Where the tail has probability `level`, this forces the p_j below
    it to be large; a total above 1 refutes the curve.
    """
    hits, misses = level * right / coins, level * (guesses - right) / coins
    for count in range(right - 1, -1, -1):
        needed = curve.fpr(hits)
        if needed <= misses:
            return False
        hits += count / (guesses - count) * (needed - misses)
        misses = needed
        if hits + misses > guesses / coins:
            return True
    return False


@lru_cache(maxsize=4096)
def one_run_p_value(coins: int, guesses: int, right: int, curve: TradeOff) -> float:
    """Return the largest probability that a curve allows for `right` or more right guesses.

    `coins` counts abstentions too. Under ε = 1 randomised response gives 90 of 100 with probability
    0.0000274; the test, which knows less of the mechanism, allows a little more:

    >>> 2.74e-5 < one_run_p_value(100, 100, 90, TradeOff(((1.0, 0.0),))) < 2.9e-5
    True
    """
    low, high = _SMALLEST, 0.0
    if not refuted(1.0, coins, guesses, right, curve):
        return 1.0
    for _ in range(30):
        middle = (low + high) / 2
        beyond = refuted(math.exp2(middle), coins, guesses, right, curve)
        low, high = (low, middle) if beyond else (middle, high)
    return math.exp2(high)


def one_run_epsilon(
    coins: int, guesses: int, right: int, delta: float, alpha: float = ALPHA
) -> float:
    """Return the largest ε that `right` of `guesses` refute at level α, or 0."""
    return largest_refuted(
        lambda epsilon: refuted(alpha, coins, guesses, right, point_curve(epsilon, delta))
    )


def cohort_epsilon(
    values: Floats,
    coins: Bools,
    promise: Promise,
    order: Ints,
    rng: Rng,
    alpha: float = ALPHA,
) -> EpsilonBound:
    """Test a claim and bound ε by `values[instance, target, signal]` and `coins[instance, target]`.

    `order` ranks the targets by their content: it decides which records are reserved, and between
    equal scores. Neither it nor `rng` may know a coin.
    """
    reserved = _reserved(coins.shape, order, rng)
    counted, delta = int((~reserved).sum()), promise.delta
    if min(counted, int(reserved.sum())) < 1:
        reason = f"{coins.size} coin is too few to choose and to count"
        return EpsilonBound(None, None, delta, counted, METHOD, reason)
    table, ties = _comparable(values), np.broadcast_to(order, coins.shape)
    column, high, low = _best_guesses(
        table[reserved], coins[reserved], ties[reserved], promise.aim, counted
    )
    guess = _guess(table[~reserved][:, column], ties[~reserved], high, low)
    right = int((guess == np.where(coins[~reserved], 1, -1)).sum())
    guessed = int((guess != 0).sum())
    p = None
    if promise.curve is not None:
        p = one_run_p_value(counted, guessed, right, promise.curve)
    return EpsilonBound(
        lower=one_run_epsilon(counted, guessed, right, delta, alpha),
        largest=largest_one_run(coins.shape, promise, alpha),
        delta=delta,
        trials=counted,
        method=METHOD,
        p=p,
    )


@lru_cache(maxsize=64)
def largest_one_run(shape: tuple[int, ...], promise: Promise, alpha: float = ALPHA) -> float | None:
    """Return the largest ε of such a claim that coins `[instance, target]` can refute at level α.

    That is if all guesses are right. A stated point is refuted up to a smaller ε than a curve.
    """
    instances, targets = shape
    counted = instances * targets - _reserved_units(shape) * (targets if instances > 1 else 1)
    if min(counted, instances * targets - counted) < 1:
        return None
    return largest_refuted(
        lambda epsilon: refuted(alpha, counted, counted, counted, promise.alike(epsilon))
    )


def _reserved_units(shape: tuple[int, ...]) -> int:
    """Return how many instances are reserved, or how many records of a single instance."""
    instances, targets = shape
    units = instances if instances > 1 else targets
    return round(reserved_share(instances * targets, HALF) * units)


def _reserved(shape: tuple[int, ...], order: Ints, rng: Rng) -> Bools:
    instances, _ = shape
    reserved, count = np.zeros(shape, dtype=np.bool_), _reserved_units(shape)
    if instances > 1:
        reserved[rng.permutation(instances)[:count]] = True
    else:
        reserved[:, np.argsort(order)[:count]] = True
    return reserved


def _comparable(values: Floats) -> Floats:
    """Return each signal as it is, and as a rank among the record's own releases."""
    from scipy.stats import rankdata

    if len(values) == 1:
        return values
    return np.concatenate([values, rankdata(values, axis=0)], axis=2)


def _best_guesses(
    table: Floats, coins: Bools, ties: Ints, curve: TradeOff, counted: int
) -> tuple[int, float, float]:
    """Return the column and the shares to guess IN and OUT that these coins speak for.

    They are those with the smallest p if as large a share of the `counted` coins is guessed right,
    with one more wrong guess here: else a few lucky ones would decide.
    """
    placed = np.argsort(ties, kind="stable")
    table, coins = table[placed], coins[placed]
    order = np.argsort(table, axis=0, kind="stable")
    joined = np.cumsum(coins[order[::-1]], axis=0)
    absent = np.cumsum(~coins[order], axis=0)
    best, rule = (-1.0, -1.0), (0, SHARES[-1], 0.0)
    for share in SHARES:
        count = round(share * len(coins))
        if count == 0:
            continue
        for low in (0.0, share):
            right = joined[count - 1] + (absent[count - 1] if low else 0)
            guessed, column = count * (2 if low else 1), int(np.argmax(right))
            if guessed > len(coins):
                continue
            rate = float(right[column] / (guessed + 1))
            guesses = round(guessed / len(coins) * counted)
            p = one_run_p_value(counted, guesses, round(rate * guesses), curve)
            quality = (1 - p, rate)
            if quality > best:
                best, rule = quality, (column, share, low)
    return rule


def _guess(scores: Floats, ties: Ints, high: float, low: float) -> Ints:
    """Return 1 (joined) for the highest, −1 (absent) for the lowest, 0 (no guess) between.

    Ties are ordered as given, which is not the order of the records: that may be that of coins.
    """
    order = np.lexsort((ties, scores))
    guess = np.zeros(len(scores), dtype=np.int64)
    guess[order[: round(low * len(scores))]] = -1
    guess[order[len(scores) - round(high * len(scores)) :]] = 1
    return guess
