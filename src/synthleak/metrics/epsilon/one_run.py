"""A lower bound on ε from many independent coins at once (Steinke, Nasr and Jagielski, 2023).

If every coin decides about one record and all releases together are (ε, δ)-private for each record,
then the number of right guesses among r is, up to δ, no larger than among r tosses that are right
with probability e^ε / (1 + e^ε). In `cohort` each coin concerns one independently noised release,
so n·|P| coins may be counted together. Guesses use outputs only, and all choices are made on other
instances (docs/method.md §8; design/epsilon.md).
"""

from __future__ import annotations

import math

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.epsilon.bounds import ALPHA, EpsilonBound
from synthleak.metrics.types import Bools, Ints, Rng

SHARES = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.4)
"""Shares of the coins to guess on each side: fewer than half, since there may be few heads."""
LARGEST = 50.0
METHOD = "one-run bound over all coins, choices on a reserved half"


def one_run_p_value(coins: int, guesses: int, right: int, epsilon: float, delta: float) -> float:
    """Return the chance of `right` or more right guesses under (ε, δ): β + 2mδα, m coins.

    β = P[X ≥ v] and α = max over i of P[v > X ≥ v − i] / i, for X binomial with r tosses at
    e^ε / (1 + e^ε). Abstentions cost nothing in r but count in m.

    >>> round(one_run_p_value(100, 100, 75, math.log(3), 0.0), 4)
    0.5535
    """
    from scipy.stats import binom

    rate = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(right - 1, guesses, rate))
    if delta == 0 or right == 0:
        return min(1.0, tail)
    below = np.cumsum(binom.pmf(np.arange(right - 1, -1, -1), guesses, rate))
    steepest = float((below / np.arange(1, right + 1)).max())
    return min(1.0, tail + 2 * coins * delta * steepest)


def one_run_epsilon(
    coins: int, guesses: int, right: int, delta: float, alpha: float = ALPHA
) -> float:
    """Return the largest ε that `right` of `guesses` refute at level α, or 0."""
    if guesses == 0 or one_run_p_value(coins, guesses, right, 0.0, delta) > alpha:
        return 0.0
    low, high = 0.0, LARGEST
    for _ in range(50):
        middle = (low + high) / 2
        refuted = one_run_p_value(coins, guesses, right, middle, delta) <= alpha
        low, high = (middle, high) if refuted else (low, middle)
    return low


def audit_delta(claimed: float, coins: int) -> float:
    """Return δ_a = min(δ_claim, 1 / (100 m)): with a larger δ the δ term would swamp the bound."""
    return min(claimed, 1 / (100 * coins))


def cohort_epsilon(
    values: Floats, coins: Bools, delta: float, rng: Rng, alpha: float = ALPHA
) -> EpsilonBound:
    """Bound ε from `values[instance, target, signal]` and `coins[instance, target]`.

    On half of the instances (of the records, if there is one instance) the signal, the scale and
    the number of guesses are chosen; the other half is guessed and counted.
    """
    reserved = _reserved(coins.shape, rng)
    counted = int((~reserved).sum())
    if min(counted, int(reserved.sum())) < 1:
        reason = f"{coins.size} coin is too few to choose and to count"
        return EpsilonBound(None, None, delta, counted, METHOD, reason)
    table = _comparable(values)
    column, high, low = _best_guesses(table[reserved], coins[reserved], rng)
    guess = _guess(table[~reserved][:, column], high, low, rng)
    right = int((guess == np.where(coins[~reserved], 1, -1)).sum())
    guessed = int((guess != 0).sum())
    return EpsilonBound(
        lower=one_run_epsilon(coins.size, guessed, right, delta, alpha),
        largest=largest_one_run(coins.shape, delta, alpha),
        delta=delta,
        trials=counted,
        method=METHOD,
    )


def largest_one_run(shape: tuple[int, ...], delta: float, alpha: float = ALPHA) -> float | None:
    """Return the bound that coins `[instance, target]` give if all guesses are right."""
    instances, targets = shape
    counted = (instances - instances // 2) * targets if instances > 1 else targets - targets // 2
    if min(counted, instances * targets - counted) < 1:
        return None
    return one_run_epsilon(instances * targets, counted, counted, delta, alpha)


def _reserved(shape: tuple[int, ...], rng: Rng) -> Bools:
    instances, targets = shape
    reserved = np.zeros(shape, dtype=np.bool_)
    if instances > 1:
        reserved[rng.permutation(instances)[: instances // 2]] = True
    else:
        reserved[:, rng.permutation(targets)[: targets // 2]] = True
    return reserved


def _comparable(values: Floats) -> Floats:
    """Return each signal as it is, and as a rank among the record's own releases."""
    from scipy.stats import rankdata

    if len(values) == 1:
        return values
    return np.concatenate([values, rankdata(values, axis=0)], axis=2)


def _best_guesses(table: Floats, coins: Bools, rng: Rng) -> tuple[int, float, float]:
    """Return the column and the shares to guess IN and OUT that bound ε best on these coins."""
    from scipy.stats import beta

    # Ties are ordered at random: the order of the records may be that of their coins.
    drawn = rng.permutation(len(coins))
    table, coins = table[drawn], coins[drawn]
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
            guessed = count * (2 if low else 1)
            bound = beta.ppf(ALPHA, right, guessed - right + 1)
            column = int(np.argmax(np.nan_to_num(bound)))
            quality = (float(np.nan_to_num(bound)[column]), float(right[column] / guessed))
            if quality > best:
                best, rule = quality, (column, share, low)
    return rule


def _guess(scores: Floats, high: float, low: float, rng: Rng) -> Ints:
    """Return 1 (joined) for the highest, −1 (absent) for the lowest, 0 (no guess) between.

    Ties are ordered at random.
    """
    order = np.lexsort((rng.random(len(scores)), scores))
    guess = np.zeros(len(scores), dtype=np.int64)
    guess[order[: round(low * len(scores))]] = -1
    guess[order[len(scores) - round(high * len(scores)) :]] = 1
    return guess
