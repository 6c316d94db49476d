"""Bounds on ε: equal to hand-worked cases and other implementations, and true at their level."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binomtest

from support.oracles import nulls as oracle
from synthleak.core.seeds import stream
from synthleak.metrics.epsilon.bounds import (
    clopper_pearson,
    epsilon_of_counts,
    gdp_mu,
    lone_epsilon,
)
from synthleak.metrics.epsilon.one_run import (
    audit_delta,
    cohort_epsilon,
    one_run_epsilon,
    one_run_p_value,
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


def test_the_bound_of_lone_holds_against_a_tight_mechanism() -> None:
    above, positive = 0, 0
    for seed in range(300):
        rng = stream(seed, "tight")
        member = np.arange(100) % 2 == 0
        scores = np.stack([randomised_response(1.5, member, rng), rng.random(100)], axis=1)
        bound = lone_epsilon(scores, member, 0.0, rng)
        assert bound.lower is not None and bound.trials == 60
        above += bound.lower > 1.5
        positive += bound.lower > 0
    assert above <= 15 + 12  # 5% of 300 and three standard errors
    assert positive > 100


def test_the_bound_of_cohort_holds_against_a_tight_mechanism() -> None:
    above, total = 0, 0.0
    for seed in range(150):
        rng = stream(seed, "one run")
        coins = rng.integers(0, 2, size=(20, 15)).astype(bool)
        values = np.stack([rng.random((20, 15)), randomised_response(1.0, coins, rng)], axis=2)
        bound = cohort_epsilon(values, coins, 1e-7, rng)
        assert bound.lower is not None and bound.trials == 150
        above += bound.lower > 1.0
        total += bound.lower
    assert above <= 7.5 + 9
    assert total / 150 > 0.3


def test_perfect_guesses_reach_the_largest_bound() -> None:
    rng = stream(4, "perfect")
    coins = rng.integers(0, 2, size=(10, 12)).astype(bool)
    values = coins[..., None] + 0.1 * rng.random((10, 12, 1))
    bound = cohort_epsilon(values, coins, 1e-9, rng)
    assert bound.largest is not None and bound.lower is not None
    assert bound.lower > 0.7 * bound.largest > 2
    member = np.arange(40) < 20
    lone = lone_epsilon(member[:, None] + 0.1 * rng.random((40, 1)), member, 0.0, rng)
    assert lone.lower == lone.largest == pytest.approx(epsilon_of_counts(12, 12, 0, 12, 0.0))


def test_one_instance_chooses_on_half_of_its_records() -> None:
    rng = stream(5, "single")
    coins = rng.integers(0, 2, size=(1, 200)).astype(bool)
    bound = cohort_epsilon(coins[..., None] + rng.random((1, 200, 1)) / 4, coins, 0.0, rng)
    assert bound.trials == 100 and bound.lower is not None and bound.lower > 1


def test_too_few_trials_give_no_bound_but_a_reason() -> None:
    lone = lone_epsilon(np.zeros((2, 1)), np.array([True, False]), 0.0, stream(1))
    assert lone.lower is None and lone.reason is not None and "too few" in lone.reason
    one = cohort_epsilon(np.zeros((1, 1, 1)), np.ones((1, 1), dtype=bool), 0.0, stream(1))
    assert one.lower is None and one.reason is not None


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 2.0])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
@pytest.mark.parametrize(("guesses", "right"), [(1, 1), (20, 0), (40, 31), (60, 60)])
def test_one_run_p_value_equals_the_oracle(
    epsilon: float, delta: float, guesses: int, right: int
) -> None:
    found = one_run_p_value(100, guesses, right, epsilon, delta)
    expected = oracle.one_run_p(100, guesses, right, epsilon, delta)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


def test_one_run_by_hand() -> None:
    """Three guesses, all right, at ε = 0: β = 1/8; the terms of α are 3/8, 6/16, 7/24."""
    assert one_run_p_value(10, 3, 3, 0.0, 0.0) == pytest.approx(1 / 8)
    assert one_run_p_value(10, 3, 3, 0.0, 0.01) == pytest.approx(1 / 8 + 2 * 10 * 0.01 * 3 / 8)
    # Five right of five refute ε while q^5 ≤ 0.05, q = e^ε / (1 + e^ε).
    q = 0.05 ** (1 / 5)
    assert one_run_epsilon(5, 5, 5, 0.0) == pytest.approx(math.log(q / (1 - q)))
    assert one_run_epsilon(5, 5, 2, 0.0) == 0.0
    assert one_run_epsilon(5, 0, 0, 0.0) == 0.0


def test_abstentions_count_in_m() -> None:
    assert one_run_p_value(1000, 50, 45, 0.5, 1e-5) > one_run_p_value(50, 50, 45, 0.5, 1e-5)
    assert one_run_epsilon(10_000, 50, 45, 1e-4) < one_run_epsilon(50, 50, 45, 1e-4)


def test_delta_of_the_audit() -> None:
    assert audit_delta(1e-3, 6000) == pytest.approx(1 / 600_000)
    assert audit_delta(1e-9, 6000) == 1e-9


def test_gaussian_estimate_of_known_shifts() -> None:
    """A shift of μ standard deviations has AUC Φ(μ/√2); below chance the estimate is 0."""
    rng = stream(3)
    high, low = rng.normal(1.2, 1, 40_000), rng.normal(0, 1, 40_000)
    assert gdp_mu(float((high > low).mean())) == pytest.approx(1.2, abs=0.03)
    assert gdp_mu(0.31) == 0.0
