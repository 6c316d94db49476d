"""What analyses read of a cell: V(x) of its records under every signal, and what they are like."""

from __future__ import annotations

from synthleak.analyses.cell_data import AttributeRow
from synthleak.analyses.cells import Cell
from synthleak.analyses.record_attributes import (
    ATTRIBUTES_VERSION,
    dump_attributes,
    load_attributes,
    record_attributes,
)
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import scores_of
from synthleak.audit.steps.observations import all_evidence_keys, observations
from synthleak.core.identity import digest
from synthleak.core.store import fetch, keep, name_of
from synthleak.encoders.encoder import encode_once
from synthleak.evidence.observation import Floats
from synthleak.metrics.records.profile import (
    PROFILE_VERSION,
    Profile,
    pack_ranks,
    profile,
    unpack_scores,
)
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan.plan import designs


def profile_key(setup: Setup, cell: Cell) -> str:
    """Return the key of a cell's profile: plan, evidence, names of streams."""
    plan = setup.plans[cell.pool]
    return digest(
        "profile",
        PROFILE_VERSION,
        [designs.get(plan.design).version, plan.fingerprint],
        setup.spec.game.model_dump(),
        shared_name(setup, cell),
        [all_evidence_keys(setup, cell.pool, text) for text, _ in observations(setup, cell)],
    )


def missing_profiles(setup: Setup) -> list[Cell]:
    """Return the cells whose profiles, or the attributes of whose records, are not in the store."""
    known = {
        pool: setup.store.exists(name_of("attributes", _attributes_key(setup, pool)))
        for pool in setup.pools
        if draws_sets(setup, pool)
    }
    return [
        cell
        for cell in setup.cells
        if cell.pool in known
        and not (
            known[cell.pool] and setup.store.exists(name_of("profile", profile_key(setup, cell)))
        )
    ]


def draws_sets(setup: Setup, pool: str) -> bool:
    """Say whether a plan draws private sets, so that its records are in some and not in others."""
    return not designs.get(setup.plans[pool].design).plugin.given


def profile_cell(setup: Setup, cell: Cell) -> int:
    """Make the profile of one cell, and the attributes of its records."""
    attributes_of(setup, cell.pool)
    profile_of(setup, cell)
    return 1


def profile_of(setup: Setup, cell: Cell) -> Profile:
    """Return the profile of a cell, made now only if it was never made; its ranks lie beside it."""
    plan, key = setup.plans[cell.pool], profile_key(setup, cell)

    def make() -> Profile:
        made, ranks = profile(
            ScoredCell(
                scores_of(setup, cell),
                designs.get(plan.design).plugin,
                plan,
                setup.spec.game,
                shared_name(setup, cell),
            )
        )
        setup.store.put(name_of("ranks", key), pack_ranks(ranks))
        return made

    return keep(setup.store, "profile", key, make, Profile.to_bytes, Profile.from_bytes)


def normal_scores_of(setup: Setup, cell: Cell) -> Floats:
    """Return the normal scores `[set, target, signal]` of a cell whose profile is in the store."""
    targets = len(setup.plans[cell.pool].targets)
    key = profile_key(setup, cell)
    return fetch(setup.store, "ranks", key, lambda data: unpack_scores(data, targets))


def attributes_of(setup: Setup, pool: str) -> list[AttributeRow]:
    """Return what the records of a pool are like, made once per pool and encoder."""

    def make() -> list[AttributeRow]:
        texts = [record.text for record in setup.corpus.records]
        return record_attributes(
            setup.corpus,
            setup.pools[pool],
            lambda: encode_once(setup.plugins.pool_encoder, texts, setup.store),
        )

    return keep(
        setup.store,
        "attributes",
        _attributes_key(setup, pool),
        make,
        dump_attributes,
        load_attributes,
    )


def _attributes_key(setup: Setup, pool: str) -> str:
    return digest(
        "attributes",
        ATTRIBUTES_VERSION,
        setup.corpus.name,
        setup.corpus.fingerprint,
        setup.pools[pool].to_bytes().decode(),
        setup.plugins.pool_encoder.identity(),
    )


def shared_name(setup: Setup, cell: Cell) -> tuple[int | str, ...]:
    """Name streams that all cells of a plan share: their differences are paired."""
    return (setup.spec.seed, "profile", cell.corpus, cell.pool)
