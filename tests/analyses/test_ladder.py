"""The model's rung: it holds its level, finds what is planted, and is told in plain words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from support.specs import tiny_spec
from synthleak.analyses.cells import CellVerdict
from synthleak.analyses.ladder import (
    LadderRow,
    allowed_by,
    model_scores,
)
from synthleak.audit.setup import Setup, game_of, plan_of
from synthleak.audit.stages import set_up
from synthleak.core.cell import FOUND, NONE_FOUND, Verdict
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.evidence import Floats
from synthleak.metrics.measure import measure
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan import Plan, designs
from synthleak.releases import Claim, GaussianEvent, gaussian_sigma, no_claim
from synthleak.report.results import CellResult
from synthleak.report.verdict import model_line

GAMES = {
    "cohort": {"design": "cohort", "instances": 10, "records": 60},
    "lone": {"design": "lone", "instances": 12, "records": 30, "rounds": 4, "candidates": 5},
}
SIMULATED = 150
COLUMNS = ("sum", "mean")


def setup_of(design: str, **game: Any) -> Setup:
    pools = [{"name": "random", "rule": "random", "size": 12, "draws": 1}]
    spec = tiny_spec(pool=pools, game=GAMES[design] | game)
    return set_up(LoadedSpec(parse_spec(spec)), MemoryStore())


def unrelated(plan: Plan, rng: np.random.Generator) -> Floats:
    """Scores of models that never saw a target: texts, models and tokens differ, coins do not."""
    shape = (len(plan.sets), len(plan.targets))
    text, model = rng.standard_t(3, shape[1]) * 5, rng.normal(size=(shape[0], 1))
    total = text + model + rng.standard_t(3, shape)
    return np.stack([total, total / rng.integers(3, 40, shape[1])], axis=2)


def measured(setup: Setup, values: Floats, claim: Claim | None = None, name: int = 0) -> Any:
    cell = setup.cells[0]
    plan = plan_of(setup, cell)
    scored = ScoredCell(
        [model_scores(values, plan, COLUMNS)],
        designs.get(plan.design).plugin,
        plan,
        game_of(setup, cell),
        (name, "model"),
    )
    held = claim or no_claim()
    return measure(scored, held, redraws=199, crossfit_redraws=19, spreads=False)


@pytest.mark.parametrize("design", GAMES)
def test_models_that_saw_no_target_are_found_at_the_level(design: str) -> None:
    setup = setup_of(design)
    plan, rng = plan_of(setup, setup.cells[0]), np.random.default_rng(5)
    found = 0
    for number in range(SIMULATED):
        result = measured(setup, unrelated(plan, rng), name=number)
        assert result.p is not None
        found += result.p <= 0.05
    assert binom.sf(found - 1, SIMULATED, 0.05) > 0.001, found


@pytest.mark.parametrize("design", GAMES)
def test_models_that_remember_are_found(design: str) -> None:
    setup = setup_of(design)
    plan = plan_of(setup, setup.cells[0])
    values = unrelated(plan, np.random.default_rng(6))
    trials = plan.trials
    values[trials.set[trials.member], trials.target[trials.member]] += 30.0
    result = measured(setup, values)
    assert result.p is not None and result.p <= 0.02
    (row,) = result.rows
    assert row.pooled.value > 0.95
    # As it is, what differs between texts hides who was in; against the others it is gone.
    assert result.signals[row.signal].auc > 0.95 and row.signal in (0, 1)


def test_others_calibrate_and_raw_sets_do_not() -> None:
    plan = plan_of(setup := setup_of("cohort"), setup.cells[0])
    values = unrelated(plan, np.random.default_rng(7))
    table = model_scores(values, plan, COLUMNS)
    assert [proxy.name for proxy in table.proxies] == [
        *("model_sum against others", "model_mean against others", "model_sum", "model_mean")
    ]
    has_model = [place for place, item in enumerate(plan.sets) if item.form == "release"]
    assert 0 < len(has_model) < len(plan.sets)
    for place in has_model:
        rest = [other for other in has_model if other != place]
        expected = values[place] - values[rest].mean(axis=0)
        np.testing.assert_allclose(table.values[place, :, :2], expected, atol=1e-9)
        np.testing.assert_allclose(table.values[place, :, 2:], values[place], atol=1e-9)


def test_persons_are_scored_by_their_largest_and_mean_record() -> None:
    plan = plan_of(setup := setup_of("cohort"), setup.cells[0])
    records = np.random.default_rng(8).normal(size=(len(plan.sets), 2 * len(plan.targets), 2))
    table = model_scores(records, plan, COLUMNS, (2,) * len(plan.targets))
    assert table.proxies[-1].name == "model_mean.mean"
    np.testing.assert_allclose(
        table.values[0, :, -1], records[0, :, 1].reshape(-1, 2).mean(axis=1), atol=1e-9
    )


def gaussian(epsilon: float) -> Claim:
    delta = 1e-5
    return Claim(epsilon, delta, (GaussianEvent("sum", gaussian_sigma(epsilon, delta), 1.0, 2.0),))


def test_a_claim_that_the_model_breaks_is_broken() -> None:
    setup = setup_of("cohort", instances=30, adjacency="add")
    plan = plan_of(setup, setup.cells[0])
    values = unrelated(plan, np.random.default_rng(9))
    assert (measured(setup, values, gaussian(1.0)).epsilon.p or 0) > 0.05
    trials = plan.trials
    values[trials.set[trials.member], trials.target[trials.member]] += 1e3
    bound = measured(setup, values, gaussian(1.0)).epsilon
    assert bound.p < 0.001 and bound.lower > 1.0


def test_a_claim_allows_what_its_gaussian_allows() -> None:
    plan = plan_of(setup := setup_of("cohort", adjacency="add"), setup.cells[0])
    claim = gaussian(4.0)
    from scipy.stats import norm

    mu = 1 / claim.events[0].sigma
    auc, tpr = allowed_by(claim, plan)
    assert auc == pytest.approx(norm.cdf(mu / math.sqrt(2)), abs=2e-3)
    assert tpr == pytest.approx(norm.cdf(mu + norm.ppf(0.05)), abs=2e-3)
    assert allowed_by(no_claim(), plan) == (1.0, 1.0)


def rungs(model: float, release: float, *, p: float | None, claim_p: float | None = None) -> Any:
    blank: dict[str, Any] = dict.fromkeys(LadderRow.__dataclass_fields__)
    row = LadderRow(**blank)
    return (
        replace(row, rung="claim", auc=0.7),
        replace(
            row, rung="model", attacker_has="the votes", auc=model, p_holm=p, claim_p_holm=claim_p
        ),
        replace(row, rung="S3", auc=release),
        replace(row, rung="S1", auc=release - 0.01),
    )


@pytest.mark.parametrize(
    ("model", "release", "p", "leaks", "words"),
    [
        (0.61, 0.52, 0.01, True, "The release hides most of what the votes would tell: AUC 0.61"),
        (0.61, 0.58, 0.01, True, "The release shows most of what the votes would tell"),
        (0.61, 0.63, 0.01, True, "The release shows all that was found in the votes"),
        (0.61, 0.52, 0.01, False, "The release hides what the votes would tell: AUC 0.61 against"),
        (0.52, 0.51, 0.40, False, "None found in the votes at this power either"),
        (0.52, 0.60, 0.40, True, "None found in the votes at this power:"),
        (0.52, 0.60, None, True, "Nothing can be said of the votes."),
    ],
)
def test_a_sentence_compares_release_and_model(
    model: float, release: float, p: float | None, leaks: bool, words: str
) -> None:
    verdict = Verdict(FOUND if leaks else NONE_FOUND)
    result: Any = CellResult(
        *(None,) * 2,  # type: ignore[arg-type]
        judged=CellVerdict(p, verdict),
        claim=no_claim(),
        rows=(_Row("S3"), _Row("S1")),  # type: ignore[arg-type]
        degenerate={},
        cells=1,
        counted=False,
        ladder=rungs(model, release, p=p),
    )
    assert (model_line(result) or "").startswith(words)
    broken = replace(result, ladder=rungs(model, release, p=0.01, claim_p=0.001))
    said = "If the votes were published, the claim would be broken."
    assert (model_line(broken) or "").startswith(said)
    assert model_line(replace(result, ladder=())) is None


class _Row:
    def __init__(self, scenario: str) -> None:
        self.scenario = scenario
