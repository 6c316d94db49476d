"""The third kind of work: from the evidence of a cell to its figures, one unit per cell.

Figures are kept like releases and evidence, under a key of all that they were made from, so that a
finished audit is opened without computing anything.
"""

from __future__ import annotations

import numpy as np

from synthleak.analyses.cells import Cell
from synthleak.audit.setup import Setup
from synthleak.audit.steps.observations import all_evidence_keys, evidence_keys, observations
from synthleak.audit.steps.releases import header_of, wanted_sets
from synthleak.calibration import Scores, calibrate
from synthleak.core.identity import digest
from synthleak.core.store import keep, name_of
from synthleak.evidence.observation import Floats, Targets
from synthleak.evidence.table import Evidence, get_evidence
from synthleak.metrics.comparison import statistics_of
from synthleak.metrics.curves import CURVES_VERSION, Curves, trace
from synthleak.metrics.measure import MEASUREMENTS_VERSION, measure, redraws_for
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan.plan import designs
from synthleak.releases.claim import Claim


def evidence_of(setup: Setup, cell: Cell) -> Evidence:
    """Return what every proxy saw of every target on every set of a cell."""
    blocks = setup.targets(cell.pool).blocks()

    def seen(text: str, block: Targets) -> Floats:
        keys = [key for _, key in evidence_keys(setup, block, text)]
        return np.concatenate([get_evidence(setup.store, key) for key in keys], axis=1)

    values = [
        np.concatenate([seen(text, block) for block in blocks])
        for text, _ in observations(setup, cell)
    ]
    proxies = tuple(p for member in setup.plugins.families for p in member.proxies)
    return Evidence(np.stack(values), proxies)


def scores_of(setup: Setup, cell: Cell) -> list[Scores]:
    """Return the calibrated scores of a cell, one table per scenario."""
    return calibrate(evidence_of(setup, cell), setup.plans[cell.pool].baselines)


def claim_of(setup: Setup, cell: Cell) -> Claim:
    """Return what the releases of a cell promise."""
    _, first = wanted_sets(setup, cell)[0]
    return header_of(setup, cell, first).claim


def measurements_key(setup: Setup, cell: Cell) -> str:
    """Return the key of a cell's figures: plan, evidence, claim, names of streams, redraws."""
    plan = setup.plans[cell.pool]
    return digest(
        "figures",
        MEASUREMENTS_VERSION,
        [designs.get(plan.design).version, plan.fingerprint],
        setup.spec.game.model_dump(),
        _name(setup, cell),
        redraws_of(setup, cell.pool),
        claim_of(setup, cell).to_json(),
        [all_evidence_keys(setup, cell.pool, text) for text, _ in observations(setup, cell)],
    )


def redraws_of(setup: Setup, pool: str) -> int:
    """Return how many redraws the figures of a pool's cells need."""
    plan = setup.plans[pool]
    names = statistics_of(designs.get(plan.design).plugin, plan)
    return redraws_for(len(setup.cells), len(names))


def missing_measurements(setup: Setup) -> list[Cell]:
    """Return the cells whose figures are not in the store."""
    return [
        cell for cell in setup.cells if unavailable(setup, "figures", measurements_key(setup, cell))
    ]


def unavailable(setup: Setup, kind: str, key: str) -> bool:
    """Say whether something is not in the store."""
    return not setup.store.exists(name_of(kind, key))


def measure_cell(setup: Setup, cell: Cell) -> int:
    """Make the figures of one cell."""
    measurements_of(setup, cell)
    return 1


def measurements_of(setup: Setup, cell: Cell) -> CellMeasurements:
    """Return the figures of a cell, made now only if they were never made."""
    return keep(
        setup.store,
        "figures",
        measurements_key(setup, cell),
        lambda: measure(
            scored(setup, cell), claim_of(setup, cell), redraws=redraws_of(setup, cell.pool)
        ),
        CellMeasurements.to_bytes,
        CellMeasurements.from_bytes,
    )


def curves_key(setup: Setup, cell: Cell) -> str:
    """Return the key of a cell's curves."""
    return digest("curves", CURVES_VERSION, measurements_key(setup, cell))


def curves_of(setup: Setup, cell: Cell) -> Curves:
    """Return the curves that figures of a cell draw, made now only if they were never made."""
    return keep(
        setup.store,
        "figures",
        curves_key(setup, cell),
        lambda: trace(scored(setup, cell), claim_of(setup, cell)),
        Curves.to_bytes,
        Curves.from_bytes,
    )


def missing_curves(setup: Setup) -> list[Cell]:
    """Return the cells whose curves are not in the store."""
    return [cell for cell in setup.cells if unavailable(setup, "figures", curves_key(setup, cell))]


def trace_cell(setup: Setup, cell: Cell) -> int:
    """Make the curves of one cell."""
    curves_of(setup, cell)
    return 1


def scored(setup: Setup, cell: Cell) -> ScoredCell:
    """Return what the measurements of a cell are made from."""
    plan, name = setup.plans[cell.pool], _name(setup, cell)
    design = designs.get(plan.design).plugin
    return ScoredCell(scores_of(setup, cell), design, plan, setup.spec.game, name)


def _name(setup: Setup, cell: Cell) -> tuple[int | str, ...]:
    return (
        setup.spec.seed,
        "figures",
        cell.corpus,
        cell.pool,
        cell.generator,
        repr(cell.epsilon),
    )
