"""What analyses read of a cell: V(x) of its records under every signal, and what they are like."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from synthleak.analyses.cell_data import AttributeRow
from synthleak.analyses.record_attributes import ATTRIBUTES_VERSION, record_attributes
from synthleak.audit.setup import Setup, StreamName
from synthleak.audit.steps.observations import all_evidence_keys, observations
from synthleak.audit.steps.scores import scores_of
from synthleak.core.artefact import Artefact, as_json
from synthleak.core.cell import Cell
from synthleak.core.errors import Damaged
from synthleak.core.identity import digest
from synthleak.core.store import Store, discard, fetch, name_of
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


def draws_sets(setup: Setup, pool: str) -> bool:
    """Say whether a plan draws private sets, so that its records are in some and not in others."""
    return not designs.get(setup.plans[pool].design).plugin.given


def shared_name(setup: Setup, cell: Cell) -> StreamName:
    """Name streams that all cells of a plan share: their differences are paired."""
    return (setup.spec.seed, "profile", cell.corpus, cell.pool)


def profile_key(setup: Setup, cell: Cell) -> str:
    """Return the key of a cell's profile: plan, evidence, names of streams."""
    return digest(
        "profile",
        PROFILE_VERSION,
        setup.plan_identity(cell),
        setup.game_of(cell).model_dump(),
        shared_name(setup, cell),
        [all_evidence_keys(setup, cell.pool, text) for text, _ in observations(setup, cell)],
    )


def _profile(setup: Setup, cell: Cell) -> Profile:
    """Make the profile of a cell; its ranks lie beside it."""
    made, ranks = _profile_and_ranks(setup, cell)
    setup.store.put(name_of("ranks", profile_key(setup, cell)), ranks)
    return made


def _profile_and_ranks(setup: Setup, cell: Cell) -> tuple[Profile, bytes]:
    plan = setup.plan_of(cell)
    made, ranks = profile(
        ScoredCell(
            scores_of(setup, cell),
            designs.get(plan.design).plugin,
            plan,
            setup.game_of(cell),
            shared_name(setup, cell),
        )
    )
    return made, pack_ranks(ranks)


def discard_profiles(store: Store, damaged: Iterable[str]) -> None:
    """Treat profiles whose ranks are damaged as missing: the two are made together."""
    for name in damaged:
        if name == name_of("ranks", Path(name).stem):
            store.discard(name_of("profile", Path(name).stem))


def normal_scores_of(setup: Setup, cell: Cell, places: Sequence[int]) -> Floats:
    """Return the normal scores `[set, target, place]` of a cell whose profile is in the store.

    `places` are those of the signals that are wanted. If their ranks are gone, or were left out of
    an archive, they are made again from the evidence.
    """
    targets = len(setup.plan_of(cell).targets)
    key = profile_key(setup, cell)
    try:
        return fetch(setup.store, "ranks", key, lambda data: unpack_scores(data, targets, places))
    except Damaged as error:
        _, ranks = _profile_and_ranks(setup, cell)  # needs the evidence, which may be gone too
        discard(setup.store, error.name)
        setup.store.put(error.name, ranks)
        return unpack_scores(ranks, targets, places)


def _attributes_key(setup: Setup, pool: str) -> str:
    return digest(
        "attributes",
        ATTRIBUTES_VERSION,
        setup.corpus.name,
        setup.corpus.fingerprint,
        setup.pools[pool].to_bytes().decode(),
        setup.plugins.pool_encoder.identity(),
    )


def _attributes(setup: Setup, pool: str) -> list[AttributeRow]:
    texts = [record.text for record in setup.corpus.all_records]
    return record_attributes(
        setup.corpus,
        setup.pools[pool],
        lambda: encode_once(setup.plugins.pool_encoder, texts, setup.store),
    )


PROFILE = Artefact("profile", profile_key, _profile, Profile.to_bytes, Profile.from_bytes)
ATTRIBUTES = Artefact("attributes", _attributes_key, _attributes, *as_json(list[AttributeRow]))
"""What the records of a pool are like, made once per pool and encoder."""
