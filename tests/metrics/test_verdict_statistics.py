"""AUC and tail of every assignment equal scikit-learn on every round, and the slow oracle."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from support.oracles import nulls as oracle
from synthleak.core.errors import ContractError
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.metrics import verdict_statistics
from synthleak.metrics.membership import (
    Assignment,
    assignment_of,
    auc,
    choose,
    mean_tpr,
    pooled_auc,
    ranks_of,
    redraw_assignments,
    tpr_at_fpr,
)
from synthleak.metrics.verdict_statistics import (
    AUC,
    FEW_OTHERS,
    POOL_STATISTICS,
    pool_statistics,
    tail,
)
from synthleak.plan import Plan, Trials, designs
from synthleak.plan.lone import toss, trials_of
from synthleak.pools import Pool

GAME = GameSection(instances=20, records=40, rounds=7, candidates=5)


def pool_of(targets: int) -> Pool:
    return Pool(
        "p",
        tuple(range(targets)),
        ("p",) * targets,
        tuple(range(targets, targets + 200)),
        tuple(range(targets + 200, targets + 400)),
    )


def plan_of(game: GameSection = GAME, targets: int = 9, seed: int = 1) -> Plan:
    return designs.get(game.design).plugin.draw(pool_of(targets), game, seed)


def scores(cells: int, signals: int, *, tied: bool, seed: int = 0) -> np.ndarray:
    drawn = stream(seed, "scores").normal(size=(cells, signals))
    return np.round(drawn) if tied else drawn


@pytest.mark.parametrize("tied", [False, True])
def test_auc_equals_scikit_learn_on_every_round(tied: bool) -> None:
    plan = plan_of()
    values = scores(20 * 9, 4, tied=tied)
    assignment = assignment_of(plan.trials, 9)
    by_round = []
    for others in assignment.others:
        fast = auc(values[assignment.members], values[others])
        truth = np.repeat([1, 0], [len(assignment.members), len(others)])
        listed = values[np.concatenate([assignment.members, others])]
        expected = [roc_auc_score(truth, listed[:, s]) for s in range(4)]
        assert fast == pytest.approx(expected, abs=1e-12)
        by_round.append(expected)
    pooled = pool_statistics(ranks_of(values), [assignment]).auc[0]
    assert pooled == pytest.approx(np.mean(by_round, axis=0), abs=1e-12)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("limit", [0.002, 0.05, 0.3])
def test_every_redraw_equals_the_oracle(tied: bool, limit: float) -> None:
    plan, design = plan_of(), designs.get("lone").plugin
    values = scores(20 * 9, 3, tied=tied)
    assignments = redraw_assignments(design, plan, GAME, stream(4), 70)  # more than one block
    ranks = ranks_of(values)
    made = pool_statistics(ranks, assignments, (AUC, tail("tail", limit, "tail"))).values
    for i in (0, 3, 64, 69):
        for s in range(3):
            members = values[assignments[i].members, s].tolist()
            others = values[assignments[i].others, s].ravel().tolist()
            assert made[0, i, s] == pytest.approx(oracle.auc(members, others), abs=1e-12)
            assert made[1, i, s] == pytest.approx(oracle.tail(members, others, limit), abs=1e-12)
            assert pooled_auc(ranks, assignments[i], s) == pytest.approx(made[0, i, s], abs=1e-12)


@pytest.mark.parametrize("share", [0.5, 0.03, 0.97])
def test_splits_of_all_cells_equal_running_sums(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the last digit: few and many ties, a top that is all tied, more than one block."""
    rng = stream("splits")
    values = rng.normal(size=(400, 4))
    values[:, 1], values[:, 2] = values[:, 1].round(1), values[:, 2].round(0)
    values[100:, 3] = 5.0
    ranks = ranks_of(values)
    assignments = []
    for number in range(70):
        member = rng.random(400) < (share if number else 0.0)
        assignments.append(Assignment(np.flatnonzero(member), np.flatnonzero(~member)[None]))
    fast = pool_statistics(ranks, assignments, POOL_STATISTICS).values
    monkeypatch.setattr(verdict_statistics, "_splits", lambda *_: False)
    assert np.array_equal(fast, pool_statistics(ranks, assignments, POOL_STATISTICS).values)


def test_the_tail_of_a_worked_case() -> None:
    """Ten others; members above 0, 1 and 3 of them: reached at FPR 0, 0.1 and 0.3."""
    others = np.arange(10.0)
    values = np.concatenate([[20.0, 8.5, 6.5], others])[:, None]
    assignment = Assignment(np.array([0, 1, 2]), np.arange(3, 13)[None])
    fifth = tail("tail", 0.2, "tail")
    found = pool_statistics(ranks_of(values), [assignment], (fifth,)).values[0, 0, 0]
    assert found == pytest.approx((1 + (1 - 0.1 / 0.2) + 0) / 3)


def test_tied_scores_are_flagged_together() -> None:
    values = np.array([1.0, 1.0, 1.0, 0.0])[:, None]
    assignment = Assignment(np.array([0]), np.array([[1, 2, 3]]))
    made = pool_statistics(ranks_of(values), [assignment])
    assert made.auc[0, 0] == pytest.approx((0.5 + 0.5 + 1) / 3)
    found = dict(zip(made.names, made.values[:, 0, 0], strict=True))
    assert found["tail5"] == found["tail1"] == 0.0


def test_assignment_that_compares_nothing_is_chance() -> None:
    nobody = Assignment(np.array([], dtype=np.int64), np.array([[0, 1]]))
    everybody = Assignment(np.array([0, 1]), np.zeros((1, 0), dtype=np.int64))
    made = pool_statistics(ranks_of(np.array([[1.0], [2.0]])), [nobody, everybody])
    assert made.auc.ravel().tolist() == [0.5, 0.5]
    for statistic, values in zip(FEW_OTHERS, made.values, strict=True):
        assert (values == statistic.empty).all()


def test_equal_signals_are_computed_once() -> None:
    values = scores(40, 1, tied=False)
    ranks = ranks_of(np.concatenate([values, -values, 3 * values + 1], axis=1))
    assert ranks.same.tolist() == [0, 1, 0]
    assignment = Assignment(np.arange(10), np.arange(10, 40)[None])
    level = pool_statistics(ranks, [assignment]).auc[0]
    assert level[0] == level[2] == pytest.approx(1 - level[1])


def test_chosen_tpr_equals_the_oracle() -> None:
    values = scores(20 * 9, 5, tied=True)
    assignment = assignment_of(plan_of().trials, 9)
    ranks = ranks_of(values)
    for s in range(5):
        rates = [
            oracle.tpr(values[assignment.members, s].tolist(), values[others, s].tolist())
            for others in assignment.others
        ]
        assert mean_tpr(ranks, assignment, s) == pytest.approx(np.mean(rates))
        direct = [
            tpr_at_fpr(values[assignment.members, s], values[o, s]) for o in assignment.others
        ]
        assert mean_tpr(ranks, assignment, s) == pytest.approx(np.mean(direct))


def test_assignments_choose_best_by_auc_tpr_order() -> None:
    #              members          others
    first = [9.0, 3.0, 2.0, 8.0, 1.0, 0.0]  # one far ahead of all, one behind one
    second = [8.0, 7.0, 0.5, 3.0, 2.0, 1.0]  # two ahead of all, the third behind all
    level = np.array([[2 / 3, 2 / 3, 0.1], [0.2, 0.3, 0.9]])
    ranks = ranks_of(np.array([first, second, first]).T)
    assignment = Assignment(np.array([0, 1, 2]), np.array([[3, 4, 5]]))
    chosen = choose(ranks, [assignment, assignment], level, np.array([0, 1, 2]))
    assert chosen.signal.tolist() == [1, 2]
    assert chosen.tpr.tolist() == pytest.approx([2 / 3, 1 / 3])
    assert choose(ranks, [assignment], level[:1], np.array([2])).signal.tolist() == [2]


def test_trials_are_cells_and_odd_designs_are_refused() -> None:
    coins = toss(("p",) * 9, GAME, stream(3))
    assignment = assignment_of(trials_of(coins), 9)
    negative = np.flatnonzero(~coins.member)
    assert (assignment.others // 9 == negative).all()
    assert (assignment.others % 9 == coins.candidate[negative].T).all()
    trials = trials_of(coins)
    lame = Trials(trials.set, trials.target, trials.member, trials.round, trials.weight * 2)
    with pytest.raises(ContractError):
        assignment_of(lame, 9)
    keep = np.ones(len(trials), dtype=bool)
    keep[-1] = False
    columns = (trials.set, trials.target, trials.member, trials.round, trials.weight)
    with pytest.raises(ContractError):
        assignment_of(Trials(*(column[keep] for column in columns)), 9)
