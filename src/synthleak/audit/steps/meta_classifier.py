"""The meta-classifier on a cell, where the spec or the user asks for it."""

from __future__ import annotations

from synthleak.audit.setup import Setup
from synthleak.audit.steps.profiles import (
    PROFILE,
    draws_sets,
    normal_scores_of,
    profile_key,
    shared_name,
)
from synthleak.core.artefact import Artefact
from synthleak.core.cell import Cell
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.metrics.meta_classifier import (
    META_VERSION,
    MetaMeasurements,
    dump_meta,
    fuse,
    load_meta,
)
from synthleak.plan.plan import designs


def _key(setup: Setup, cell: Cell) -> str:
    return digest("meta", META_VERSION, profile_key(setup, cell))


def _fuse(setup: Setup, cell: Cell) -> tuple[MetaMeasurements, ...]:
    plan = setup.plans[cell.pool]
    PROFILE.get(setup, cell)
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


META = Artefact("meta", _key, _fuse, dump_meta, load_meta)
"""The meta-classifier's measurements, one per scenario."""


def missing_meta(setup: Setup) -> list[Cell]:
    """Return the cells on which the meta-classifier was never tried."""
    return [
        cell
        for cell in setup.cells
        if draws_sets(setup, cell.pool) and not META.exists(setup, cell)
    ]


def asked_meta(setup: Setup) -> list[Cell]:
    """Return the cells on which the spec asks for the meta-classifier, and it was never tried."""
    return missing_meta(setup) if "meta" in setup.spec.analyses.also else []


def measure_meta(setup: Setup, cell: Cell) -> int:
    """Try the meta-classifier on one cell."""
    META.get(setup, cell)
    return 1
