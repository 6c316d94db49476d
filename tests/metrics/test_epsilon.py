"""Bounds on ε: equal to hand-worked cases and other implementations, and true at their level."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from support.oracles import nulls as oracle
from synthleak.core.seeds import stream
from synthleak.metrics.epsilon import (
    ALPHA,
    Promise,
    TradeOff,
    clopper_pearson,
    cohort_epsilon,
    epsilon_of_counts,
    gaussian_curve,
    gdp_mu,
    largest_lone,
    largest_one_run,
    lone_epsilon,
    lone_p_values,
    one_run_epsilon,
    one_run_p_value,
    point_curve,
)


@pytest.mark.parametrize(("hits", "trials"), [(0, 7), (1, 7), (4, 9), (50, 50), (13, 300)])
def test_clopper_pearson_equals_scipy(hits: int, trials: int) -> None:
    exact = binomtest(hits, trials).proportion_ci(confidence_level=0.95, method="exact")
    assert clopper_pearson(hits, trials, 0.025) == pytest.approx((exact.low, exact.high))


def test_the_largest_bounds_of_the_method() -> None:
    """docs/method.md §8: 2.57 at 50/50 and 1.84 at 25/25. By hand: ln(a / (1 − a)) with a =
    0.025^(1/n)."""
    for n, stated in ((50, 2.57), (25, 1.84)):
        a = 0.025 ** (1 / n)
        found = epsilon_of_counts(n, n, 0, n, 0.0)
        assert found == pytest.approx(math.log(a / (1 - a)))
        assert round(found, 2) == stated


def test_either_error_rate_can_carry_the_bound() -> None:
    one = epsilon_of_counts(30, 100, 0, 100, 0.0)
    mirrored = epsilon_of_counts(100, 100, 70, 100, 0.0)
    assert one == pytest.approx(mirrored) and one > 1.5
    assert epsilon_of_counts(50, 100, 50, 100, 0.0) == 0.0
    assert epsilon_of_counts(30, 100, 0, 100, 0.2) < one
    assert epsilon_of_counts(1, 100, 0, 100, 0.5) == 0.0


def randomised_response(epsilon: float, bits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The mechanism that just honours ε: tell the truth with probability e^ε / (1 + e^ε)."""
    truth = rng.random(bits.shape) < 1 / (1 + math.exp(-epsilon))
    return np.where(truth, bits, ~bits).astype(float)


def point(epsilon: float, delta: float = 0.0) -> Promise:
    return Promise(delta, point_curve(epsilon, delta))


def gaussian(mu: float) -> Promise:
    return Promise(1e-6, gaussian_curve(mu), gaussian=True)


def counted(values: np.ndarray, coins: np.ndarray, promise: Promise, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    return cohort_epsilon(values, coins, promise, np.arange(coins.shape[1]), rng)


def test_a_claim_of_lone_is_broken_where_the_limits_pass_its_curve() -> None:
    """p is the smallest level at which the lower limit of TPR lies above the curve at that of
    FPR."""
    curve = gaussian_curve(1.0)
    table = lone_p_values(30, 25, curve)
    assert table.shape == (31, 26)
    for found, alarms in ((30, 0), (27, 3), (20, 1), (12, 10), (30, 14)):
        p = table[found, alarms]
        for level, refuted in ((p * 1.02, True), (p / 1.1, False)):
            tpr = clopper_pearson(found, 30, min(level, 1.0) / 2)[0]
            fpr = clopper_pearson(alarms, 25, min(level, 1.0) / 2)[1]
            if p < 1:
                assert (tpr > curve.tpr(np.array([fpr]))[0]) == refuted
    assert (np.diff(table, axis=0) <= 1e-12).all() and (np.diff(table, axis=1) >= -1e-12).all()


def test_the_test_of_lone_holds_its_level_whatever_the_rates() -> None:
    """Exactly: outcomes with p ≤ α, weighed by their probability on the edge of the claim."""
    from scipy.stats import binom

    for curve in (gaussian_curve(0.5), gaussian_curve(2.0), point_curve(1.5, 0.01)):
        table = lone_p_values(30, 20, curve)
        for fpr in np.linspace(0.001, 0.95, 60):
            tpr = curve.tpr(np.array([fpr]))[0]
            chance = np.outer(binom.pmf(range(31), 30, tpr), binom.pmf(range(21), 20, fpr))
            for level in (0.01, 0.05, 0.2):
                assert chance[table <= level].sum() <= level


def test_the_test_of_lone_holds_against_a_tight_mechanism() -> None:
    broken, above = 0, 0
    for seed in range(300):
        rng = stream(seed, "tight")
        member = np.arange(100) % 2 == 0
        scores = np.stack([randomised_response(1.5, member, rng), rng.random(100)], axis=1)
        bound = lone_epsilon(scores, member, point(1.5), rng)
        assert bound.lower is not None and bound.p is not None and bound.trials == 60
        broken += bound.p <= ALPHA
        above += bound.lower > 1.5
    assert max(broken, above) <= 15 + 12  # 5% of 300 and three standard errors


def test_the_test_of_cohort_holds_against_a_tight_mechanism() -> None:
    broken, total = 0, 0.0
    for seed in range(150):
        rng = stream(seed, "one run")
        coins = rng.integers(0, 2, size=(20, 15)).astype(bool)
        values = np.stack([rng.random((20, 15)), randomised_response(1.0, coins, rng)], axis=2)
        bound = counted(values, coins, point(1.0, 1e-7), rng)
        assert bound.lower is not None and bound.p is not None and bound.trials == 150
        broken += bound.p <= ALPHA
        total += bound.lower
    assert broken <= 7.5 + 9
    assert total / 150 > 0.3


def test_one_noise_for_all_records_does_not_break_an_honest_claim() -> None:
    """One draw of the noise moves all scores of a run together: the worst case of one run."""
    broken = 0
    for seed in range(150):
        rng = stream(seed, "shared noise")
        coins = rng.integers(0, 2, size=(1, 300)).astype(bool)
        exposed = rng.normal() > 1.0  # a run in six tells more, within the curve of μ = 1
        noise = rng.normal(size=(1, 300, 3)) * (0.5 if exposed else 1.0) + rng.normal()
        told = noise[..., 1] + coins * (0.5 if exposed else 0.9)
        values = np.stack([told, told + noise[..., 0], told**3, noise[..., 2]], axis=2)
        bound = counted(values, coins, gaussian(1.0), rng)
        assert bound.p is not None
        broken += bound.p <= ALPHA
    assert broken <= 7.5 + 9


def test_a_curve_is_broken_where_no_point_is() -> None:
    """Gaussian noise with a third of what was claimed, and 100 instances: no bound reaches ε."""
    lone, run = 0, 0
    for seed in range(20):
        rng = stream(seed, "a third")
        member = np.arange(100) % 2 == 0
        bound = lone_epsilon(
            rng.normal(size=(100, 4)) + 3 * np.outer(member, [0, 1, 0, 0]), member, gaussian(1), rng
        )
        assert bound.p is not None and bound.lower is not None
        assert bound.lower < 4.38  # the ε of μ = 1 at δ = 1e-6 is above all that 100 can bound
        lone += bound.p <= ALPHA
        coins = rng.integers(0, 2, size=(1, 800)).astype(bool)
        values = rng.normal(size=(1, 800, 4))
        values[..., 2] += 2.5 * coins
        found = counted(values, coins, gaussian(1), rng)
        run += found.p is not None and found.p <= ALPHA
    assert lone >= 17 and run >= 18


def test_noisy_copies_of_the_best_signal_do_not_hide_a_broken_claim() -> None:
    """On 40 reserved instances many signals separate as well; the first of them was taken."""
    broken = 0
    for seed in range(60):
        rng = stream(seed, "copies of the best")
        member = np.arange(100) % 2 == 0
        told = rng.normal(size=100) + 3 * member
        copies = told[:, None] + rng.normal(size=(100, 11)) + 0.5 * rng.normal(size=(100, 11))
        scores = np.insert(copies, 3, told, axis=1)
        bound = lone_epsilon(scores, member, gaussian(1), rng)
        broken += bound.p is not None and bound.p <= ALPHA
    assert broken >= 51


def test_a_signal_without_spread_is_the_farthest_there_is() -> None:
    member = np.arange(100) % 2 == 0
    scores = np.stack([stream(1, "n").normal(size=100), member.astype(float)], axis=1)
    scores[:, 0] += 4 * member
    bound = lone_epsilon(scores, member, gaussian(1), stream(2, "n"))
    assert bound.p == lone_p_values(30, 30, gaussian_curve(1))[30, 0]


def test_perfect_guesses_reach_the_largest_bound() -> None:
    rng = stream(4, "perfect")
    coins = rng.integers(0, 2, size=(10, 12)).astype(bool)
    values = coins[..., None] + 0.1 * rng.random((10, 12, 1))
    bound = counted(values, coins, Promise(1e-9), rng)
    assert bound.largest is not None and bound.lower is not None and bound.p is None
    assert bound.lower > 0.7 * bound.largest > 2
    member = np.arange(40) < 20
    lone = lone_epsilon(member[:, None] + 0.1 * rng.random((40, 1)), member, Promise(0.0), rng)
    assert lone.lower == pytest.approx(lone.largest, abs=1e-6)
    assert lone.lower == pytest.approx(epsilon_of_counts(12, 12, 0, 12, 0.0))


def test_the_largest_claim_is_the_last_that_perfect_guesses_refute() -> None:
    """140 coins of one run can contradict ε = 4 of a Gaussian mechanism, and no point (4, δ)."""
    whole, single = Promise(1e-6, gaussian=True), Promise(1e-6)
    largest = largest_one_run((1, 140), whole)
    assert largest is not None and largest > 4
    assert one_run_p_value(70, 70, 70, whole.alike(largest - 0.01)) <= ALPHA
    assert one_run_p_value(70, 70, 70, whole.alike(largest + 0.01)) > ALPHA
    assert largest_one_run((1, 140), single) == pytest.approx(3.13, abs=0.01)
    largest = largest_lone(50, 50, whole)
    assert largest is not None and largest > largest_lone(50, 50, single) > 2  # type: ignore[operator]
    assert lone_p_values(30, 30, whole.alike(largest - 0.1))[30, 0] <= ALPHA
    assert lone_p_values(30, 30, whole.alike(largest + 0.1))[30, 0] > ALPHA


def test_one_instance_chooses_on_half_of_its_records() -> None:
    rng = stream(5, "single")
    coins = rng.integers(0, 2, size=(1, 200)).astype(bool)
    bound = counted(coins[..., None] + rng.random((1, 200, 1)) / 4, coins, Promise(0.0), rng)
    assert bound.trials == 100 and bound.lower is not None and bound.lower > 1


def test_many_coins_leave_four_fifths_to_count() -> None:
    for shape, trials in (((1, 2000), 1600), ((1, 800), 600), ((50, 40), 1600), ((1, 140), 70)):
        rng = stream(6, "many")
        coins = rng.integers(0, 2, size=shape).astype(bool)
        values = coins[..., None] + rng.normal(size=(*shape, 1))
        assert counted(values, coins, Promise(0.0), rng).trials == trials


def test_too_few_trials_give_no_bound_but_a_reason() -> None:
    lone = lone_epsilon(np.zeros((2, 1)), np.array([True, False]), point(1.0), stream(1))
    assert lone.lower is None and lone.reason is not None and "too few" in lone.reason
    assert lone.p is None
    one = counted(np.zeros((1, 1, 1)), np.ones((1, 1), dtype=bool), point(1.0), stream(1))
    assert one.lower is None and one.p is None and one.reason is not None


@pytest.mark.parametrize("curve", [point_curve(0.4, 1e-3), gaussian_curve(1.0)])
@pytest.mark.parametrize(("coins", "guesses", "right"), [(20, 20, 18), (30, 10, 9), (24, 24, 15)])
def test_one_run_p_value_equals_the_oracle(
    curve: TradeOff, coins: int, guesses: int, right: int
) -> None:
    found = one_run_p_value(coins, guesses, right, curve)
    assert found == pytest.approx(oracle.one_run_p(coins, guesses, right, curve.points), rel=0.02)


def test_one_run_by_hand() -> None:
    """Three guesses, all right, at ε = 0: a coin turned makes each of three guesses wrong."""
    assert one_run_p_value(3, 3, 3, point_curve(0.0, 0.0)) == pytest.approx(1 / 8, rel=1e-3)
    # Five right of five refute ε while q^5 ≤ 0.05, q = e^ε / (1 + e^ε).
    q = 0.05 ** (1 / 5)
    assert one_run_epsilon(5, 5, 5, 0.0) == pytest.approx(math.log(q / (1 - q)), abs=1e-3)
    assert one_run_epsilon(5, 5, 2, 0.0) == 0.0
    assert one_run_epsilon(5, 0, 0, 0.0) == 0.0


def test_abstentions_count_as_coins() -> None:
    curve = gaussian_curve(1.0)
    assert one_run_p_value(1000, 50, 48, curve) > one_run_p_value(50, 50, 48, curve)
    assert one_run_epsilon(10_000, 50, 45, 1e-4) < one_run_epsilon(50, 50, 45, 1e-4)


def test_gaussian_estimate_of_known_shifts() -> None:
    """A shift of μ standard deviations has AUC Φ(μ/√2); below chance the estimate is 0."""
    rng = stream(3)
    high, low = rng.normal(1.2, 1, 40_000), rng.normal(0, 1, 40_000)
    assert gdp_mu(float((high > low).mean())) == pytest.approx(1.2, abs=0.03)
    assert gdp_mu(0.31) == 0.0
