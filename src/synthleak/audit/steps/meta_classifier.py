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
from synthleak.core.artefact import Artefact, Need, as_json
from synthleak.core.cell import Cell
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.metrics.meta_classifier import META_VERSION, MetaMeasurements, fuse
from synthleak.plan.plan import designs


def _key(setup: Setup, cell: Cell) -> str:
    return digest("meta", META_VERSION, profile_key(setup, cell))


def _fuse(setup: Setup, cell: Cell) -> tuple[MetaMeasurements, ...]:
    plan = setup.plan_of(cell)
    PROFILE.get(setup, cell)
    each = len(setup.proxies)
    scores = normal_scores_of(setup, cell, range(each * len(plan.baselines)))
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


META = Artefact("meta", _key, _fuse, *as_json(tuple[MetaMeasurements, ...]))
"""The meta-classifier's measurements, one per scenario."""


def meta_needs(setup: Setup, cell: Cell) -> list[Need]:
    """Return what the meta-classifier makes of a cell."""
    return [(META, (cell,))] if draws_sets(setup, cell.pool) else []


def meta_needs_if_asked(setup: Setup, cell: Cell) -> list[Need]:
    """Return the same if the spec asks for it, else nothing."""
    return meta_needs(setup, cell) if "meta" in setup.spec.analyses.also else []
