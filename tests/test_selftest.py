"""The auditor audited: rows are judged by their limits, and audits are whole and repeatable."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from synthleak.engine.progress import Silent
from synthleak.selftest import running
from synthleak.selftest.judging import binomial_limit, check
from synthleak.selftest.playing import audit
from synthleak.selftest.rows import ROWS, Outcome, Row
from synthleak.selftest.running import Selftest, report_of, run_selftest

QUIET = Outcome(
    p=0.5,
    crossfit_p=0.5,
    auc=0.5,
    tpr=0.1,
    width=0.3,
    epsilon_lower=0.0,
    epsilon_claim=1.0,
    named=0,
    wrong=0,
)
LOUD = replace(QUIET, p=0.005, crossfit_p=0.05)
CHANCE = [QUIET] * 40


def row_of(kind: str, design: str = "cohort", **more: object) -> Row:
    return next(
        row
        for row in ROWS
        if row.kind == kind
        and row.design == design
        and all(getattr(row, key) == value for key, value in more.items())
    )


def test_every_promise_is_tested_in_every_design_it_is_made_for() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) == 13
    for design in ("lone", "cohort"):
        generators = {row.generator for row in ROWS if row.design == design}
        assert {"constant", "bystander", "echo", "ngram"} <= generators


def test_false_alarms_pass_up_to_the_binomial_limit_and_fail_above() -> None:
    row, limit = row_of("null"), binomial_limit(100)
    for alarms, passed in ((limit, True), (limit + 1, False)):
        made = check(row, [LOUD] * alarms + [QUIET] * (100 - alarms), CHANCE)
        assert made.passed is passed and made.found == alarms / 100
    silent = check(row, [replace(QUIET, p=None, crossfit_p=None)] * 50, CHANCE)
    assert silent.passed and silent.value == 0
    # An alarm of the deployable figure alone counts as well.
    assert not check(row, [replace(QUIET, crossfit_p=0.05)] * 50, CHANCE).passed


def test_a_bound_above_its_claim_counts_against_the_auditor() -> None:
    row = row_of("claim")
    broken = replace(QUIET, epsilon_lower=1.5)
    assert check(row, [broken] * 3 + [QUIET] * 97, CHANCE).passed
    assert not check(row, [broken] * 30 + [QUIET] * 70, CHANCE).passed
    assert check(row, [replace(broken, epsilon_claim=None)] * 50, CHANCE).passed


def test_echo_is_held_to_its_closed_form() -> None:
    row = row_of("echo", p=0.5)
    spread = (-0.02, 0.02)
    right = [replace(QUIET, auc=0.75 + d, tpr=0.55 + d) for d in spread] * 20
    assert check(row, right, CHANCE).passed
    assert not check(row, [replace(o, auc=o.auc - 0.03) for o in right], CHANCE).passed
    assert not check(row, [replace(o, tpr=o.tpr + 0.03) for o in right], CHANCE).passed
    lucky = [replace(QUIET, tpr=0.2)] * 40
    assert not check(row, right, lucky).passed
    assert check(row, [replace(o, tpr=o.tpr + 0.05) for o in right], lucky).passed


def test_named_records_are_held_to_the_rate_and_must_be_named() -> None:
    row = row_of("named")
    assert check(row, [replace(QUIET, named=10, wrong=0)] * 30, CHANCE).passed
    assert not check(row, [replace(QUIET, named=10, wrong=3)] * 30, CHANCE).passed
    assert not check(row, [QUIET] * 30, CHANCE).passed


def test_audits_walk_the_corridor_and_repeat() -> None:
    row = row_of("echo", p=1.0)
    one = audit(row, 3)
    assert one == audit(row, 3)
    assert one.auc == one.tpr == 1.0 and one.p == 0.005
    assert one.named == 20 and one.epsilon_lower is not None and one.epsilon_lower > 1
    quiet = audit(row_of("claim", "lone"), 3)
    assert quiet.epsilon_claim == pytest.approx(1.0, abs=1e-3)
    half = audit(row_of("named"), 4)
    assert half.named - half.wrong >= 8


def test_a_selftest_in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    few = [row for row in ROWS if row.p == 0.1 or row.by_chance]
    monkeypatch.setattr(running, "ROWS", few)
    made = run_selftest(full=False, workers=1, progress=Silent(), audits=2)
    assert [row.audits for row in made.rows] == [2, 2, 2, 2]
    content = json.loads(json.dumps(report_of(made)))
    assert content["rows"][0]["row"] == "bystander, lone"
    assert content["passed"] == made.passed
    assert "of cohort audits" in content["comparison"]
    assert not Selftest([replace(made.rows[0], passed=False)], 1.0).passed
    assert all(math.isfinite(row.value) for row in made.rows)
