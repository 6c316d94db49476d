"""One audit of the self-test, from records of its own to its figures."""

from __future__ import annotations

import math

from synthleak.metrics.cell_figures import CellFigures
from synthleak.metrics.figures import assess
from synthleak.metrics.rounds import round_figures
from synthleak.plan.plan import designs
from synthleak.selftest.games import ByHash, PartialEcho
from synthleak.selftest.rows import COPIED, CROSSFIT_REDRAWS, RATE, REDRAWS, Outcome, Row
from synthleak.work.figures import claim_of, scores_of
from synthleak.work.observations import look_at, missing_evidence
from synthleak.work.releases import make_releases, missing_releases
from synthleak.workbench import Workbench


def audit(row: Row, seed: int) -> Outcome:
    """Go through all stages once, with records and chance of this seed."""
    bench = row.audit.bench(seed)
    for release in missing_releases(bench):
        make_releases(bench, release)
    for observation in missing_evidence(bench):
        look_at(bench, observation)
    (cell,) = bench.cells
    scores, plan = scores_of(bench, cell), bench.plans[cell.pool]
    figures = assess(
        scores,
        designs.get(plan.design).plugin,
        plan,
        bench.spec.game,
        claim_of(bench, cell),
        (seed, "selftest", row.name),
        redraws=REDRAWS,
        crossfit_redraws=CROSSFIT_REDRAWS,
        spreads=False,
    )
    names = [proxy.name for proxy in scores[0].proxies]
    place = names.index(COPIED) if COPIED in names else None
    rounds = round_figures(scores[0], plan.trials)
    first = figures.rows[0].auc
    return Outcome(
        p=figures.p,
        crossfit_p=figures.crossfit.p if figures.crossfit else None,
        auc=None if place is None else figures.signals[place].auc,
        tpr=None if place is None else float(rounds.tpr[place]),
        width=(first.high or 0.0) - (first.low or 0.0),
        epsilon_lower=figures.epsilon.lower if figures.epsilon else None,
        epsilon_claim=figures.epsilon_claim if _finite(figures.epsilon_claim) else None,
        **_named(bench, figures),
    )


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _named(bench: Workbench, figures: CellFigures) -> dict[str, int]:
    """Count the records that are named at the rate asked for, and those that cannot leak."""
    _, generator = bench.plugins.generators[0]
    spared = generator.spared if isinstance(generator, PartialEcho | ByHash) else ()
    targets = bench.records(bench.pools["pool"].targets)
    named = [targets[row.target].id for row in figures.records if row.q <= RATE]
    return {"named": len(named), "wrong": sum(name in spared for name in named)}
