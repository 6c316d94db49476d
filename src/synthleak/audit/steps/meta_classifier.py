"""The meta-classifier on a cell, where the spec or the user asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cells import Cell
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import unavailable
from synthleak.audit.steps.profiles import (
    draws_sets,
    normal_scores_of,
    profile_key,
    profile_of,
    shared_name,
)
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.core.store import keep
from synthleak.metrics.meta_classifier import (
    META_VERSION,
    MetaMeasurements,
    dump_meta,
    fuse,
    load_meta,
)
from synthleak.plan.plan import designs


def meta_key(setup: Setup, cell: Cell) -> str:
    """Return the key of the meta-classifier's figures on a cell."""
    return digest("meta", META_VERSION, profile_key(setup, cell))


def meta_of(setup: Setup, cell: Cell) -> tuple[MetaMeasurements, ...]:
    """Return the meta-classifier's figures, one per scenario, made now if they never were."""
    plan = setup.plans[cell.pool]

    def make() -> tuple[MetaMeasurements, ...]:
        profile_of(setup, cell)
        scores = normal_scores_of(setup, cell)
        each = scores.shape[2] // len(plan.baselines)
        return tuple(
            fuse(
                baseline.scenario,
                scores[:, :, place * each : (place + 1) * each],
                designs.get(plan.design).plugin,
                plan,
                stream(*shared_name(setup, cell), "meta", baseline.scenario),
            )
            for place, baseline in enumerate(plan.baselines)
        )

    return keep(setup.store, "meta", meta_key(setup, cell), make, dump_meta, load_meta)


def missing_meta(setup: Setup, cells: Sequence[Cell] | None = None) -> list[Cell]:
    """Return the cells on which the meta-classifier was never tried."""
    return [
        cell
        for cell in (setup.cells if cells is None else cells)
        if draws_sets(setup, cell.pool) and unavailable(setup, "meta", meta_key(setup, cell))
    ]


def asked_meta(setup: Setup) -> list[Cell]:
    """Return the cells on which the spec asks for the meta-classifier, and it was never tried."""
    return missing_meta(setup) if "meta" in setup.spec.analyses.also else []


def measure_meta(setup: Setup, cell: Cell) -> int:
    """Try the meta-classifier on one cell."""
    meta_of(setup, cell)
    return 1
