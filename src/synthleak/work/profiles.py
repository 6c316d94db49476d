"""What analyses read of a cell: V(x) of its records under every signal, and what they are like."""

from __future__ import annotations

from synthleak.analyses.cells import Cell
from synthleak.analyses.played import AttributeRow
from synthleak.analyses.record_attributes import (
    ATTRIBUTES_VERSION,
    dump_attributes,
    load_attributes,
    record_attributes,
)
from synthleak.encoders.encoder import encode_once
from synthleak.evidence.observation import Floats
from synthleak.identity import digest
from synthleak.metrics.profile import (
    PROFILE_VERSION,
    Profile,
    pack_ranks,
    profile,
    unpack_scores,
)
from synthleak.plan.plan import designs
from synthleak.store import fetch, keep, name_of
from synthleak.work.figures import scores_of
from synthleak.work.observations import all_evidence_keys, observations
from synthleak.workbench import Workbench


def profile_key(bench: Workbench, cell: Cell) -> str:
    """Return the key of a cell's profile: plan, evidence, names of streams."""
    plan = bench.plans[cell.pool]
    return digest(
        "profile",
        PROFILE_VERSION,
        [designs.get(plan.design).version, plan.fingerprint],
        bench.spec.game.model_dump(),
        shared_name(bench, cell),
        [all_evidence_keys(bench, cell.pool, text) for text, _ in observations(bench, cell)],
    )


def missing_profiles(bench: Workbench) -> list[Cell]:
    """Return the cells whose profiles, or the attributes of whose records, are not in the store."""
    known = {
        pool: bench.store.exists(name_of("attributes", _attributes_key(bench, pool)))
        for pool in bench.pools
        if draws_sets(bench, pool)
    }
    return [
        cell
        for cell in bench.cells
        if cell.pool in known
        and not (
            known[cell.pool] and bench.store.exists(name_of("profile", profile_key(bench, cell)))
        )
    ]


def draws_sets(bench: Workbench, pool: str) -> bool:
    """Say whether a plan draws private sets, so that its records are in some and not in others."""
    return not designs.get(bench.plans[pool].design).plugin.given


def profile_cell(bench: Workbench, cell: Cell) -> int:
    """Make the profile of one cell, and the attributes of its records."""
    attributes_of(bench, cell.pool)
    profile_of(bench, cell)
    return 1


def profile_of(bench: Workbench, cell: Cell) -> Profile:
    """Return the profile of a cell, made now only if it was never made; its ranks lie beside it."""
    plan, key = bench.plans[cell.pool], profile_key(bench, cell)

    def make() -> Profile:
        made, ranks = profile(
            scores_of(bench, cell),
            designs.get(plan.design).plugin,
            plan,
            bench.spec.game,
            shared_name(bench, cell),
        )
        bench.store.put(name_of("ranks", key), pack_ranks(ranks))
        return made

    return keep(bench.store, "profile", key, make, Profile.to_bytes, Profile.from_bytes)


def normal_scores_of(bench: Workbench, cell: Cell) -> Floats:
    """Return the normal scores `[set, target, signal]` of a cell whose profile is in the store."""
    targets = len(bench.plans[cell.pool].targets)
    key = profile_key(bench, cell)
    return fetch(bench.store, "ranks", key, lambda data: unpack_scores(data, targets))


def attributes_of(bench: Workbench, pool: str) -> list[AttributeRow]:
    """Return what the records of a pool are like, made once per pool and encoder."""

    def make() -> list[AttributeRow]:
        texts = [record.text for record in bench.corpus.records]
        return record_attributes(
            bench.corpus,
            bench.pools[pool],
            lambda: encode_once(bench.plugins.pool_encoder, texts, bench.store),
        )

    return keep(
        bench.store,
        "attributes",
        _attributes_key(bench, pool),
        make,
        dump_attributes,
        load_attributes,
    )


def _attributes_key(bench: Workbench, pool: str) -> str:
    return digest(
        "attributes",
        ATTRIBUTES_VERSION,
        bench.corpus.name,
        bench.corpus.fingerprint,
        bench.pools[pool].to_bytes().decode(),
        bench.plugins.pool_encoder.identity(),
    )


def shared_name(bench: Workbench, cell: Cell) -> tuple[int | str, ...]:
    """Name streams that all cells of a plan share: their differences are paired."""
    return (bench.spec.seed, "profile", cell.corpus, cell.pool)
