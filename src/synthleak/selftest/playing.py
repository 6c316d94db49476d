"""One audit of the self-test, from records of its own to its figures."""

from __future__ import annotations

from dataclasses import replace

from synthleak.analyses.vulnerability import s10_p
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import contents_of, lengths_of
from synthleak.audit.steps.observations import (
    look_at,
    look_with_models,
    missing_evidence,
    missing_models,
)
from synthleak.audit.steps.preconditions import preconditions_of
from synthleak.audit.steps.releases import claim_of, held_claim, make_releases, missing_releases
from synthleak.audit.steps.scores import scores_of
from synthleak.core.verdict import LEVEL
from synthleak.evidence.persons import person_name
from synthleak.metrics.measure import measure
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.null import holm
from synthleak.metrics.records.profile import profile
from synthleak.metrics.records.vulnerability import shape_of
from synthleak.metrics.rounds import round_measurements
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan.plan import designs
from synthleak.selftest.checks import Check
from synthleak.selftest.games import ByHash, PartialEcho
from synthleak.selftest.rows import COPIED, CROSSFIT_REDRAWS, REDRAWS, Outcome, Row


def audit(row: Row, seed: int) -> Outcome:
    """Go through all stages once, or once for each of the row's cells and seeds."""
    if row.seeds > 1 and isinstance(row.audit, Check):
        tried = [replace(row, audit=replace(row.audit, draws=draws)) for draws in range(row.seeds)]
        outcomes = [_audit(one, seed) for one in tried]
        p_values = [one.claim_p for one in outcomes]
    else:
        outcomes = [_audit(row, row.cells * seed + number) for number in range(row.cells)]
        p_values = holm([one.claim_p for one in outcomes])
    known = [p for p in p_values if p is not None]
    return replace(outcomes[0], claim_p=min(known, default=None))


def _audit(row: Row, seed: int) -> Outcome:
    """Go through all stages once, with records and chance of this seed."""
    setup = row.audit.setup(seed)
    if row.limit == "stopped" and (split := preconditions_of(setup)) is not None:
        return Outcome(blind_p=split.blind.p)
    (cell,), claim = setup.cells, claim_of if row.audit.as_stated else held_claim
    for instances in setup.spec.game.looks or (setup.spec.game.instances,):
        setup = setup.at({cell: instances})
        scored = play(setup, row.name)
        figures = measure(
            scored,
            claim(setup, cell),
            redraws=REDRAWS,
            crossfit_redraws=CROSSFIT_REDRAWS,
            spreads=False,
        )
        if figures.p is not None and figures.p <= LEVEL:
            break
    scores = scored.scores
    names = [proxy.name for proxy in scores[0].proxies]
    copied = person_name(COPIED) if setup.spec.game.persons else COPIED
    place = names.index(copied) if copied in names else None
    rounds = round_measurements(scores[0], scored.plan.trials)
    first = figures.rows[0].auc
    return Outcome(
        p=figures.p,
        crossfit_p=figures.crossfit.p if figures.crossfit else None,
        auc=None if place is None else figures.signals[place].auc,
        tpr=None if place is None else float(rounds.tpr[place]),
        width=(first.high or 0.0) - (first.low or 0.0),
        claim_p=figures.epsilon.p if figures.epsilon else None,
        even_p=_even_p(scored) if row.limit in ("even", "uneven") else None,
        **_named(setup, figures),
    )


def _even_p(scored: ScoredCell) -> float | None:
    """Return the p-value of S10 under an even leak."""
    shown, _ = profile(scored, redraws=REDRAWS, draws=2)
    return s10_p(shape_of(shown.v[shown.best]).s10, shown.even_leak)


def play(setup: Setup, name: str) -> ScoredCell:
    """Make the releases of the only cell, look at them, and join scores with labels."""
    for release in missing_releases(setup):
        make_releases(setup, release)
    for observation in missing_evidence(setup):
        look_at(setup, observation)
    for models in missing_models(setup):
        look_with_models(setup, models)
    (cell,) = setup.cells
    plan = setup.plan_of(cell)
    design, parts = designs.get(plan.design).plugin, (setup.spec.seed, "selftest", name)
    contents, words = contents_of(setup, cell.pool), lengths_of(setup, cell.pool)
    game = setup.game_of(cell)
    return ScoredCell(scores_of(setup, cell), design, plan, game, parts, contents, words)


def _named(setup: Setup, figures: CellMeasurements) -> dict[str, int]:
    """Count the records that are named at the rate asked for, and those that cannot leak."""
    _, generator = setup.plugins.generators[0]
    spared = generator.spared if isinstance(generator, PartialEcho | ByHash) else ()
    targets = setup.records(setup.pools["pool"].targets)
    named = [targets[row.target].id for row in figures.records if row.named]
    return {"named": len(named), "wrong": sum(name in spared for name in named)}
