"""Measurements: the scores of a cell meet the labels of its plan (docs/method.md §8).

One unit is one cell, so that its scores are computed once: means over rounds, measurements,
curves, the profile of its records (V(x) under every signal), and the meta-classifier where it is
asked for. Each is kept under a key of all that it is made from, and a finished audit is opened
without computing anything.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

import numpy as np

from synthleak.analyses.analysis import AttributeRow, CellData, PoolFacts, Signal
from synthleak.analyses.attributes import ATTRIBUTES_VERSION, record_attributes
from synthleak.audit.setup import (
    Setup,
    StreamName,
    draws_sets,
    game_of,
    generator_of,
    plan_identity,
    plan_of,
    proxies_of,
    records_at,
    smaller_cells,
    stream_name,
    target_names,
)
from synthleak.audit.steps.observations import all_evidence_keys, observations, scores_of
from synthleak.audit.steps.releases import claim_of, held_claim
from synthleak.calibration import Scores
from synthleak.core.artefact import Artefact, Need, as_json
from synthleak.core.cell import Cell
from synthleak.core.errors import Damaged
from synthleak.core.seeds import digest, stream
from synthleak.core.store import discard, fetch
from synthleak.core.text import tokens
from synthleak.encoders.encoder import encode_once
from synthleak.evidence.observation import Floats
from synthleak.evidence.table import starts_of
from synthleak.metrics.curves import CURVES_VERSION, Curves, trace
from synthleak.metrics.epsilon import LONE_VERSION
from synthleak.metrics.exposure import NAMING_VERSION
from synthleak.metrics.measure import (
    MEASUREMENTS_VERSION,
    Further,
    further_redraws,
    measure,
    redraws_for,
)
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.membership import RoundMeasurements, assignment_of, round_measurements
from synthleak.metrics.meta_classifier import META_VERSION, MetaMeasurements, fuse
from synthleak.metrics.profile import PROFILE_VERSION, Profile, pack_ranks, profile, unpack_scores
from synthleak.metrics.scored_cell import ScoredCell, statistics_of
from synthleak.metrics.types import Ints
from synthleak.plan.plan import designs


def redraws_of(setup: Setup, pool: str) -> int:
    return redraws_for(_tests(setup), _statistics(setup, pool))


def further_of(setup: Setup, pool: str) -> Further | None:
    """Return what is drawn of a pool's cells where these redraws reach their floor."""
    asked = setup.spec.analyses.redraws
    count = None if asked == "auto" else asked
    return further_redraws(_tests(setup), _statistics(setup, pool), count)


def _tests(setup: Setup) -> int:
    """Return what the level is shared by: the cells, at every look."""
    return len(setup.cells) * setup.spec.game.number_of_looks


def _statistics(setup: Setup, pool: str) -> int:
    plan = setup.plans[pool]
    return len(statistics_of(designs.get(plan.design).plugin, plan))


def measurements_key(setup: Setup, cell: Cell) -> str:
    # Strings of a key stay as they are, whatever the code is called: stored runs depend on them.
    return digest(
        "figures",
        MEASUREMENTS_VERSION,
        plan_identity(setup, cell),
        game_of(setup, cell).model_dump(),
        stream_name(setup, "figures", cell),
        redraws_of(setup, cell.pool),
        claim_of(setup, cell).to_json(),
        [all_evidence_keys(setup, cell.pool, seen.key) for seen in observations(setup, cell)],
        *([] if (asked := setup.spec.analyses.redraws) == "auto" else [asked]),
        *([] if setup.corpus.split is None else [NAMING_VERSION]),
        *lone_version(setup, cell),
    )


def lone_version(setup: Setup, cell: Cell) -> list[str]:
    """Return what a key holds where a claim is tested in `lone`; nothing elsewhere."""
    tested = game_of(setup, cell).design == "lone" and claim_of(setup, cell).promises
    return [f"lone {LONE_VERSION}"] if tested else []


def _curves_key(setup: Setup, cell: Cell) -> str:
    return digest("curves", CURVES_VERSION, measurements_key(setup, cell))


def _rounds_key(setup: Setup, cell: Cell) -> str:
    return digest("rounds", measurements_key(setup, cell))


def scored_cell(setup: Setup, cell: Cell) -> ScoredCell:
    contents, lengths = contents_of(setup, cell.pool), lengths_of(setup, cell.pool)
    calibrated = scores_of(setup, cell)
    return labelled(setup, cell, calibrated, stream_name(setup, "figures", cell), contents, lengths)


def labelled(
    setup: Setup, cell: Cell, scores: list[Scores], name: StreamName, *about: Any
) -> ScoredCell:
    """Join scores with the plan of a cell, whose trials are the labels."""
    plan = plan_of(setup, cell)
    design = designs.get(plan.design).plugin
    return ScoredCell(scores, design, plan, game_of(setup, cell), name, *about)


def contents_of(setup: Setup, name: str) -> tuple[str, ...]:
    """Return a hash of the text of each target of a pool, with that of its id behind it."""
    pool = setup.pools[name]
    by_target = [records_at(setup, pool.records_of(target)) for target in range(len(pool.targets))]
    return tuple(
        digest("content", sorted(record.text for record in records))
        + digest("content", sorted(record.id for record in records))
        for records in by_target
    )


def lengths_of(setup: Setup, pool: str) -> Ints | None:
    """Return the number of words of each target of a check; None in a game, which needs none."""
    if setup.corpus.split is None:
        return None
    targets = setup.pools[pool]
    words = [len(tokens(record.text)) for record in records_at(setup, targets.asked)]
    return np.add.reduceat(words, starts_of(targets.sizes))


def _measure(setup: Setup, cell: Cell) -> CellMeasurements:
    return measure(
        scored_cell(setup, cell),
        held_claim(setup, cell),
        redraws=redraws_of(setup, cell.pool),
        further=further_of(setup, cell.pool),
    )


def _trace(setup: Setup, cell: Cell) -> Curves:
    return trace(scored_cell(setup, cell), held_claim(setup, cell))


def _rounds(setup: Setup, cell: Cell) -> list[RoundMeasurements]:
    plan = plan_of(setup, cell)
    observed = assignment_of(plan.trials, len(plan.targets))
    return [round_measurements(table.values, observed) for table in scores_of(setup, cell)]


def _dump_rounds(rounds: list[RoundMeasurements]) -> bytes:
    return json.dumps([asdict(one) for one in rounds], default=np.ndarray.tolist).encode()


def _load_rounds(data: bytes) -> list[RoundMeasurements]:
    def plain(one: dict[str, Any]) -> dict[str, Any]:
        return {k: np.array(v) if isinstance(v, list) else v for k, v in one.items()}

    return [RoundMeasurements(**plain(one)) for one in json.loads(data)]


CELL_MEASUREMENTS = Artefact("figures", measurements_key, _measure, *as_json(CellMeasurements))
CURVES = Artefact("figures", _curves_key, _trace, *as_json(Curves))
"""ROC and sorted V with their bands, for figures."""
ROUNDS = Artefact("figures", _rounds_key, _rounds, _dump_rounds, _load_rounds)
"""The paper's means over rounds, one per scenario, for the table of proxies."""


def measurement_needs(setup: Setup, cell: Cell) -> list[Need]:
    """Return what is made from the scores of a cell."""
    needs: list[Need] = [*needs_at_look(setup, cell), (CURVES, (cell,))]
    for part in smaller_cells(setup, cell):
        needs += needs_at_look(setup, part)
    if draws_sets(setup, cell.pool):
        needs += [(ATTRIBUTES, (cell.pool,)), (PROFILE, (cell,))]
        if setup.store.lost(RANKS.name(setup, cell)):
            needs.append((RANKS, (cell,)))
    return needs


def needs_at_look(setup: Setup, cell: Cell) -> list[Need]:
    """Return what decides at a look whether a cell goes on; rounds, while scores are in memory."""
    return [(CELL_MEASUREMENTS, (cell,)), (ROUNDS, (cell,))]


def shared_name(setup: Setup, cell: Cell) -> StreamName:
    """Name streams that all cells of a plan share: their differences are paired."""
    return (setup.spec.seed, "profile", cell.corpus, cell.pool)


def profile_key(setup: Setup, cell: Cell) -> str:
    return digest(
        "profile",
        PROFILE_VERSION,
        plan_identity(setup, cell),
        game_of(setup, cell).model_dump(),
        shared_name(setup, cell),
        [all_evidence_keys(setup, cell.pool, seen.key) for seen in observations(setup, cell)],
    )


def _profile(setup: Setup, cell: Cell) -> Profile:
    """Make the profile of a cell; its ranks lie beside it."""
    records, ranks = _profile_and_ranks(setup, cell)
    setup.store.put(RANKS.name(setup, cell), ranks)
    return records


def _ranks(setup: Setup, cell: Cell) -> bytes:
    return _profile_and_ranks(setup, cell)[1]


def _profile_and_ranks(setup: Setup, cell: Cell) -> tuple[Profile, bytes]:
    shared = shared_name(setup, cell)
    records, ranks = profile(labelled(setup, cell, scores_of(setup, cell), shared))
    return records, pack_ranks(ranks)


def normal_scores_of(setup: Setup, cell: Cell, key: str, places: Sequence[int]) -> Floats:
    """Return the normal scores `[set, target, place]` of a cell whose profile is in the store.

    `key` is that of its profile, and `places` are those of the signals that are wanted. If their
    ranks are gone, or were left out of an archive, they are made again from the evidence.
    """
    targets = len(plan_of(setup, cell).targets)
    try:
        return fetch(setup.store, "ranks", key, lambda data: unpack_scores(data, targets, places))
    except Damaged as error:
        ranks = _ranks(setup, cell)  # needs the evidence, which may be gone too
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
RANKS = Artefact("ranks", profile_key, _ranks, bytes, bytes)
"""The ranks that a profile is made of, put beside it."""
ATTRIBUTES = Artefact("attributes", _attributes_key, _attributes, *as_json(list[AttributeRow]))
"""What the records of a pool are like, made once per pool and encoder."""


def _meta_key(setup: Setup, cell: Cell) -> str:
    return digest("meta", META_VERSION, profile_key(setup, cell))


def _fuse(setup: Setup, cell: Cell) -> tuple[MetaMeasurements, ...]:
    plan = plan_of(setup, cell)
    PROFILE.get(setup, cell)
    each = len(proxies_of(setup))
    scores = normal_scores_of(
        setup, cell, profile_key(setup, cell), range(each * len(plan.baselines))
    )
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


META_MEASUREMENTS = Artefact("meta", _meta_key, _fuse, *as_json(tuple[MetaMeasurements, ...]))
"""The meta-classifier's measurements, one per scenario."""


def meta_needs(setup: Setup, cell: Cell) -> list[Need]:
    return [(META_MEASUREMENTS, (cell,))] if draws_sets(setup, cell.pool) else []


def meta_needs_if_asked(setup: Setup, cell: Cell) -> list[Need]:
    return meta_needs(setup, cell) if "meta" in setup.spec.analyses.also else []


def cell_data_of(setup: Setup, cell: Cell) -> CellData:
    """Return a cell as it was played: what analyses look at beside the tables."""
    plan = plan_of(setup, cell)
    return CellData(
        cell=cell,
        pool=pool_facts(setup, cell.pool),
        seed=setup.spec.seed,
        generator_kind=generator_of(setup, cell).kind,
        plan=plan,
        game=game_of(setup, cell),
        signals=tuple(
            Signal(baseline.scenario, proxy.name, proxy.view)
            for baseline in plan.baselines
            for proxy in proxies_of(setup)
        ),
        measurements=CELL_MEASUREMENTS.get(setup, cell),
        profile=PROFILE.get(setup, cell),
        load_scores=partial(normal_scores_of, setup, cell, profile_key(setup, cell)),
        meta=META_MEASUREMENTS.get(setup, cell) if META_MEASUREMENTS.exists(setup, cell) else None,
    )


def pool_facts(setup: Setup, pool: str) -> PoolFacts:
    """Return who is in a pool, and the rule that made it."""
    order = next(order for order in setup.plugins.orders if pool in order.names())
    plan = setup.plans[pool]
    return PoolFacts(
        corpus=setup.corpus.name,
        name=pool,
        rule=order.rule.kind,
        records=target_names(setup, pool),
        origins=plan.origins,
        match=getattr(order.rule, "match", None),
        written=bool(setup.pools[pool].written),
    )
