"""Each record against itself: equal to scikit-learn, exact p-values, controlled discoveries."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from synthleak.core.seeds import stream
from synthleak.metrics.membership import Assignment, assignment_of, coins_of
from synthleak.metrics.null import false_discovery_rates
from synthleak.metrics.verdict_statistics import tenth
from synthleak.metrics.within_records import (
    doubled_ranks,
    idle,
    record_aucs,
    record_p_values,
    record_statistics,
)
from synthleak.plan import Trials
from synthleak.plan.cohort import toss

SETS, TARGETS = 14, 11


def redrawn(
    count: int, seed: int = 1, sets: int = SETS, targets: int = TARGETS
) -> list[Assignment]:
    rng = stream(seed, "coins")
    return [assignment_of(Trials.of_coins(toss(sets, targets, rng)), targets) for _ in range(count)]


@pytest.mark.parametrize("tied", [False, True])
def test_record_aucs_equal_scikit_learn(tied: bool) -> None:
    values = stream(2).normal(size=(SETS, TARGETS, 3))
    values = np.round(values) if tied else values
    assignments = redrawn(5)
    coins = np.stack([coins_of(assignment, SETS, TARGETS) for assignment in assignments])
    found = record_aucs(doubled_ranks(values), coins)
    for d, x, s in np.ndindex(found.shape):
        expected = roc_auc_score(coins[d, :, x], values[:, x, s])
        assert found[d, x, s] == pytest.approx(expected, abs=1e-12)


def test_statistics_are_mean_and_largest_tenth() -> None:
    values = stream(3).normal(size=(SETS, 25, 4))
    assignments = redrawn(130, targets=25)  # more than one block
    made = record_statistics(values, assignments)
    coins = np.stack([coins_of(assignment, SETS, 25) for assignment in assignments])
    shares = record_aucs(doubled_ranks(values), coins)
    assert made.names[:2] == ("auc", "top_tenth")
    assert made.auc == pytest.approx(shares.mean(axis=1))
    assert tenth(25) == 3
    assert made.values[1] == pytest.approx(np.sort(shares, axis=1)[:, -3:].mean(axis=1))


def test_a_record_with_equal_coins_is_left_out_of_the_mean() -> None:
    values = np.arange(8.0).reshape(4, 2, 1)
    coins = np.array([[True, True], [True, False], [True, True], [True, False]])
    found = record_aucs(doubled_ranks(values), coins[None])
    assert found[0, 0, 0] == 0.5 and idle(coins[None]).tolist() == [[True, False]]
    assert found[0, 1, 0] == 0.25
    agreed = np.ones((4, 2), dtype=bool)
    made = record_statistics(
        values,
        [assignment_of(Trials.of_coins(coins), 2), assignment_of(Trials.of_coins(agreed), 2)],
    )
    assert made.auc[:, 0].tolist() == [0.25, 0.5]


def test_one_record_is_compared_over_its_releases() -> None:
    values = np.arange(12.0).reshape(12, 1, 1)
    assignment = assignment_of(Trials.of_coins(np.arange(12).reshape(12, 1) >= 6), 1)
    made = record_statistics(values, [assignment])
    assert (made.values[:, 0, 0] == 1.0).all() and len(made.names) >= 2


def test_record_p_values_control_false_discoveries() -> None:
    """Half of the records leak: of those named at 20%, at most 20% on average are wrong."""
    wrong, named, small = [], [], []
    for seed in range(40):
        rng = stream(seed, "fdr")
        assignments = redrawn(120, seed, sets=24, targets=16)
        coins = coins_of(assignments[0], 24, 16)
        values = rng.normal(size=(24, 16, 3))
        values[:, :8, 1] += 2.5 * coins[:, :8]
        _, p = record_p_values(values, assignments)
        q = false_discovery_rates(p)
        small += p[8:].tolist()
        named.append((q[:8] <= 0.2).sum())
        wrong.append((q[8:] <= 0.2).sum() / max((q <= 0.2).sum(), 1))
    assert np.mean(np.array(small) <= 0.05) < 0.05 + 3.1 * np.sqrt(0.05 * 0.95 / len(small))
    assert np.mean(wrong) < 0.2
    assert np.mean(named) > 5


def test_tied_signal_is_scaled_by_its_range() -> None:
    """A signal that differs in four releases of 24 is heard when all four were joined."""
    assignments = redrawn(400, 7, sets=24, targets=3)
    coins = coins_of(assignments[0], 24, 3)
    values = stream(11).normal(size=(24, 3, 2))
    values[..., 1] = 0.0
    joined = np.flatnonzero(coins[:, 0])[:6]
    values[joined, 0, 1] = 1.0
    best, p = record_p_values(values, assignments)
    assert p[0] < 0.1 < p[1:].min()
    assert best[0] == pytest.approx(0.5 + 3 / coins[:, 0].sum())
