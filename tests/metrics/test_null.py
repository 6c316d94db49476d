"""The one verdict is exact: by enumeration of every outcome in both designs."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from scipy.stats import false_discovery_control

from support.oracles import nulls as oracle
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.metrics.membership import assignment_of, ranks_of
from synthleak.metrics.null import (
    continued_p,
    false_discovery_rates,
    holm,
    min_p_test,
    p_value,
    upper_point,
)
from synthleak.metrics.verdict_statistics import AUC, pool_statistics, tail
from synthleak.metrics.within_records import record_statistics
from synthleak.plan import Trials, cohort
from synthleak.plan.lone import Coins, toss, trials_of

TESTED = (AUC, tail("half", 0.5, "half"), tail("third", 0.34, "third"))


def lone_table() -> np.ndarray:
    """Three statistics of two signals in all 36 outcomes of four instances and two records."""
    assignments = [
        assignment_of(trials_of(Coins(np.array(t), np.array(b), np.array(c)[:, None])), 2)
        for t, b, c in oracle.lone_outcomes(4, 2)
    ]
    values = stream(8, "lone").normal(size=(8, 2))
    return pool_statistics(ranks_of(values), assignments, TESTED).values


def cohort_table(sets: int, records: int) -> np.ndarray:
    """Both statistics of two signals in every outcome of so many instances and records."""
    assignments = [
        assignment_of(Trials.of_coins(np.array(coins, dtype=bool).reshape(sets, records)), records)
        for coins in itertools.product([0, 1], repeat=sets * records)
    ]
    values = stream(9, "cohort", sets).normal(size=(sets, records, 2))
    return record_statistics(values, assignments).values


@pytest.mark.parametrize(
    ("statistics", "redraws"),
    [(lone_table(), 2), (cohort_table(3, 2), 1), (cohort_table(4, 1), 2)],
    ids=["lone", "cohort of two", "cohort of one"],
)
def test_level_is_exact_over_every_set_of_redraws(statistics: np.ndarray, redraws: int) -> None:
    """Every observed outcome with every set of B redraws: p ≤ k/(B+1) in no more than that share.

    The observed assignment is centred, scaled and counted together with its redraws; this is where
    leaving it out would show.
    """
    below = Counter[int]()
    draws = redraws + 1
    for drawn in itertools.product(range(statistics.shape[1]), repeat=draws):
        test = min_p_test(statistics[:, list(drawn)])
        below[round((1.0 if test is None else test.p) * draws)] += 1
    total = below.total()
    for k in range(1, draws):
        assert sum(below[j] for j in range(1, k + 1)) <= total * k / draws
    assert below[1] > 0.05 * total  # a test that never rejects would pass the lines above


def test_all_assignments_are_treated_alike_whichever_is_observed() -> None:
    """Exactness rests on this: U of an assignment does not depend on which one was observed."""
    values = stream(7).normal(size=(3, 20, 10)) ** 3
    for first in range(20):
        test = min_p_test(np.roll(values, -first, axis=1))
        assert test is not None
        if first == 0:
            expected = test.smallest
        assert np.roll(test.smallest, first).tolist() == expected.tolist()
    # Scaled by the redraws alone, an observed assignment of nothing would stand out.
    table = values[0]
    alone = [
        ((row - rest.mean(axis=0)) / rest.std(axis=0)).max()
        for row, rest in ((table[i], np.delete(table, i, axis=0)) for i in range(20))
    ]
    assert np.mean(alone) > np.mean(oracle.largest(table)) * 1.1


def test_the_samplers_are_the_enumerated_ones() -> None:
    """Every enumerated outcome of `lone` is drawn equally often; so is every coin of `cohort`."""
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


@pytest.mark.parametrize("tied", [False, True])
def test_p_equals_the_oracle(tied: bool) -> None:
    for seed in range(20):
        values = stream(seed, "oracle").normal(size=(3, 40, 5)) * np.arange(1, 6)
        values[1] = np.exp(values[1] / 3)  # a skewed statistic
        if tied:
            values = np.round(values)
        values[:, :, 3] = 0.25  # a signal that never varies plays no part
        test = min_p_test(values)
        assert test is not None and test.signal != 3
        smallest, p = oracle.min_p(values)
        assert (test.smallest / 40).tolist() == pytest.approx(smallest)
        assert test.p == pytest.approx(p)


def test_deciding_signal_and_statistic_are_the_smallest() -> None:
    values = stream(2).normal(size=(2, 501, 3)) * [0.01, 1.0, 1.0]
    values[0, 0, 0] = 0.02
    values[1, 0, 2] = 5.0
    test = min_p_test(values)
    assert test is not None and (test.statistic, test.signal) == (1, 2)
    values[1, 0, 2], values[0, 0, 0] = 0.0, 0.06  # small beside the others, large for itself
    test = min_p_test(values)
    assert test is not None and (test.statistic, test.signal) == (0, 0) and test.p < 0.01


def test_a_statistic_that_never_varies_changes_nothing() -> None:
    values = stream(4).normal(size=(2, 60, 3))
    constant = np.concatenate([values, np.zeros((1, 60, 3))])
    one, two = min_p_test(values), min_p_test(constant)
    assert one is not None and two is not None
    assert one.p == two.p and one.smallest.tolist() == two.smallest.tolist()
    assert np.isinf(two.ceilings()[2]).all()


def test_ceilings_are_passed_exactly_when_p_is_small() -> None:
    rng = stream(5)
    found = 0
    for _ in range(200):
        values = rng.normal(size=(3, 100, 4))
        values[1] = np.exp(2 * values[1])
        values[rng.integers(3), 0, 0] += rng.normal() + 2
        test = min_p_test(values)
        assert test is not None
        assert bool((values[:, 0] > test.ceilings()).any()) == (test.p <= 0.05)
        found += test.p <= 0.05
    assert 20 < found < 180


def test_the_floor_grows_with_the_number_of_statistics() -> None:
    values = stream(6).normal(size=(3, 100, 4))
    test = min_p_test(values)
    assert test is not None and test.floor == 3 / 100


def test_test_needs_variation() -> None:
    assert min_p_test(np.ones((2, 50, 3))) is None
    assert min_p_test(np.ones((2, 1, 3))) is None
    two_outcomes = np.tile([[0.0], [1.0]], (1, 50, 1)).reshape(1, 100, 1)
    test = min_p_test(two_outcomes)
    assert test is not None and test.floor > 0.4 and np.isinf(test.ceilings()).all()


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
    assert false_discovery_rates(p) == pytest.approx(false_discovery_control(p))


def test_further_redraws_hold_the_level() -> None:
    """First p at most `near`: the second alone counts. Simulated at every small level."""
    rng, found = np.random.default_rng(5), []
    for _ in range(2000):
        first = rng.normal(size=(2, 40, 3))
        test = min_p_test(first)
        assert test is not None
        p = test.p
        if p <= 0.2:
            more = rng.normal(size=(2, 199, 3))
            p = continued_p(first, [more[:, :100], more[:, 100:]])
            assert p == continued_p(first, [more])
        found.append(p)
    for level in (0.01, 0.05, 0.1, 0.2, 0.3):
        assert np.mean(np.array(found) <= level) <= level + 3.3 * (level / 2000) ** 0.5


def test_further_redraws_lower_the_floor() -> None:
    first = np.random.default_rng(6).normal(size=(2, 40, 3))
    first[:, 0] = 50.0
    p = continued_p(first, [np.random.default_rng(7).normal(size=(2, 999, 3))])
    assert p <= 2 / 1000
