"""Claims: a whole curve, under either adjacency."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from synthleak.metrics.epsilon import promise_of
from synthleak.releases import Claim, GaussianEvent, gaussian_sigma, no_claim, stated_claim


def claim(**event: float) -> Claim:
    sigma = gaussian_sigma(1.0, 1e-5)
    return Claim(1.0, 1e-5, (GaussianEvent("votes", sigma, **event),))


def test_the_curve_passes_through_the_claimed_point_and_falls() -> None:
    made = claim()
    assert made.epsilon_at(1e-5) == pytest.approx(1.0, abs=1e-3)
    assert made.delta_at(1.0) == pytest.approx(1e-5, rel=0.01)
    deltas = [made.delta_at(epsilon) for epsilon in (0.2, 0.5, 1.0, 1.5)]
    assert deltas == sorted(deltas, reverse=True)


def test_claims_agree_but_for_how_machines_round_the_noise() -> None:
    def with_noise(factor: float, *more: GaussianEvent) -> Claim:
        return Claim(1.0, 1e-5, (GaussianEvent("votes", 3.7 * factor, 1.0), *more))

    made = with_noise(1.0)
    assert made != with_noise(1 + 3e-10)
    assert made.agrees(with_noise(1 + 3e-10)) and with_noise(1 + 3e-10).agrees(made)
    assert not made.agrees(with_noise(1.001))
    assert not made.agrees(with_noise(1.0, GaussianEvent("sums", 3.7, 1.0)))
    assert not made.agrees(Claim(1.1, 1e-5, made.events))
    assert not made.agrees(Claim(1.0, 1e-5, (GaussianEvent("sums", 3.7, 1.0),)))


def test_replace_by_its_own_sensitivity_is_tighter_than_group_privacy() -> None:
    own, group = claim(replace_sensitivity=math.sqrt(2)), claim()
    assert not own.loose and group.loose
    assert 1.0 < own.epsilon_at(1e-5, "replace") < group.epsilon_at(1e-5, "replace")
    sigma = gaussian_sigma(1.0, 1e-5)
    direct = Claim(1.0, 1e-5, (GaussianEvent("x", sigma / math.sqrt(2)),))
    assert own.epsilon_at(1e-5, "replace") == pytest.approx(direct.epsilon_at(1e-5), rel=1e-3)


def test_group_privacy_follows_its_formula() -> None:
    made = claim()
    expected = (1 + math.exp(1.2)) * made.delta_at(1.2)
    assert made.delta_at(2.4, "replace") == pytest.approx(expected)


def test_composition_of_events_counts_all() -> None:
    ten = Claim(
        1.0, 1e-5, (GaussianEvent("votes", math.sqrt(10) * gaussian_sigma(1.0, 1e-5), count=10),)
    )
    assert ten.epsilon_at(1e-5) == pytest.approx(1.0, abs=2e-3)


def test_no_promise_is_no_curve() -> None:
    assert not no_claim().promises
    assert no_claim().epsilon_at(1e-5) == math.inf
    assert no_claim().delta_at(3.0) == 1.0


def test_a_claim_survives_json() -> None:
    for made in (claim(replace_sensitivity=1.5), no_claim()):
        assert Claim.from_json(made.to_json()) == made


def gaussian_delta(epsilon: float, moved: float) -> float:
    """δ(ε) of a Gaussian of unit noise whose mean moves this far (Balle and Wang 2018)."""
    left, right = moved / 2 - epsilon / moved, -moved / 2 - epsilon / moved
    return float(norm.cdf(left) - math.exp(epsilon) * norm.cdf(right))


def test_a_group_moves_a_sum_as_far_as_all_its_records() -> None:
    sigma = gaussian_sigma(1.0, 1e-5)
    made = claim(replace_sensitivity=math.sqrt(2)).for_group(4)
    for epsilon in (1.0, 3.0):
        assert made.delta_at(epsilon) == pytest.approx(gaussian_delta(epsilon, 4 / sigma), rel=1e-3)
        replaced = gaussian_delta(epsilon, 4 * math.sqrt(2) / sigma)
        assert made.delta_at(epsilon, "replace") == pytest.approx(replaced, rel=1e-3)
    assert not made.loose


def sampled_delta(epsilon: float, sigma: float, rate: float, group: int) -> float:
    """δ(ε) of one sampled step, integrated: a binomial number of the group is in the sum."""
    grid = np.linspace(-12 * sigma, group + 12 * sigma, 200_001)
    without = norm.pdf(grid, 0, sigma)
    inside = sum(
        binom.pmf(count, group, rate) * norm.pdf(grid, count, sigma) for count in range(group + 1)
    )
    pairs = ((inside, without), (without, inside))
    return max(
        float(np.trapezoid(np.clip(p - math.exp(epsilon) * q, 0, None), grid)) for p, q in pairs
    )


@pytest.mark.parametrize("group", [1, 2, 8])
def test_a_group_of_sampled_records_is_accounted_draw_by_draw(group: int) -> None:
    step = Claim(1.0, 1e-5, (GaussianEvent("step", 1.3, rate=0.2, replace_sensitivity=2.0),))
    made = step.for_group(group)
    for epsilon in (0.1, 0.5, 1.5):
        exact = sampled_delta(epsilon, 1.3, 0.2, group)
        assert made.delta_at(epsilon) == pytest.approx(exact, rel=2e-3, abs=1e-9)
    assert made.loose == (group > 1)


def test_the_accountant_is_tighter_than_the_formula_of_group_privacy() -> None:
    event = GaussianEvent("step", 1.1, rate=0.03, count=300, replace_sensitivity=2.0)
    accounted = Claim(4.0, 1e-5, (event,))
    one = accounted.epsilon_at(1e-5)
    formula = stated_claim(one, 1e-5).for_group(2)
    assert one < accounted.for_group(2).epsilon_at(formula.point("add")[1]) < 2 * one
    replaced = accounted.for_group(2)
    assert replaced.epsilon_at(1e-5, "replace") > replaced.epsilon_at(1e-5)


def test_a_stated_point_grows_by_the_formula_of_group_privacy() -> None:
    """Replacing r records is a group of 2r, each of which is added or removed."""
    made = stated_claim(0.5, 1e-6)
    growth = (math.exp(8 * 0.5) - 1) / (math.exp(0.5) - 1)
    assert made.for_group(8).point("add") == pytest.approx((4.0, growth * 1e-6))
    assert made.for_group(4).point("replace") == pytest.approx((4.0, growth * 1e-6))
    assert promise_of(made.for_group(8), "add", 500).delta == pytest.approx(growth * 1e-6)
    assert no_claim().for_group(8).epsilon_at(1e-5) == math.inf


def test_claims_of_one_record_are_written_as_before() -> None:
    assert "group" not in claim().to_json()
    assert Claim.from_json(claim().for_group(8).to_json()) == claim().for_group(8)
