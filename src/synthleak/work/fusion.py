"""The meta-classifier on a cell, where the spec or the user asks for it."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cells import Cell
from synthleak.identity import digest
from synthleak.metrics.meta import META_VERSION, MetaFigures, dump_meta, fuse, load_meta
from synthleak.plan.plan import designs
from synthleak.seeds import stream
from synthleak.store import keep
from synthleak.work.figures import lacks
from synthleak.work.profiles import (
    draws_sets,
    normal_scores_of,
    profile_key,
    profile_of,
    shared_name,
)
from synthleak.workbench import Workbench


def fusion_key(bench: Workbench, cell: Cell) -> str:
    """Return the key of the meta-classifier's figures on a cell."""
    return digest("meta", META_VERSION, profile_key(bench, cell))


def fusion_of(bench: Workbench, cell: Cell) -> tuple[MetaFigures, ...]:
    """Return the meta-classifier's figures, one per scenario, made now if they never were."""
    plan = bench.plans[cell.pool]

    def make() -> tuple[MetaFigures, ...]:
        profile_of(bench, cell)
        scores = normal_scores_of(bench, cell)
        each = scores.shape[2] // len(plan.baselines)
        return tuple(
            fuse(
                baseline.scenario,
                scores[:, :, place * each : (place + 1) * each],
                designs.get(plan.design).plugin,
                plan,
                stream(*shared_name(bench, cell), "meta", baseline.scenario),
            )
            for place, baseline in enumerate(plan.baselines)
        )

    return keep(bench.store, "meta", fusion_key(bench, cell), make, dump_meta, load_meta)


def missing_fusions(bench: Workbench, cells: Sequence[Cell] | None = None) -> list[Cell]:
    """Return the cells on which the meta-classifier was never tried."""
    return [
        cell
        for cell in (bench.cells if cells is None else cells)
        if draws_sets(bench, cell.pool) and lacks(bench, "meta", fusion_key(bench, cell))
    ]


def asked_fusions(bench: Workbench) -> list[Cell]:
    """Return the cells on which the spec asks for the meta-classifier, and it was never tried."""
    return missing_fusions(bench) if "meta" in bench.spec.analyses.also else []


def fuse_cell(bench: Workbench, cell: Cell) -> int:
    """Try the meta-classifier on one cell."""
    fusion_of(bench, cell)
    return 1
