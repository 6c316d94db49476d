"""All figures of a cell: deterministic, whole, and honest where little can be said."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

from synthleak.analyses.cells import judge, power_of
from synthleak.calibration import Scores
from synthleak.core.artefact import as_json
from synthleak.core.cell import FOUND, NONE_FOUND, Verdict, judge_cell
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.evidence import Proxy
from synthleak.metrics.epsilon import claim_roc, promise_of
from synthleak.metrics.measure import measure, redraws_for
from synthleak.metrics.measurements import CellMeasurements, interval
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan import Plan, designs
from synthleak.pools import Pool
from synthleak.releases import Claim, GaussianEvent, no_claim, stated_claim

PROXIES = tuple(Proxy(f"p{i}", "f", "lexical", "ratio", "a number") for i in range(3))
CLAIM = Claim(1.0, 1e-4, (GaussianEvent("a sum", 4.0, 1.0, math.sqrt(2)),))


def pool_of(targets: int) -> Pool:
    return Pool(
        "p",
        tuple(range(targets)),
        ("p",) * targets,
        tuple(range(targets, targets + 150)),
        tuple(range(targets + 150, targets + 300)),
    )


def game_of(design: str, instances: int = 20, **more: Any) -> GameSection:
    return GameSection(
        **{"design": design, "instances": instances, "records": 100, "rounds": 5, "candidates": 4}
        | more
    )


def made(
    design: str,
    *,
    instances: int = 20,
    targets: int = 10,
    leak: float = 0.0,
    constant: bool = False,
    claim: Claim | None = None,
    seed: int = 1,
    redraws: int = 199,
) -> tuple[CellMeasurements, Plan]:
    game = game_of(design, instances)
    plugin = designs.get(design).plugin
    plan = plugin.draw(pool_of(targets), game, seed)
    rng = stream(seed, "values")
    tables = []
    for baseline in plan.baselines:
        values = rng.normal(size=(len(plan.sets), targets, 3))
        if constant:
            values[:] = 0.5
        members = plan.trials.member
        values[plan.trials.set[members], plan.trials.target[members], 1] += leak
        tables.append(Scores(baseline.scenario, values, PROXIES))
    figures = measure(
        ScoredCell(tables, plugin, plan, game, (seed, "cell")),
        claim or no_claim(),
        redraws=redraws,
        crossfit_redraws=19,
    )
    return figures, plan


def numbers(content: Any) -> list[float]:
    if isinstance(content, dict):
        return [n for value in content.values() for n in numbers(value)]
    if isinstance(content, list | tuple):
        return [n for value in content for n in numbers(value)]
    return [content] if isinstance(content, float) else []


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_leak_fills_every_measurement(design: str) -> None:
    instances = 40 if design == "lone" else 20
    figures, plan = made(design, leak=3.0, instances=instances)
    assert figures.reason is None and figures.p is not None and figures.p <= 3 / 200
    assert figures.deciding is not None and figures.deciding.signal % 3 == 1
    assert figures.deciding.ceiling is not None
    assert figures.deciding.value > figures.deciding.ceiling
    assert [row.scenario for row in figures.rows] == ["S1", "S2", "S3"]
    for place, row in enumerate(figures.rows):
        assert row.signal == 3 * place + 1
        assert row.auc.low is not None and row.auc.high is not None and row.auc.null is not None
        assert row.auc.low <= row.auc.value <= row.auc.high
        assert row.auc.null < row.auc.value and row.auc.p is not None and row.auc.p <= 3 / 200
        assert row.tpr.null is not None and row.tpr.null < row.tpr.value
        assert row.crossfit is not None and row.crossfit.p == 1 / 20
        assert row.crossfit.value > 0.9 and row.crossfit_tpr is not None
        assert row.records_low is not None and row.records_low < row.crossfit.value
    assert figures.crossfit is not None and figures.mu is not None and figures.mu > 1
    assert figures.signals[1].auc_ceiling is not None
    assert figures.signals[1].auc > figures.signals[1].auc_ceiling > figures.signals[0].auc
    bound = figures.epsilon
    assert bound is not None and bound.lower is not None and bound.largest is not None
    assert 0 < bound.lower <= bound.largest
    assert figures.epsilon_claim == math.inf
    assert len(figures.records) == (10 if design == "cohort" else 0)
    assert bound.delta == pytest.approx(1 / plan.nominal**2)


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_figures_are_deterministic_and_survive_the_store(design: str) -> None:
    one, _ = made(design, redraws=59)
    two, _ = made(design, redraws=59)
    assert one == two
    dump, load = as_json(CellMeasurements)
    assert load(dump(one)) == one
    other, _ = made(design, redraws=59, seed=2)
    assert other != one


def test_records_of_a_cohort_are_named() -> None:
    figures, _ = made("cohort", leak=3.0, instances=24)
    assert len(figures.records) == 10 and all(row.q >= row.p for row in figures.records)
    assert np.mean([row.q <= 0.1 for row in figures.records]) > 0.8
    quiet, _ = made("cohort", instances=24)
    assert np.mean([row.q <= 0.1 for row in quiet.records]) < 0.2


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_ties_everywhere_cannot_say(design: str) -> None:
    figures, _ = made(design, constant=True)
    assert figures.p is None and figures.reason is not None
    said = judge([figures])[0]
    assert said.words.startswith("cannot say: no signal ever differs") and said.p_holm is None
    assert all(row.auc.value == 0.5 for row in figures.rows)
    assert power_of(figures, figures.rows[0], 1) is None
    assert all(math.isfinite(n) for n in numbers(asdict(figures)) if n != math.inf)


@pytest.mark.parametrize(
    ("design", "instances", "targets"),
    [("lone", 2, 2), ("cohort", 1, 2), ("cohort", 3, 1), ("cohort", 2, 1)],
)
def test_too_few_trials_cannot_say(design: str, instances: int, targets: int) -> None:
    figures, _ = made(design, instances=instances, targets=targets, leak=9.0)
    said = judge([figures])[0].words
    assert said.startswith("cannot say: ")
    assert "too few" in said or "no signal" in said
    assert not any(math.isnan(n) for n in numbers(asdict(figures)))


@pytest.mark.parametrize("seed", range(6))
def test_one_release_of_three_records_never_breaks(seed: int) -> None:
    """Among these seeds all coins agree at least once: nobody to compare, and it says so."""
    figures, plan = made("cohort", instances=1, targets=3, leak=9.0, seed=seed)
    assert judge([figures])[0].words.startswith("cannot say: too few")
    assert not any(math.isnan(n) for n in numbers(asdict(figures)))
    if plan.trials.member.all() or not plan.trials.member.any():
        assert figures.crossfit is None and figures.rows[0].auc.value == 0.5


def test_one_release_is_judged_on_its_coins() -> None:
    """`instances = 1`: the pooled attacker's AUC; no S3, no AUC per record, folds over records."""
    figures, plan = made("cohort", instances=1, targets=20, leak=4.0)
    assert [row.scenario for row in figures.rows] == ["S1", "S2"]
    assert figures.records == ()
    assert figures.p is not None and figures.p <= 3 / 200 and figures.reason is None
    row = figures.rows[0]
    assert row.auc.value == row.pooled.value
    assert row.crossfit is not None and "over records" in row.crossfit.method
    assert figures.epsilon is not None and figures.epsilon.trials == 10
    assert len(plan.trials) == 20


def test_a_pool_of_one_is_tested_over_many_releases() -> None:
    figures, _ = made("cohort", instances=40, targets=1, leak=5.0)
    assert figures.reason is None and figures.p is not None and figures.p <= 2 / 200
    assert judge([figures])[0].verdict == Verdict(FOUND)
    # One record, 40 releases: 20 coins counted, all right.
    assert figures.epsilon is not None and figures.epsilon.lower is not None
    assert figures.epsilon.trials == 20


def test_a_claim_is_evaluated_where_the_bound_is() -> None:
    for design in ("lone", "cohort"):
        figures, plan = made(design, claim=CLAIM)
        assert figures.epsilon is not None and figures.epsilon.delta == 1e-4
        assert figures.epsilon_claim == pytest.approx(CLAIM.epsilon_at(1e-4, plan.adjacency))
        assert figures.epsilon.p is not None
        unclaimed, _ = made(design)
        assert unclaimed.epsilon is not None and unclaimed.epsilon.p is None


def test_the_test_of_a_claim_does_not_depend_on_the_seed_of_the_cell() -> None:
    """The reserved part comes from the targets, whatever a user may name the draws."""
    game, plugin = game_of("cohort"), designs.get("cohort").plugin
    plan = plugin.draw(pool_of(10), game, 1)
    values = stream(1, "values").normal(size=(len(plan.sets), 10, 3))
    members = plan.trials.member
    values[plan.trials.set[members], plan.trials.target[members], 1] += 1.2
    tables = [Scores(baseline.scenario, values, PROXIES) for baseline in plan.baselines]
    found = {
        measure(
            ScoredCell(tables, plugin, plan, game, (seed, "cell")),
            CLAIM,
            redraws=19,
            crossfit_redraws=1,
            spreads=False,
        ).epsilon
        for seed in range(4)
    }
    assert len(found) == 1 and all(one is not None and one.p not in (None, 1) for one in found)


def test_a_broken_claim_comes_first_in_the_verdict() -> None:
    figures, _ = made("cohort", leak=8.0, claim=CLAIM)
    said = judge([figures])[0].words
    assert said.startswith("CLAIM BROKEN (ε ≥ ") and said.endswith("; leak found")


def test_claims_are_adjusted_over_the_cells_that_make_one() -> None:
    broken, _ = made("cohort", leak=1.2, claim=CLAIM)
    quiet, _ = made("cohort", claim=CLAIM)
    silent, _ = made("cohort")
    assert broken.epsilon is not None and broken.epsilon.p is not None
    assert 0.05 / 20 < broken.epsilon.p <= 0.05 / 2
    alone, _, none = judge([broken, quiet, silent])
    assert alone.claim_p_holm == pytest.approx(2 * broken.epsilon.p)
    assert alone.verdict.worst == "broken" and none.claim_p_holm is None
    among = judge([broken, *[quiet] * 19])[0]
    assert among.claim_p_holm == pytest.approx(20 * broken.epsilon.p)
    assert among.verdict.contradiction is None


def test_delta_of_each_kind_of_claim() -> None:
    assert promise_of(no_claim(), "add", 200).delta == 1 / 200**2
    assert promise_of(CLAIM, "replace", 200).delta == 1e-4
    stated = stated_claim(1.0, 1e-5)
    assert promise_of(stated, "add", 200).delta == pytest.approx(1e-5)
    loose = promise_of(stated, "replace", 200).delta
    assert loose == pytest.approx((1 + math.e) * 1e-5)
    assert stated.epsilon_at(loose, "replace") == pytest.approx(2.0)


def test_the_roc_that_a_claim_allows() -> None:
    """A Gaussian mechanism's own trade-off: TPR = Φ(Φ⁻¹(FPR) + μ)."""
    from scipy.stats import norm

    fpr = np.linspace(0.01, 0.99, 25)
    for adjacency, mu in (("add", 0.25), ("replace", 0.25 * math.sqrt(2))):
        exact = norm.cdf(norm.ppf(fpr) + mu)
        found = claim_roc(CLAIM, adjacency, fpr)  # type: ignore[arg-type]
        assert (found >= exact - 1e-3).all()
        assert found == pytest.approx(exact, abs=0.02)
    assert (claim_roc(no_claim(), "add", fpr) == 1).all()
    point = claim_roc(stated_claim(1.0, 0.01), "add", fpr)
    by_hand = np.minimum(math.e * fpr + 0.01, 1 - math.exp(-1) * (1 - 0.01 - fpr))
    assert point == pytest.approx(np.minimum(by_hand, 1.0))


def test_holm_makes_power_dearer() -> None:
    figures, _ = made("lone", redraws=1999, instances=80)
    alone, among = (power_of(figures, figures.rows[0], cells) for cells in (1, 9))
    assert alone is not None and among is not None and 0.5 < alone < among < 1
    assert figures.null is not None
    assert figures.null.critical(0.05) < figures.null.critical(0.005)


def test_redraws_grow_with_the_cells_that_holm_counts() -> None:
    for cells in (1, 9, 19, 20, 45, 200):
        for statistics in (2, 3, 4):
            redraws = redraws_for(cells, statistics)
            assert redraws >= 2000 and cells * statistics / (redraws + 1) < 0.01


def test_intervals_stay_within_bounds() -> None:
    low, high = interval(0.99, 0.02, (40, 40))
    assert 0 < low < 0.9508 and 0.99 < high < 1  # a symmetric interval would pass 1
    low, high = interval(0.0, 0.0, (30, 90))
    assert low == 0.0 and high == pytest.approx(1 - 0.025 ** (1 / 30))
    assert interval(0.7, math.nan, (30, 30)) == interval(0.7, 0.1, (1, 30)) == (0.0, 1.0)
    assert interval(0.5, 0.0, (1, 30)) == (0.5, 0.5)  # all scores tied


@pytest.mark.parametrize(("sides", "freedom"), [((12, 12), 22), ((12, 10_000), 11)])
def test_few_units_widen_an_interval_as_students_t_does(
    sides: tuple[float, float], freedom: int
) -> None:
    low, high = interval(0.5, 0.05, sides)
    reach = t.ppf(0.975, freedom) * math.sqrt(12 / 11) * 0.05 * 4  # on the logit scale
    assert [math.log(x / (1 - x)) for x in (low, high)] == pytest.approx([-reach, reach], rel=0.01)


def test_verdicts_and_their_words() -> None:
    assert judge_cell(0.05, None) == Verdict(FOUND)
    assert judge_cell(0.051, None) == Verdict(NONE_FOUND)
    assert judge_cell(0.01, None, 0.06, 1.0, 1.2).contradiction is None
    broken = judge_cell(0.01, None, 0.05, 1.0, 0.4)
    assert (broken.kind, broken.worst, broken.leaks) == (FOUND, "broken", True)
    every = [str(judge_cell(p, None)) for p in (0.01, 0.5, None)] + [str(broken)]
    assert len(set(every)) == 4 and not any("safe" in text for text in every)
