"""The one verdict is exact: by enumeration of every outcome in both designs."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from oracles import nulls as oracle
from synthleak.metrics.by_record import record_pair
from synthleak.metrics.dealt import dealt
from synthleak.metrics.nulls import (
    benjamini_hochberg,
    holm,
    max_test,
    p_value,
    upper_point,
)
from synthleak.metrics.pooled import Pair, pooled_pair
from synthleak.metrics.ranks import ranks_of
from synthleak.plan import cohort
from synthleak.plan.lone import Coins, toss, trials_of
from synthleak.seeds import stream
from synthleak.spec import GameSection


def columns(pair: Pair) -> np.ndarray:
    return np.concatenate([pair.level, pair.tail], axis=1)


def lone_table() -> np.ndarray:
    """Both statistics of two signals in all 36 outcomes of four instances and two records."""
    hands = [
        dealt(trials_of(Coins(np.array(t), np.array(b), np.array(c)[:, None])), 2)
        for t, b, c in oracle.lone_outcomes(4, 2)
    ]
    values = stream(8, "lone").normal(size=(8, 2))
    return columns(pooled_pair(ranks_of(values), hands))


def cohort_table(sets: int, records: int) -> np.ndarray:
    """Both statistics of two signals in every outcome of so many instances and records."""
    hands = [
        dealt(cohort.trials_of(np.array(coins, dtype=bool).reshape(sets, records)), records)
        for coins in itertools.product([0, 1], repeat=sets * records)
    ]
    values = stream(9, "cohort", sets).normal(size=(sets, records, 2))
    return columns(record_pair(values, hands))


@pytest.mark.parametrize(
    ("statistics", "redraws"),
    [(lone_table(), 2), (cohort_table(3, 2), 1), (cohort_table(4, 1), 2)],
    ids=["lone", "cohort of two", "cohort of one"],
)
def test_the_level_is_exact_over_every_set_of_redraws(statistics: np.ndarray, redraws: int) -> None:
    """Every observed outcome with every set of B redraws: p ≤ k/(B+1) in no more than that share.

    The observed dealing is centred and scaled together with its redraws; this is where leaving it
    out would show.
    """
    below = Counter[int]()
    draws = redraws + 1
    for drawn in itertools.product(range(len(statistics)), repeat=draws):
        test = max_test(statistics[list(drawn)])
        below[round((1.0 if test is None else test.p) * draws)] += 1
    total = below.total()
    for k in range(1, draws):
        assert sum(below[j] for j in range(1, k + 1)) <= total * k / draws
    assert below[1] > 0.15 * total  # it is no test that never speaks


def test_whoever_is_observed_all_dealings_are_treated_alike() -> None:
    """Exactness rests on this: the observed dealing is centred and scaled with its redraws."""
    values = stream(7).normal(size=(20, 30)) ** 3
    every = []
    for first in range(20):
        test = max_test(np.roll(values, first, axis=0))
        assert test is not None
        every.append(np.sort([test.statistic, *test.null]))
    assert np.ptp(every, axis=0).max() < 1e-9
    # Scaled by the redraws alone, an observed dealing of nothing would stand out.
    alone = [
        ((row - rest.mean(axis=0)) / rest.std(axis=0)).max()
        for row, rest in ((values[i], np.delete(values, i, axis=0)) for i in range(20))
    ]
    assert np.mean(alone) > np.mean(every) * 1.1


def test_the_samplers_are_the_enumerated_ones() -> None:
    """Every enumerated outcome of `lone` is dealt equally often; so is every coin of `cohort`."""
    game = GameSection(instances=2, rounds=1, candidates=20)
    seen = Counter[tuple[object, ...]]()
    rng = stream(3, "tosses")
    draws = 9600
    for _ in range(draws):
        coins = toss(("p",) * 3, game, rng)
        seen[tuple(coins.target), tuple(coins.member), tuple(coins.candidate[:, 0])] += 1
    outcomes = {(tuple(t), tuple(b), tuple(c)) for t, b, c in oracle.lone_outcomes(2, 3)}
    assert set(seen) == outcomes and len(outcomes) == 48
    expected = draws / 48
    chi = sum((count - expected) ** 2 / expected for count in seen.values())
    assert chi < 47 + 4 * np.sqrt(2 * 47)
    fair = Counter(tuple(cohort.toss(2, 2, rng).ravel().tolist()) for _ in range(4800))
    assert len(fair) == 16 and max(abs(c - 300) for c in fair.values()) < 90


def test_statistic_and_p_equal_the_oracle() -> None:
    values = stream(1).normal(size=(60, 7)) * np.arange(1, 8)
    values[:, 3] = 0.25  # a signal that never varies plays no part
    test = max_test(values)
    assert test is not None
    statistic, null, p = oracle.statistic(values)
    assert test.statistic == pytest.approx(statistic)
    assert test.null == pytest.approx(sorted(null))
    assert test.p == p
    assert test.best != 3


def test_studentised_a_quiet_signal_is_heard_beside_a_noisy_one() -> None:
    values = stream(2).normal(size=(501, 2)) * [0.01, 1.0]
    values[0] = [0.06, 0.5]
    test = max_test(values)
    assert test is not None and test.best == 0 and test.p < 0.01


def test_ceilings_are_passed_exactly_when_p_is_small() -> None:
    rng = stream(5)
    for _ in range(40):
        values = rng.normal(size=(100, 4))
        values[0, 0] += rng.normal() + 2
        test = max_test(values)
        assert test is not None
        passed = bool((values[0] > test.ceilings() + 1e-9).any())
        assert passed == (test.p <= 0.05)


def test_nothing_that_varies_is_no_test_and_few_outcomes_are_no_surprise() -> None:
    assert max_test(np.ones((50, 3))) is None
    assert max_test(np.ones((1, 3))) is None
    two_outcomes = np.tile([[0.0], [1.0]], (50, 1))
    test = max_test(two_outcomes)
    assert test is not None and test.floor > 0.4


def test_a_redraw_that_equals_the_observed_counts_against_it() -> None:
    assert p_value(1.0, np.array([1.0 - 1e-12, 0.0, 0.0])) == 0.5
    assert upper_point(np.arange(1.0, 100.0), 0.05) == 95.0


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.02, 0.03, 0.005]) == pytest.approx([0.03, 0.04, 0.04, 0.02])
    assert holm([0.9, None]) == [0.9, None]
    assert holm([None, None]) == [None, None]
    assert holm([0.6, 0.7]) == [1.0, 1.0]


def test_false_discovery_equals_scipy() -> None:
    p = stream(6).random(40) ** 2
    assert benjamini_hochberg(p) == pytest.approx(false_discovery_control(p))
