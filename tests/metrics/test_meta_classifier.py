"""The meta-classifier: fuses what single proxies cannot, and never sees whom it scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import synthleak.metrics.meta_classifier as module
from support.oracles.planted import Ground, nothing, raised
from synthleak.core.seeds import stream
from synthleak.metrics.membership import assignment_of
from synthleak.metrics.meta_classifier import Rows, balanced, fit, fuse, learning_rows
from synthleak.metrics.scored_cell import comparison_of
from synthleak.plan import Plan

GROUND = Ground(design="lone", instances=40, records=15, scenarios=("S1",))


def scores_of(plan: Plan, proxies: int, amount: float) -> np.ndarray:
    sets = int(plan.trials.set.max()) + 1
    values = stream(3, "meta").normal(size=(sets, 15, proxies))
    member = plan.trials.member
    values[plan.trials.set[member], plan.trials.target[member]] += amount
    return values


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_many_weak_proxies_together_beat_the_best_of_them(design: str) -> None:
    ground = Ground(design=design, instances=100 if design == "lone" else 20, records=15)
    plan = ground.plan("odd")
    cell_data, _ = ground.cell("odd", nothing)
    values = scores_of(plan, 8, 0.8)
    made = fuse("S1", values, cell_data.design, plan, stream(1))
    single = (
        comparison_of(cell_data.design, plan, values)
        .statistics([assignment_of(plan.trials, 15)])
        .auc[0]
    )
    assert made.auc > single.max()
    assert made.records == 15
    again = fuse("S1", values, cell_data.design, plan, stream(1))
    assert again == made


def test_noise_fused_is_chance() -> None:
    plan = GROUND.plan("odd")
    cell_data, _ = GROUND.cell("odd", nothing)
    found = [
        fuse("S1", stream(seed).normal(size=(40, 15, 4)), cell_data.design, plan, stream(seed)).auc
        for seed in range(5)
    ]
    assert abs(np.mean(found) - 0.5) < 0.12


def test_no_record_is_in_the_model_that_scores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = GROUND.plan("odd")
    cell_data, _ = GROUND.cell("odd", nothing)
    seen: list[set[int]] = []
    scored: list[set[int]] = []
    plain_fit, plain_folds = module.fit, module._folds

    def watch_fit(rows: Rows, choice: Any) -> Any:
        seen.append(set(rows.record.tolist()))
        return plain_fit(rows, choice)

    def watch_folds(targets: int, rng: Any) -> Any:
        made = plain_folds(targets, rng)
        if targets == 15:
            scored.extend(set(fold.tolist()) for fold in made)
        return made

    monkeypatch.setattr(module, "fit", watch_fit)
    monkeypatch.setattr(module, "_folds", watch_folds)
    fuse("S1", scores_of(plan, 6, 0.5), cell_data.design, plan, stream(1))
    # The model that scores an outer fold learnt from the most records.
    assert len(scored) == 5
    finals = [
        max(seen[i : i + len(seen) // 5], key=len) for i in range(0, len(seen), len(seen) // 5)
    ]
    for model, fold in zip(finals, scored, strict=True):
        assert not model & fold
        assert model | fold == set(range(15))


def test_learning_rows_weight_non_members_by_rounds() -> None:
    plan = GROUND.plan("odd")
    assignment = assignment_of(plan.trials, 15)
    rows = learning_rows(np.arange(40 * 15.0).reshape(40, 15, 1), assignment)
    assert rows.member.sum() == 20
    assert rows.weight[~rows.member].sum() == pytest.approx(20)
    assert sorted(rows.x[rows.member, 0].tolist()) == sorted(assignment.members.tolist())
    weight = balanced(rows)
    assert weight[rows.member].sum() == pytest.approx(weight[~rows.member].sum())
    assert weight.sum() == pytest.approx(rows.weight.sum())


def test_model_equals_balanced_scikit_learn_regression() -> None:
    rng = stream(9)
    member = rng.random(60) < 0.3
    x = rng.normal(size=(60, 3)) + member[:, None] * [0.0, 1.0, 0.3]
    rows = Rows(x, member, np.ones(60), np.arange(60))
    weight = balanced(rows)
    z = (x - np.average(x, axis=0, weights=weight)) / np.sqrt(
        np.average((x - np.average(x, axis=0, weights=weight)) ** 2, axis=0, weights=weight)
    )
    peer = LogisticRegression(C=1.0, class_weight="balanced", tol=1e-8).fit(z, member)
    assert fit(rows, (0, 1.0))(x) == pytest.approx(peer.decision_function(z), abs=1e-3)
    one = LogisticRegression(C=1.0, class_weight="balanced", tol=1e-8).fit(z[:, [1]], member)
    assert fit(rows, (1, 1.0))(x) == pytest.approx(one.decision_function(z[:, [1]]), abs=1e-3)


def test_a_fold_without_members_says_nothing() -> None:
    rows = Rows(np.ones((4, 2)), np.zeros(4, dtype=bool), np.ones(4), np.arange(4))
    assert fit(rows, (0, 1.0))(np.ones((3, 2))).tolist() == [0.0, 0.0, 0.0]
    assert raised(1.0)(np.arange(2), np.arange(2)).tolist() == [1.0, 1.0]
