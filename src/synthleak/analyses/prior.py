"""Prior attacks in the same game: every arm, and the best beside ours (docs/method.md §9).

Each attack is represented by its best arm per cell, as ours is by its best proxy and scenario, and
is compared with redraws of the same coins (docs/method.md §8).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from synthleak.analyses.cells import CellRow, columns_of
from synthleak.calibration import TINY, Scores, expectation, rounded
from synthleak.core.cell import Cell, CellColumns
from synthleak.evidence.attack import Arm, Attack, Rule
from synthleak.evidence.family import Proxy
from synthleak.evidence.observation import Floats
from synthleak.metrics.measurements import known, passable
from synthleak.metrics.membership import Assignment, round_measurements
from synthleak.metrics.null import min_p_test, upper_point
from synthleak.metrics.scored_cell import comparison_of
from synthleak.plan.plan import Baseline, Design, Plan

OURS = "ours"


@dataclass(frozen=True)
class ArmMeasurements:
    """One arm of an attack in one scenario, with the chance limit of the attack's whole search."""

    name: str
    scenario: str
    view: str
    auc: float
    tpr: float
    auc_ceiling: float | None


@dataclass(frozen=True)
class AttackMeasurements:
    """One attack on one cell: its arms, the chance limit of the best of them, and its p."""

    attack: str
    arms: tuple[ArmMeasurements, ...]
    null_auc95: float | None
    p: float | None

    @property
    def best(self) -> ArmMeasurements:
        """The best arm by AUC, ties by TPR, then in the order in which the attack names them."""
        return max(self.arms, key=lambda arm: (arm.auc, arm.tpr))


@dataclass(frozen=True)
class PriorRow(CellColumns):
    """A row of `prior.csv`: one arm of a prior attack in one scenario of one cell."""

    family: str
    arm: str
    scenario: str
    auc: float
    tpr_at_fpr05: float
    view: str
    auc_ceiling: float | None


@dataclass(frozen=True)
class ComparisonRow(CellColumns):
    """A row of `comparison.csv`: ours beside prior attacks, each at its best (docs/results.md)."""

    ours_auc: float
    ours_tpr: float
    ours_proxy: str
    ours_scenario: str
    ours_p: float | None
    canary_auc: float | None
    canary_tpr: float | None
    canary_arm: str | None
    canary_scenario: str | None
    canary_null95: float | None
    canary_p: float | None
    domias_auc: float | None
    domias_tpr: float | None
    domias_arm: str | None
    domias_scenario: str | None
    domias_null95: float | None
    domias_p: float | None
    delta: float | None
    prior_arm: str | None
    winner: str


def attack_scores(
    attack: Attack,
    values: Floats,
    baselines: Sequence[Baseline],
    arms_of_attack: Sequence[Arm] | None = None,
) -> tuple[list[Scores], list[Arm]]:
    """Score every target on every set by every arm that these baselines allow.

    `values[set, target, column]` is what the attack saw. Scores and arms are in the same order. The
    arms are the attack's own unless others are given, as for persons.
    """
    every = attack.arms if arms_of_attack is None else arms_of_attack
    values = rounded(values)
    scores, used = [], []
    for baseline in baselines:
        known = baseline.uses.any() or baseline.scenario != "S3"
        arms = [arm for arm in every if arm.scenario == baseline.scenario]
        arms = [arm for arm in arms if known and (arm.rule == "as it is" or baseline.uses.any())]
        if not arms:
            continue
        columns = [
            rounded(_arm_score(arm.rule, values[:, :, arm.column], baseline)) for arm in arms
        ]
        proxies = tuple(
            Proxy(arm.name, attack.kind, arm.view, "difference", arm.meaning) for arm in arms
        )
        scores.append(Scores(baseline.scenario, rounded(np.stack(columns, axis=2)), proxies))
        used += arms
    return scores, used


def _arm_score(rule: Rule, column: Floats, baseline: Baseline) -> Floats:
    """Return a column as a score, by the rule that an arm names."""
    if rule == "mean probability":
        return column - log_mean_probability(column, baseline)
    if rule == "ratio":
        # A mean below 0, which allows no ratio, counts as 0.
        expected = expectation(column[:, :, None], baseline)[:, :, 0]
        return np.asarray(column / (np.maximum(expected, 0.0) + TINY))
    return column


def log_mean_probability(column: Floats, baseline: Baseline) -> Floats:
    """Return the log of the mean probability over the calibrating sets, computed in log space.

    Half of them hold the target, so this is log ½(mean IN + mean OUT). A set never calibrates
    itself.

    >>> uses = np.array([[False, True, True]])
    >>> log_p = np.array([[-9000.0], [-9001.0], [-9001.0]])
    >>> log_mean_probability(log_p, Baseline("S2", uses)).round(1).tolist()
    [[-9001.0], [-9001.0], [-9001.0]]
    """
    from scipy.special import logsumexp

    uses = baseline.uses.T
    expected = np.zeros_like(column)
    for position in range(len(column)):
        others = uses.copy()
        others[position] = False
        count = others.sum(axis=0)
        summed = logsumexp(np.where(others, column, -np.inf), axis=0)
        expected[position] = np.where(count > 0, summed - np.log(np.maximum(count, 1)), 0.0)
    return expected


def measure_attack(
    attack: Attack,
    values: Floats,
    design: Design,
    plan: Plan,
    assignments: Sequence[Assignment],
    arms_of_attack: Sequence[Arm] | None = None,
) -> AttackMeasurements:
    """Measure every arm of an attack on one cell, with their nulls.

    `assignments` are the coins as drawn, then redraws.
    """
    scores, arms = attack_scores(attack, values, plan.baselines, arms_of_attack)
    sets = int(plan.trials.set.max()) + 1
    together = np.concatenate([table.values[:sets] for table in scores], axis=2)
    statistics = comparison_of(design, plan, together).statistics(assignments)
    test = min_p_test(statistics.values)
    ceilings = np.full(len(arms), np.inf) if test is None else test.ceilings()[0]
    rates = round_measurements(together, assignments[0]).tpr
    return AttackMeasurements(
        attack=attack.kind,
        arms=tuple(
            ArmMeasurements(
                name=arm.name,
                scenario=arm.scenario,
                view=arm.view,
                auc=float(statistics.auc[0, position]),
                tpr=float(rates[position]),
                auc_ceiling=passable(float(ceilings[position])),
            )
            for position, arm in enumerate(arms)
        ),
        null_auc95=known(upper_point(statistics.auc[1:].max(axis=1))),
        p=None if test is None else test.p,
    )


def prior_rows(cell: Cell, attacks: Sequence[AttackMeasurements]) -> list[PriorRow]:
    return [
        PriorRow(
            **cell.columns,
            family=attack.attack,
            **columns_of(arm, "scenario auc view auc_ceiling", arm="name", tpr_at_fpr05="tpr"),
        )
        for attack in attacks
        for arm in attack.arms
    ]


def compare(
    cell: Cell, ours: Sequence[CellRow], attacks: Sequence[AttackMeasurements]
) -> ComparisonRow:
    best = max(ours, key=lambda row: (row.auc, row.tpr_at_fpr05))
    prior = max(attacks, key=lambda attack: (attack.best.auc, attack.best.tpr), default=None)
    delta = None if prior is None else best.auc - prior.best.auc
    winner = OURS
    if prior is not None and delta is not None and delta <= 0:
        winner = prior.attack if delta < 0 else "tie"
    return ComparisonRow(
        **cell.columns,
        ours_auc=best.auc,
        ours_tpr=best.tpr_at_fpr05,
        ours_proxy=best.proxy,
        ours_scenario=best.scenario,
        ours_p=best.p_cell,
        **_attack_columns("canary", attacks),
        **_attack_columns("domias", attacks),
        delta=delta,
        prior_arm=None if prior is None else f"{prior.attack} {prior.best.name}",
        winner=winner,
    )


def _attack_columns(name: str, attacks: Sequence[AttackMeasurements]) -> dict[str, Any]:
    """Return the columns of one prior attack; empty where the audit left it out."""
    attack = next((attack for attack in attacks if attack.attack == name), None)
    columns = {
        **columns_of(None if attack is None else attack.best, "auc tpr scenario", arm="name"),
        **columns_of(attack, "p", null95="null_auc95"),
    }
    return {f"{name}_{column}": value for column, value in columns.items()}
