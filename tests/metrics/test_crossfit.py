"""The deployable figure: equal to loops, unbiased where nothing leaks, honest in its interval."""

from __future__ import annotations

import numpy as np
import pytest

from support.oracles import crossfit as oracle
from support.oracles import nulls as obvious
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.metrics import within_records
from synthleak.metrics.measurements import interval
from synthleak.metrics.member_comparison import (
    PoolComparison,
    _held_tpr,
    _spread,
    choose_in_folds,
    crossfit,
    fold_aucs,
    split_folds,
    take_chosen,
    wins_of,
)
from synthleak.metrics.membership import (
    Assignment,
    assignment_of,
    coins_of,
    ranks_of,
    redraw_assignments,
)
from synthleak.metrics.scored_cell import comparison_of
from synthleak.metrics.within_records import (
    RecordComparison,
    aucs_per_record,
    choose_folds,
    fold_measurements,
    folds_of,
    held_auc,
    held_tpr,
    resampled_instances,
    resampled_records,
)
from synthleak.plan import Trials, designs
from synthleak.plan.cohort import toss
from synthleak.pools import Pool

TARGETS = 8
POOL = Pool("p", tuple(range(8)), ("p",) * 8, tuple(range(8, 108)), tuple(range(108, 208)))
GAME = GameSection(instances=16, records=40, rounds=6, candidates=4)
GROUPS = [np.array([0, 1]), np.array([2, 3, 4]), np.arange(5)]


def lone_hand(seed: int = 1) -> Assignment:
    return assignment_of(designs.get("lone").plugin.draw(POOL, GAME, seed).trials, TARGETS)


def table(tied: bool = False, seed: int = 2, sets: int = 16) -> np.ndarray:
    values = stream(seed, "table").normal(size=(sets, TARGETS, 5))
    return np.round(2 * values) if tied else values


@pytest.mark.parametrize("tied", [False, True])
def test_folds_of_a_pool_equal_loops(tied: bool) -> None:
    assignment, values = lone_hand(), table(tied).reshape(-1, 5)
    ranks = ranks_of(values)
    inside = (split_folds(8, 4, stream(1), 3), split_folds(8, 4, stream(2), 3))
    wins = wins_of(ranks, assignment, TARGETS)
    rest, held = fold_aucs(wins, inside)
    for group in GROUPS:
        chosen = choose_in_folds(rest, wins.signals, ranks, group)
        rate = _held_tpr(ranks, assignment, wins.signals, [chosen], inside)[0]
        expected = oracle.pool(
            values, assignment.members, assignment.others, group.tolist(), *inside
        )
        assert take_chosen(held, chosen).mean() == pytest.approx(expected[0])
        assert rate == pytest.approx(expected[1])


def test_wins_count_every_round_once() -> None:
    assignment, values = lone_hand(), table(tied=True).reshape(-1, 5)
    wins = wins_of(ranks_of(values), assignment, TARGETS)
    for u, v, s in np.ndindex(8, 8, 5):
        scored = obvious.auc(
            [values[assignment.members[u], s]], values[assignment.others[:, v], s].tolist()
        )
        assert wins.doubled[s, u, v] == pytest.approx(2 * 6 * scored)
    assert wins.mass.tolist() == [6.0] * 8


def test_a_unit_drawn_twice_equals_two_copies() -> None:
    assignment, values = lone_hand(), table().reshape(-1, 5)
    ranks = ranks_of(values)
    rows, columns = split_folds(8, 2, stream(1), 1), split_folds(8, 2, stream(2), 1)
    members = np.array([2, 1, 0, 1, 1, 1, 1, 1])
    others = np.array([1, 1, 3, 0, 0, 1, 1, 1])
    rest, held = fold_aucs(
        wins_of(ranks, assignment, TARGETS), (rows, columns), (members.astype(float), others * 1.0)
    )
    copied = Assignment(
        np.repeat(assignment.members, members), np.repeat(assignment.others, others, axis=1)
    )
    inside = (np.repeat(rows, members, axis=0), np.repeat(columns, others, axis=0))
    again_rest, again_held = fold_aucs(wins_of(ranks, copied, TARGETS), inside)
    assert rest == pytest.approx(again_rest) and held == pytest.approx(again_held)


def test_records_are_weighed_on_both_sides() -> None:
    """A record drawn 0 times leaves as a non-member; one drawn twice counts twice."""
    assignment, values = lone_hand(), table().reshape(-1, 5)
    weight = np.array([0, 2, 1, 1, 1, 1, 2, 1.0])
    wins = wins_of(ranks_of(values), assignment, TARGETS, weight)
    for v in range(8):
        cells = [
            c for c in assignment.others[:, v].tolist() for _ in range(int(weight[c % TARGETS]))
        ]
        assert wins.mass[v] == len(cells)
        if cells:
            expected = obvious.auc([values[assignment.members[3], 1]], values[cells, 1].tolist())
            assert wins.doubled[1, 3, v] == pytest.approx(2 * len(cells) * expected)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("sets", [12, 6])
def test_folds_within_records_equal_loops(
    tied: bool, sets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(within_records, "SIGNALS_AT_ONCE", 2)
    values = table(tied, sets=sets)
    coins = np.stack([toss(sets, TARGETS, stream(seed)) for seed in range(4)])
    inside = folds_of(sets, TARGETS, stream(9), 2)
    assert inside is not None and len(inside) == (12 if sets == 12 else TARGETS)
    figures = fold_measurements(values, coins, inside)
    for group in GROUPS:
        found = held_auc(figures, choose_folds(figures, group))
        for d in range(4):
            expected = (
                oracle.records(values, coins[d], group.tolist(), inside)
                if sets == 12
                else _over_records(values, coins[d], group.tolist(), inside)
            )
            assert found[d] == pytest.approx(expected)


def _over_records(
    values: np.ndarray, coins: np.ndarray, group: list[int], inside: np.ndarray
) -> float:
    shares = np.array(
        [
            [oracle.record_auc(values[:, x, s], coins[:, x]) for x in range(TARGETS)]
            for s in range(5)
        ]
    )
    held = []
    for fold in inside.T > 0:
        level = [oracle.mean(shares[s, ~fold].tolist()) for s in group]
        best = group[int(np.argmax(np.round(level, 9)))]
        held.append(oracle.mean(shares[best, fold].tolist()))
    return float(np.mean(held))


def test_held_out_tpr_within_records_equals_loops() -> None:
    values = table(tied=True, sets=12)
    coins = np.stack([toss(12, TARGETS, stream(seed)) for seed in range(3)])
    inside = folds_of(12, TARGETS, stream(9), 1)
    assert inside is not None
    figures = fold_measurements(values, coins, inside)
    chosen = [choose_folds(figures, group) for group in GROUPS[:2]]
    found = held_tpr(ranks_of(values.reshape(-1, 5)), coins, inside, chosen)
    for g, d in np.ndindex(2, 3):
        rates = []
        for f, fold in enumerate(inside.T > 0):
            scores, joined = values[fold, :, chosen[g][d, f]], coins[d][fold]
            rates.append(obvious.tpr(scores[joined].tolist(), scores[~joined].tolist()))
        assert found[g, d] == pytest.approx(np.mean(rates))


def test_a_release_drawn_twice_equals_two_copies_within_records() -> None:
    values, coins = table(sets=12), toss(12, TARGETS, stream(3))
    inside = folds_of(12, TARGETS, stream(4), 1)
    assert inside is not None
    times = np.array([2, 1, 1, 0, 1, 3, 1, 1, 1, 1, 0, 0])
    weighed = resampled_instances(values, coins, inside, times[None] * 1.0, np.arange(5))
    copies = np.repeat(np.arange(12), times)
    figures = fold_measurements(values[copies], coins[copies][None], inside[copies])
    assert weighed.held == pytest.approx(figures.held)
    assert weighed.rest == pytest.approx(figures.rest)


def test_a_record_drawn_twice_equals_two_copies_within_records() -> None:
    values, coins = table(sets=12), toss(12, TARGETS, stream(5))
    inside = folds_of(12, TARGETS, stream(6), 1)
    assert inside is not None
    times = np.array([2, 0, 1, 1, 3, 0, 1, 0])
    rest, held = aucs_per_record(values, coins[None], inside)
    copies = np.repeat(np.arange(TARGETS), times)
    figures = fold_measurements(values[:, copies], coins[None][:, :, copies], inside)
    assert rest.resampled(times[None] * 1.0) == pytest.approx(figures.rest)
    assert held.resampled(times[None] * 1.0) == pytest.approx(figures.held)
    drawn = resampled_records(rest, held, times[None] * 1.0, GROUPS)
    for group, value in zip(GROUPS, drawn[:, 0], strict=True):
        assert value == pytest.approx(held_auc(figures, choose_folds(figures, group))[0])


def test_small_folds_keep_a_perfect_leak_perfect() -> None:
    """Two releases a fold: half of the records compare nothing there, and leave the mean."""
    coins = toss(10, TARGETS, stream(7))
    values = coins[..., None] + 0.1 * stream(8).random((10, TARGETS, 2))
    inside = folds_of(10, TARGETS, stream(9))
    assert inside is not None
    figures = fold_measurements(values, coins[None], inside)
    assert held_auc(figures, choose_folds(figures, np.arange(2)))[0] == 1.0


def test_crossfitting_is_unbiased() -> None:
    best, apart = [], []
    for seed in range(60):
        assignment, values = lone_hand(seed), stream(seed, "noise").normal(size=(128, 12))
        comparison = PoolComparison(values.reshape(16, TARGETS, 12))
        best.append(comparison.statistics([assignment]).auc.max())
        inside = comparison.folds(assignment, stream(seed), 4)
        made = crossfit(comparison.ranks, assignment, TARGETS, [np.arange(12)], inside)
        assert made is not None
        apart.append(made.auc[0])
    assert np.mean(best) > 0.6
    assert abs(np.mean(apart) - 0.5) < 0.05


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_deployable_interval_covers_a_planted_leak(design: str) -> None:
    """Shift 1.2 on one signal of four: AUC Φ(1.2/√2) = 0.802, in 95% intervals most of the time."""
    game = GameSection(design=design, instances=30, records=80, rounds=6, candidates=6)
    covered, values_found = 0, []
    for seed in range(25):
        plugin = designs.get(design).plugin
        plan = plugin.draw(POOL, game, seed)
        rng = stream(seed, "leak")
        values = rng.normal(size=(30, TARGETS, 4))
        assignment = assignment_of(plan.trials, TARGETS)
        values.reshape(-1, 4)[assignment.members, 2] += 1.2
        comparison = comparison_of(plugin, plan, values)
        groups = [np.arange(4)]
        made = comparison.deployable([assignment], groups, rng)
        spreads = comparison.spreads(assignment, groups, rng)
        assert made is not None and spreads is not None and spreads.over == "instances"
        values_found.append(made.auc[0, 0])
        low, high = interval(made.auc[0, 0], spreads.pool[0], comparison.sides(assignment))
        covered += low < 0.802 < high
        assert 0 < spreads.records[0] < 0.3
    assert np.mean(values_found) == pytest.approx(0.80, abs=0.04)
    assert covered >= 20


def test_the_spread_of_twenty_repeats_is_estimated_from_four() -> None:
    """Draws differ by 0.06; each repeat adds 0.04 in its own way, of which 20 leave 0.04/√20."""
    rng, draws = stream("repeats"), 20_000
    shared, own = rng.normal(0, 0.06, (1, draws, 1)), rng.normal(0, 0.04, (1, draws, 4))
    figures = 0.6 + shared + own + np.array([-0.1, 0.0, 0.0, 0.1])  # folds differ, draws alike
    assert _spread(figures, 20)[0] == pytest.approx(np.hypot(0.06, 0.04 / 20**0.5), rel=0.02)
    assert _spread(figures, 4)[0] == pytest.approx(figures.mean(axis=2).std())
    figures[0, 7] = np.nan  # a draw that nobody could be evaluated in
    assert _spread(figures, 20)[0] == pytest.approx(0.0607, rel=0.02)
    assert np.isnan(_spread(figures[:, 7:8], 20)[0])


def test_the_interval_of_a_cohort_is_several_times_narrower() -> None:
    """At equal releases (docs/method.md §4): every release tests every record."""
    errors = {}
    for design in ("lone", "cohort"):
        game = GameSection(design=design, instances=40, records=80, rounds=10, candidates=7)
        plugin = designs.get(design).plugin
        plan = plugin.draw(POOL, game, 1)
        values = stream(2).normal(size=(40, TARGETS, 1))
        assignment = assignment_of(plan.trials, TARGETS)
        values.reshape(-1, 1)[assignment.members, 0] += 0.3
        errors[design] = comparison_of(plugin, plan, values).standard_error(
            assignment, 0, stream(3)
        )
    assert errors["lone"] > 2 * errors["cohort"]


def test_standard_errors_agree_with_redraws() -> None:
    """Where nothing leaks, resampling instances and redrawing coins see the same spread."""
    for design in ("lone", "cohort"):
        game = GameSection(design=design, instances=60, records=80, rounds=10, candidates=7)
        plugin = designs.get(design).plugin
        plan = plugin.draw(POOL, game, 5)
        comparison = comparison_of(plugin, plan, stream(6).normal(size=(60, TARGETS, 1)))
        assignments = redraw_assignments(plugin, plan, game, stream(7), 300)
        redrawn = comparison.statistics(assignments).auc[:, 0].std()
        resampled = np.mean([comparison.standard_error(h, 0, stream(8)) for h in assignments[:8]])
        assert resampled == pytest.approx(redrawn, rel=0.3)


def test_too_little_to_fold_is_none() -> None:
    assignment = Assignment(np.array([0]), np.array([[3]]))
    values = np.arange(4.0).reshape(2, 2, 1)
    comparison = PoolComparison(values)
    assert comparison.deployable([assignment], [np.array([0])], stream(1)) is None
    assert comparison.spreads(assignment, [np.array([0])], stream(1)) is None
    single = assignment_of(Trials.of_coins(np.array([[True], [False]])), 1)
    within = RecordComparison(values[:, :1])
    assert within.deployable([single], [np.array([0])], stream(1)) is None
    assert within.spreads(single, [np.array([0])], stream(1)) is None


def test_few_instances_resample_records() -> None:
    values, rng = table(sets=4), stream(1)
    assignment = assignment_of(Trials.of_coins(toss(4, TARGETS, rng)), TARGETS)
    within = RecordComparison(values)
    spreads = within.spreads(assignment, [np.arange(5)], rng)
    assert spreads is not None and spreads.over == "records" and spreads.pool[0] > 0
    assert within.standard_error(assignment, 0, rng) > 0
    coins = coins_of(assignment, 4, TARGETS)
    assert coins.shape == (4, TARGETS)
