"""One audit of the self-test, from a corpus of its own to its figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from synthleak.metrics.cell_figures import CellFigures
from synthleak.metrics.figures import assess
from synthleak.metrics.rounds import round_figures
from synthleak.plan.plan import designs
from synthleak.seeds import stream
from synthleak.selftest.rows import (
    COPIED,
    CROSSFIT_REDRAWS,
    FAMILIES,
    INSTANCES,
    RATE,
    RECORDS,
    REDRAWS,
    TARGETS,
    Outcome,
    PartialEcho,
    Row,
)
from synthleak.spec import LoadedSpec, parse_spec
from synthleak.store import MemoryStore
from synthleak.work.figures import claim_of, scores_of
from synthleak.work.observations import look_at, missing_evidence
from synthleak.work.releases import make_releases, missing_releases
from synthleak.workbench import Workbench, set_up


def audit(row: Row, seed: int) -> Outcome:
    """Walk the corridor once, with a corpus, a pool and coins of this seed."""
    bench = _bench(row, seed)
    spared = _spared(bench) if row.kind == "named" else ()
    if spared:
        section, _ = bench.plugins.generators[0]
        chosen = ((section, PartialEcho(p=row.p, spared=spared)),)
        bench = replace(bench, plugins=replace(bench.plugins, generators=chosen))
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
    place = [proxy.name for proxy in scores[0].proxies].index(COPIED)
    rounds = round_figures(scores[0], plan.trials)
    first = figures.rows[0].auc
    return Outcome(
        p=figures.p,
        crossfit_p=figures.crossfit.p if figures.crossfit else None,
        auc=figures.signals[place].auc,
        tpr=float(rounds.tpr[place]),
        width=(first.high or 0.0) - (first.low or 0.0),
        epsilon_lower=figures.epsilon.lower if figures.epsilon else None,
        epsilon_claim=figures.epsilon_claim if _finite(figures.epsilon_claim) else None,
        **_named(bench, figures, spared),
    )


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _bench(row: Row, seed: int) -> Workbench:
    generator: dict[str, Any] = {"kind": "echo" if row.kind == "named" else row.generator}
    if generator["kind"] == "echo":
        generator["p"] = row.p
    if math.isfinite(row.epsilon):
        generator["epsilon"] = row.epsilon
    spec = {
        "seed": seed,
        "corpus": {"reader": "demo", "size": 400, "seed": seed},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "pool", "rule": "random", "size": TARGETS, "draws": 1}],
        "game": {
            "design": row.design,
            "instances": INSTANCES,
            "records": RECORDS[row.design],
            "rounds": 10,
            "candidates": 10,
            "adjacency": row.adjacency,
        },
        "generator": [generator],
        "evidence": {"families": list(FAMILIES)},
    }
    return set_up(LoadedSpec(parse_spec(spec)), MemoryStore())


def _spared(bench: Workbench) -> tuple[str, ...]:
    """Return half of the targets, drawn by the audit's seed."""
    ids = [record.id for record in bench.records(bench.pools["pool"].targets)]
    drawn = stream(bench.spec.seed, "spared").permutation(len(ids))[: len(ids) // 2]
    return tuple(ids[place] for place in sorted(drawn.tolist()))


def _named(bench: Workbench, figures: CellFigures, spared: Sequence[str]) -> dict[str, int]:
    targets = bench.records(bench.pools["pool"].targets)
    named = [targets[row.target].id for row in figures.records if row.q <= RATE]
    return {"named": len(named), "wrong": sum(name in spared for name in named)}
