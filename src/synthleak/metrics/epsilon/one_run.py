"""The test of a claim and a lower bound on ε from many independent coins at once.

If every coin decides about one record, and all releases together keep to a trade-off curve for each
record, then the number of right guesses has a tail that the curve limits (Mahloujifar, Melis and
Chaudhuri, 2024, arXiv 2410.22235). In `cohort` each coin concerns one independently noised release,
so n·|P| coins may be counted together. Guesses use outputs only, and all choices are made on other
instances (docs/method.md §8.9; design/epsilon.md).
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.epsilon.bounds import ALPHA, EpsilonBound, largest_refuted, reserved_share
from synthleak.metrics.epsilon.claims import Promise, TradeOff, point_curve
from synthleak.metrics.types import Bools, Ints, Rng

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

    On half of the instances (fewer of more than 400 coins; of the records, if there is one
    instance) the signal, the scale and the number of guesses are chosen; the rest is guessed and
    counted. `order` ranks the targets by their content: it decides which records are reserved, and
    between equal scores. Neither it nor `rng` may know a coin.
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
