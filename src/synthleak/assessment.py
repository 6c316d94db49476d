"""The third kind of work: from the evidence of a cell to its figures, one unit per cell.

Figures, and the profiles that analyses read, are kept like releases and evidence, under a key of
all that they were made from, so that a finished audit is opened without computing anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from synthleak.analyses.cells import Cell
from synthleak.analyses.played import AttributeRow, Played, PoolFacts, Signal
from synthleak.analyses.record_attributes import (
    ATTRIBUTES_VERSION,
    dump_attributes,
    load_attributes,
    record_attributes,
)
from synthleak.analyses.utility import (
    MOST_TESTS,
    RELEASES,
    UTILITY_VERSION,
    Measures,
    UtilityRow,
    measure,
    utility_row,
)
from synthleak.calibration.scenarios import Scores, calibrate
from synthleak.encoders.encoder import encode_once
from synthleak.evidence.observation import Floats, Targets
from synthleak.evidence.table import Evidence, get_evidence
from synthleak.identity import digest
from synthleak.metrics.curve import CURVES_VERSION, Curves, trace
from synthleak.metrics.figures import FIGURES_VERSION, CellFigures, assess, redraws_for
from synthleak.metrics.meta import META_VERSION, MetaFigures, dump_meta, fuse, load_meta
from synthleak.metrics.profile import (
    PROFILE_VERSION,
    Profile,
    pack_ranks,
    profile,
    unpack_scores,
)
from synthleak.plan.plan import RecordSet, designs
from synthleak.releases.claim import Claim
from synthleak.seeds import stream
from synthleak.store import fetch, keep, name_of
from synthleak.work import (
    all_evidence_keys,
    evidence_keys,
    header_of,
    observations,
    open_release,
    wanted_sets,
)
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
        redraws_for(len(bench.cells)),
        claim_of(bench, cell).to_json(),
        [all_evidence_keys(bench, cell.pool, text) for text, _ in observations(bench, cell)],
    )


def missing_figures(bench: Workbench) -> list[Cell]:
    """Return the cells whose figures are not in the store."""
    return [cell for cell in bench.cells if _lacks(bench, "figures", figures_key(bench, cell))]


def _lacks(bench: Workbench, kind: str, key: str) -> bool:
    return not bench.store.exists(name_of(kind, key))


def assess_cell(bench: Workbench, cell: Cell) -> int:
    """Make the figures of one cell."""
    figures_of(bench, cell)
    return 1


def figures_of(bench: Workbench, cell: Cell) -> CellFigures:
    """Return the figures of a cell, made now only if they were never made."""
    plan = bench.plans[cell.pool]
    return keep(
        bench.store,
        "figures",
        figures_key(bench, cell),
        lambda: assess(
            scores_of(bench, cell),
            designs.get(plan.design).plugin,
            plan,
            bench.spec.game,
            claim_of(bench, cell),
            _name(bench, cell),
            redraws=redraws_for(len(bench.cells)),
        ),
        CellFigures.to_bytes,
        CellFigures.from_bytes,
    )


def curves_key(bench: Workbench, cell: Cell) -> str:
    """Return the key of a cell's curves."""
    return digest("curves", CURVES_VERSION, figures_key(bench, cell))


def curves_of(bench: Workbench, cell: Cell) -> Curves:
    """Return the curves that figures of a cell draw, made now only if they were never made."""
    plan = bench.plans[cell.pool]
    return keep(
        bench.store,
        "figures",
        curves_key(bench, cell),
        lambda: trace(
            scores_of(bench, cell),
            designs.get(plan.design).plugin,
            plan,
            bench.spec.game,
            claim_of(bench, cell),
            _name(bench, cell),
        ),
        Curves.to_bytes,
        Curves.from_bytes,
    )


def missing_curves(bench: Workbench) -> list[Cell]:
    """Return the cells whose curves are not in the store."""
    return [cell for cell in bench.cells if _lacks(bench, "figures", curves_key(bench, cell))]


def trace_cell(bench: Workbench, cell: Cell) -> int:
    """Make the curves of one cell."""
    curves_of(bench, cell)
    return 1


def _name(bench: Workbench, cell: Cell) -> tuple[int | str, ...]:
    return (
        bench.spec.seed,
        "figures",
        cell.corpus,
        cell.pool,
        cell.generator,
        repr(cell.epsilon),
    )


def profile_key(bench: Workbench, cell: Cell) -> str:
    """Return the key of a cell's profile: plan, evidence, names of streams."""
    plan = bench.plans[cell.pool]
    return digest(
        "profile",
        PROFILE_VERSION,
        [designs.get(plan.design).version, plan.fingerprint],
        bench.spec.game.model_dump(),
        _shared_name(bench, cell),
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
            _shared_name(bench, cell),
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
                stream(*_shared_name(bench, cell), "meta", baseline.scenario),
            )
            for place, baseline in enumerate(plan.baselines)
        )

    return keep(bench.store, "meta", fusion_key(bench, cell), make, dump_meta, load_meta)


def missing_fusions(bench: Workbench, cells: Sequence[Cell] | None = None) -> list[Cell]:
    """Return the cells on which the meta-classifier was never tried."""
    return [
        cell
        for cell in (bench.cells if cells is None else cells)
        if draws_sets(bench, cell.pool) and _lacks(bench, "meta", fusion_key(bench, cell))
    ]


def asked_fusions(bench: Workbench) -> list[Cell]:
    """Return the cells on which the spec asks for the meta-classifier, and it was never tried."""
    return missing_fusions(bench) if "meta" in bench.spec.analyses.also else []


def fuse_cell(bench: Workbench, cell: Cell) -> int:
    """Try the meta-classifier on one cell."""
    fusion_of(bench, cell)
    return 1


def _attributes_key(bench: Workbench, pool: str) -> str:
    return digest(
        "attributes",
        ATTRIBUTES_VERSION,
        bench.corpus.name,
        bench.corpus.fingerprint,
        bench.pools[pool].to_bytes().decode(),
        bench.plugins.pool_encoder.identity(),
    )


def _shared_name(bench: Workbench, cell: Cell) -> tuple[int | str, ...]:
    """Name streams that all cells of a plan share: their differences are paired."""
    return (bench.spec.seed, "profile", cell.corpus, cell.pool)


def played_of(bench: Workbench, cell: Cell) -> Played:
    """Return a cell as it was played: what analyses look at beside the tables."""
    plan = bench.plans[cell.pool]
    proxies = [proxy for member in bench.plugins.families for proxy in member.proxies]
    return Played(
        cell=cell,
        pool=_pool_facts(bench, cell),
        seed=bench.spec.seed,
        generator_kind=bench.generator_of(cell)[1].kind,
        plan=plan,
        game=bench.spec.game,
        signals=tuple(
            Signal(baseline.scenario, proxy.name, proxy.view)
            for baseline in plan.baselines
            for proxy in proxies
        ),
        figures=figures_of(bench, cell),
        profile=profile_of(bench, cell),
        load_scores=partial(normal_scores_of, bench, cell),
        meta=None if cell in missing_fusions(bench, [cell]) else fusion_of(bench, cell),
    )


def _pool_facts(bench: Workbench, cell: Cell) -> PoolFacts:
    order = next(order for order in bench.plugins.orders if cell.pool in order.names())
    plan = bench.plans[cell.pool]
    return PoolFacts(
        corpus=cell.corpus,
        name=cell.pool,
        rule=order.rule.kind,
        section=order.name,
        records=tuple(record.id for record in bench.records(plan.targets)),
        origins=plan.origins,
        match=getattr(order.rule, "match", None),
    )


def utility_row_of(bench: Workbench, cell: Cell) -> UtilityRow:
    """Return what the first releases of a cell are good for; each measure is made only once."""
    made, real = [], []
    for item in _measured_sets(bench, cell):
        made.append(_measures(bench, cell, item, real=False))
        real.append(_measures(bench, cell, item, real=True))
    return utility_row(cell, made, real)


def missing_utility(bench: Workbench) -> list[Cell]:
    """Return the cells some of whose measured releases have no measures in the store."""
    return [
        cell
        for cell in bench.cells
        if any(
            not bench.store.exists(name_of("utility", _utility_key(bench, cell, item, real)))
            for item in _measured_sets(bench, cell)
            for real in (False, True)
        )
    ]


def measure_cell(bench: Workbench, cell: Cell) -> int:
    """Make the measures of one cell."""
    utility_row_of(bench, cell)
    return 1


def _measured_sets(bench: Workbench, cell: Cell) -> list[RecordSet]:
    """Return the first sets of a plan: which these are depends on no coin."""
    if not draws_sets(bench, cell.pool):
        return []
    return [item for _, item in wanted_sets(bench, cell)][:RELEASES]


def _tests(bench: Workbench, cell: Cell, item: RecordSet) -> list[int]:
    """Return real records that are no targets and not in this set, at most so many."""
    inside = set(item.records)
    rest = [p for p in bench.pools[cell.pool].candidates if p not in inside]
    order = stream(bench.spec.seed, "utility", cell.pool).permutation(len(rest))
    return [rest[place] for place in order[:MOST_TESTS]]


def _utility_key(bench: Workbench, cell: Cell, item: RecordSet, real: bool) -> str:
    sample = bench.raw_key(item) if real else header_of(bench, cell, item).text
    tests = digest("tests", bench.corpus.fingerprint, _tests(bench, cell, item))
    encoder = bench.plugins.encoder.identity()
    return digest("utility", UTILITY_VERSION, sample, tests, encoder)


def _measures(bench: Workbench, cell: Cell, item: RecordSet, *, real: bool) -> Measures:
    def make() -> Measures:
        records = (
            bench.records(item.records)
            if real
            else open_release(bench, header_of(bench, cell, item).text)
        )
        tests = bench.records(_tests(bench, cell, item))
        return measure(
            [(record.text, record.labels) for record in records],
            [(record.text, record.labels) for record in tests],
            bench.encode,
        )

    key = _utility_key(bench, cell, item, real)
    return keep(bench.store, "utility", key, make, Measures.to_bytes, Measures.from_bytes)
