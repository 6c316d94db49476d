"""The third kind of work: from the evidence of a cell to its figures, one unit per cell.

Figures are kept like releases and evidence, under a key of all that they were made from, so that a
finished audit is opened without computing anything.
"""

from __future__ import annotations

import numpy as np

from synthleak.analyses.cells import Cell
from synthleak.calibration.scenarios import Scores, calibrate
from synthleak.evidence.observation import Floats, Targets
from synthleak.evidence.table import Evidence, get_evidence
from synthleak.identity import digest
from synthleak.metrics.cell_figures import CellFigures
from synthleak.metrics.compare import statistics_of
from synthleak.metrics.curve import CURVES_VERSION, Curves, trace
from synthleak.metrics.figures import FIGURES_VERSION, assess, redraws_for
from synthleak.plan.plan import Design, Plan, designs
from synthleak.releases.claim import Claim
from synthleak.spec import GameSection
from synthleak.store import keep, name_of
from synthleak.work.observations import all_evidence_keys, evidence_keys, observations
from synthleak.work.releases import header_of, wanted_sets
from synthleak.workbench import Workbench


def evidence_of(bench: Workbench, cell: Cell) -> Evidence:
    """Return what every proxy saw of every target on every set of a cell."""
    blocks = bench.targets(cell.pool).blocks()

    def seen(text: str, block: Targets) -> Floats:
        keys = [key for _, key in evidence_keys(bench, block, text)]
        return np.concatenate([get_evidence(bench.store, key) for key in keys], axis=1)

    values = [
        np.concatenate([seen(text, block) for block in blocks])
        for text, _ in observations(bench, cell)
    ]
    proxies = tuple(p for member in bench.plugins.families for p in member.proxies)
    return Evidence(np.stack(values), proxies)


def scores_of(bench: Workbench, cell: Cell) -> list[Scores]:
    """Return the calibrated scores of a cell, one table per scenario."""
    return calibrate(evidence_of(bench, cell), bench.plans[cell.pool].baselines)


def claim_of(bench: Workbench, cell: Cell) -> Claim:
    """Return what the releases of a cell promise."""
    _, first = wanted_sets(bench, cell)[0]
    return header_of(bench, cell, first).claim


def figures_key(bench: Workbench, cell: Cell) -> str:
    """Return the key of a cell's figures: plan, evidence, claim, names of streams, redraws."""
    plan = bench.plans[cell.pool]
    return digest(
        "figures",
        FIGURES_VERSION,
        [designs.get(plan.design).version, plan.fingerprint],
        bench.spec.game.model_dump(),
        _name(bench, cell),
        redraws_of(bench, cell.pool),
        claim_of(bench, cell).to_json(),
        [all_evidence_keys(bench, cell.pool, text) for text, _ in observations(bench, cell)],
    )


def redraws_of(bench: Workbench, pool: str) -> int:
    """Return how many redraws the figures of a pool's cells need."""
    plan = bench.plans[pool]
    names = statistics_of(designs.get(plan.design).plugin, plan)
    return redraws_for(len(bench.cells), len(names))


def missing_figures(bench: Workbench) -> list[Cell]:
    """Return the cells whose figures are not in the store."""
    return [cell for cell in bench.cells if lacks(bench, "figures", figures_key(bench, cell))]


def lacks(bench: Workbench, kind: str, key: str) -> bool:
    """Say whether something is not in the store."""
    return not bench.store.exists(name_of(kind, key))


def assess_cell(bench: Workbench, cell: Cell) -> int:
    """Make the figures of one cell."""
    figures_of(bench, cell)
    return 1


def figures_of(bench: Workbench, cell: Cell) -> CellFigures:
    """Return the figures of a cell, made now only if they were never made."""
    return keep(
        bench.store,
        "figures",
        figures_key(bench, cell),
        lambda: assess(*_game(bench, cell), redraws=redraws_of(bench, cell.pool)),
        CellFigures.to_bytes,
        CellFigures.from_bytes,
    )


def curves_key(bench: Workbench, cell: Cell) -> str:
    """Return the key of a cell's curves."""
    return digest("curves", CURVES_VERSION, figures_key(bench, cell))


def curves_of(bench: Workbench, cell: Cell) -> Curves:
    """Return the curves that figures of a cell draw, made now only if they were never made."""
    return keep(
        bench.store,
        "figures",
        curves_key(bench, cell),
        lambda: trace(*_game(bench, cell)),
        Curves.to_bytes,
        Curves.from_bytes,
    )


def missing_curves(bench: Workbench) -> list[Cell]:
    """Return the cells whose curves are not in the store."""
    return [cell for cell in bench.cells if lacks(bench, "figures", curves_key(bench, cell))]


def trace_cell(bench: Workbench, cell: Cell) -> int:
    """Make the curves of one cell."""
    curves_of(bench, cell)
    return 1


def _game(
    bench: Workbench, cell: Cell
) -> tuple[list[Scores], Design, Plan, GameSection, Claim, tuple[int | str, ...]]:
    """Return what a cell's figures are made from."""
    plan = bench.plans[cell.pool]
    return (
        scores_of(bench, cell),
        designs.get(plan.design).plugin,
        plan,
        bench.spec.game,
        claim_of(bench, cell),
        _name(bench, cell),
    )


def _name(bench: Workbench, cell: Cell) -> tuple[int | str, ...]:
    return (
        bench.spec.seed,
        "figures",
        cell.corpus,
        cell.pool,
        cell.generator,
        repr(cell.epsilon),
    )
