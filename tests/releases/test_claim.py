"""Claims: a whole curve, under either adjacency."""

from __future__ import annotations

import math

import pytest

from synthleak.releases.claim import Claim, GaussianEvent, gaussian_sigma, no_claim


def claim(**event: float) -> Claim:
    sigma = gaussian_sigma(1.0, 1e-5)
    return Claim(1.0, 1e-5, (GaussianEvent("votes", sigma, **event),))


def test_the_curve_passes_through_the_claimed_point_and_falls() -> None:
    made = claim()
    assert made.epsilon_at(1e-5) == pytest.approx(1.0, abs=1e-3)
    assert made.delta_at(1.0) == pytest.approx(1e-5, rel=0.01)
    deltas = [made.delta_at(epsilon) for epsilon in (0.2, 0.5, 1.0, 1.5)]
    assert deltas == sorted(deltas, reverse=True)


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
