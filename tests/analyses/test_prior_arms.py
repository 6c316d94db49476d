"""How the columns of a prior attack become scores, figures and a comparison."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from synthleak.analyses.prior import (
    ArmMeasurements,
    AttackMeasurements,
    attack_scores,
    compare,
    log_mean_probability,
    prior_rows,
)
from synthleak.core.artefact import as_json
from synthleak.core.cell import Cell
from synthleak.evidence.prior.canary import Canary
from synthleak.evidence.prior.domias import Domias
from synthleak.plan import Baseline

NONE = np.zeros((3, 5), dtype=np.bool_)
LAST_TWO = NONE.copy()
LAST_TWO[:, 3:] = True
ALL = ~NONE
CELL = Cell("corpus", "pool", "generator", math.inf)


def columns(seed: int, count: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(5, 3, count))


def test_every_arm_is_calibrated_by_its_own_rule() -> None:
    values = np.abs(columns(1, 2))
    baselines = [Baseline("S1", NONE), Baseline("S2", LAST_TWO), Baseline("S3", LAST_TWO)]
    scores, arms = attack_scores(Canary(), values, baselines)
    assert [(arm.name, arm.scenario) for arm in arms] == [
        ("n", "S1"), ("s", "S1"), ("nR", "S2"), ("sR", "S2"), ("nR", "S3"), ("sR", "S3"),
    ]  # fmt: skip
    first, second = scores[0].values, scores[1].values
    assert first == pytest.approx(values)
    log_p, cosine = values[0, :, 0], values[0, :, 1]
    probability = np.log((np.exp(values[3, :, 0]) + np.exp(values[4, :, 0])) / 2)
    assert second[0, :, 0] == pytest.approx(log_p - probability)
    assert second[0, :, 1] == pytest.approx(cosine / (values[3:, :, 1].mean(axis=0) + 1e-6))
    assert [proxy.name for proxy in scores[1].proxies] == ["nR", "sR"]


def test_in_and_out_references_count_for_half_each() -> None:
    """½(mean IN + mean OUT) is the mean over all, as each target is in exactly half of them."""
    log_p = np.log(np.random.default_rng(2).random((5, 3)))
    inside, outside = np.exp(log_p[[1, 3]]), np.exp(log_p[[2, 4]])
    uses = NONE.copy()
    uses[:, 1:] = True
    expected = np.log(0.5 * (inside.mean(axis=0) + outside.mean(axis=0)))
    assert log_mean_probability(log_p, Baseline("S2", uses))[0] == pytest.approx(expected)


def test_a_set_never_calibrates_itself() -> None:
    log_p = columns(3, 1)[:, :, 0]
    found = log_mean_probability(log_p, Baseline("S3", ALL))
    for position in range(5):
        others = np.delete(np.exp(log_p), position, axis=0)
        assert found[position] == pytest.approx(np.log(others.mean(axis=0)))


def test_long_documents_do_not_underflow() -> None:
    log_p = columns(4, 1)[:, :, 0] - 50_000
    assert np.isfinite(log_mean_probability(log_p, Baseline("S2", LAST_TWO))).all()


def test_a_negative_mean_cosine_counts_as_zero() -> None:
    values = np.full((5, 3, 2), 0.5)
    values[3:, :, 1] = -0.1
    scores, _ = attack_scores(Canary(), values, [Baseline("S2", LAST_TWO)])
    assert (scores[0].values[0, :, 1] > 0).all()
    assert np.isfinite(scores[0].values).all()


def test_arms_without_references_are_left_out() -> None:
    baselines = [Baseline("S1", NONE), Baseline("S2", NONE)]
    _, arms = attack_scores(Canary(), columns(5, 2), baselines)
    assert [arm.name for arm in arms] == ["n", "s"]
    _, arms = attack_scores(Domias(), columns(5, 8), baselines)
    assert {arm.scenario for arm in arms} == {"S2"}  # R is known, references are not
    _, arms = attack_scores(Domias(), columns(5, 8), [*baselines, Baseline("S3", NONE)])
    assert {arm.scenario for arm in arms} == {"S2"}


def figures(name: str, *aucs: float) -> AttackMeasurements:
    arms = tuple(
        ArmMeasurements(f"{name}{place}", "S2", "lexical", auc, 0.1, 0.6)
        for place, auc in enumerate(aucs)
    )
    return AttackMeasurements(name, arms, 0.61, 0.02)


class Ours:
    """Only what the comparison reads of a row."""

    def __init__(self, auc: float, proxy: str) -> None:
        self.auc, self.tpr_at_fpr05, self.proxy = auc, 0.3, proxy
        self.scenario, self.p_cell = "S1", 0.04


def test_each_family_collapses_to_its_best_arm() -> None:
    prior = [figures("canary", 0.6, 0.7), figures("domias", 0.65, 0.62)]
    row = compare(CELL, [Ours(0.71, "cos_max"), Ours(0.75, "lof")], prior)  # type: ignore[list-item]
    assert (row.ours_auc, row.ours_proxy) == (0.75, "lof")
    assert (row.canary_auc, row.canary_arm) == (0.7, "canary1")
    assert (row.domias_auc, row.domias_arm, row.domias_null95) == (0.65, "domias0", 0.61)
    assert row.delta == pytest.approx(0.05)
    assert (row.prior_arm, row.winner) == ("canary canary1", "ours")


def test_the_winner_may_be_a_prior_attack_or_nobody() -> None:
    beaten = compare(CELL, [Ours(0.6, "lof")], [figures("domias", 0.65)])  # type: ignore[list-item]
    assert (beaten.winner, beaten.canary_auc, beaten.canary_arm) == ("domias", None, None)
    even = compare(CELL, [Ours(0.65, "lof")], [figures("domias", 0.65)])  # type: ignore[list-item]
    assert even.winner == "tie"


def test_tied_arms_are_ordered_by_tpr() -> None:
    made = figures("canary", 0.7, 0.7)
    assert made.best.name == "canary0"
    better = replace(made, arms=(made.arms[0], replace(made.arms[1], tpr=0.2)))
    assert better.best.name == "canary1"


def test_prior_measurements_survive_the_store() -> None:
    made = figures("canary", 0.6, 0.7)
    dump, load = as_json(AttackMeasurements)
    assert load(dump(made)) == made
    rows = prior_rows(CELL, [made, figures("domias", 0.5)])
    assert [(row.family, row.arm, row.auc) for row in rows] == [
        ("canary", "canary0", 0.6),
        ("canary", "canary1", 0.7),
        ("domias", "domias0", 0.5),
    ]
