"""Stages 1 to 3 of an audit: read the corpus, select the pools, draw the plans.

Whatever is wrong with a spec is found here, before anything is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from synthleak.analyses.analysis import analyses
from synthleak.audit.setup import Plugins, Setup
from synthleak.core.cell import Cell
from synthleak.core.errors import SpecError
from synthleak.core.registry import Plugin, PluginFile, PluginRegistry, read_files, use_files
from synthleak.core.spec import GeneratorSection, LoadedSpec, PluginSection
from synthleak.core.store import Store
from synthleak.corpus.corpus import Corpus, assemble, readers
from synthleak.encoders.encoder import Vectors, encode_once, encoders
from synthleak.evidence.attack import attacks
from synthleak.evidence.family import model_families
from synthleak.evidence.table import chosen_families
from synthleak.plan.plan import draw_all
from synthleak.pools.pool import Pool
from synthleak.pools.selection import PoolOrder, rules, select_all, written_in
from synthleak.releases.generator import Generator, StatedGenerator, generators
from synthleak.releases.release import Public, public_side

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True)
class Inputs:
    """What a spec names, read: plug-ins with their settings, and the corpus."""

    loaded: LoadedSpec
    files: tuple[PluginFile, ...]
    plugins: Plugins
    corpus: Corpus


def read(loaded: LoadedSpec) -> Inputs:
    """Read the corpus of a spec, and check every plug-in that it names."""
    spec = loaded.spec
    with loaded.pointing():
        files = read_files(spec.plugins, loaded.base, "plugins")
        use_files(files)
        plugins = build_plugins(loaded)
        corpus = assemble(
            plugins.reader, name=spec.corpus.name, description=spec.corpus.description
        )
    return Inputs(loaded, files, plugins, corpus)


def corpus_vectors(inputs: Inputs, store: Store) -> Vectors:
    texts = [record.text for record in inputs.corpus.records]
    return encode_once(inputs.plugins.pool_encoder, texts, store)


def select(
    inputs: Inputs, store: Store, vectors: Callable[[], Vectors] | None = None
) -> dict[str, Pool]:
    """Select the pools: the records that the audit asks about."""
    spec = inputs.loaded.spec
    with inputs.loaded.pointing():
        return select_all(
            inputs.plugins.orders,
            inputs.corpus,
            vectors or cache(lambda: corpus_vectors(inputs, store)),
            inputs.plugins.pool_encoder.identity(),
            auxiliary=spec.game.auxiliary,
            seed=spec.seed,
            store=store,
            max_records=spec.game.max_records if spec.game.persons else None,
            share=spec.game.share_releases,
        )


def draw(inputs: Inputs, pools: dict[str, Pool], store: Store) -> Setup:
    """Draw the plan of every pool: sets, trials and baselines. The setup is then whole."""
    spec, corpus = inputs.loaded.spec, inputs.corpus
    with inputs.loaded.pointing():
        plans = draw_all(pools, spec.game, spec.seed, store)
    publics: dict[str, Public] = {}
    for name, pool in pools.items():
        if publics and spec.game.share_releases:  # one R, and what is derived from it, for all
            publics[name] = next(iter(publics.values()))
            continue
        publics[name] = public_side(
            [corpus.records[p] for p in pool.auxiliary],
            corpus.combinations,
            description=corpus.description,
        )
    orders = inputs.plugins.orders
    return Setup(
        spec=spec,
        plugins=replace(inputs.plugins, orders=tuple(o for o in orders if o.names()[0] in pools)),
        corpus=replace(corpus, written=written_in(pools.values())),
        pools=pools,
        plans=plans,
        publics=publics,
        store=store,
        cells=tuple(
            Cell(corpus.name, pool, section.name, epsilon)
            for pool in pools
            for section in spec.generator
            for epsilon in section.epsilon
        ),
        files=inputs.files,
        empty=tuple(o for o in orders if o.names()[0] not in pools),
    )


def set_up(loaded: LoadedSpec, store: Store) -> Setup:
    inputs = read(loaded)
    return draw(inputs, select(inputs, store), store)


def without_models(setup: Setup) -> Setup:
    """Return a setup that fits and asks no model: an estimate would take as long as the audit."""
    families = tuple(member for member in setup.plugins.families if member.model is None)
    evidence = setup.spec.evidence.model_copy(update={"model": False})
    return replace(
        setup,
        spec=setup.spec.model_copy(update={"evidence": evidence}),
        plugins=replace(setup.plugins, families=families),
    )


def build_plugins(loaded: LoadedSpec) -> Plugins:
    """Check every plug-in section of the spec."""
    spec, base = loaded.spec, loaded.base
    for position, name in enumerate(spec.analyses.also):
        analyses.get(name, f"analyses.also[{position}]")

    def built(
        registry: PluginRegistry[P], section: PluginSection, *where: str | int, key: str = "kind"
    ) -> P:
        name = getattr(section, key)
        return registry.build(name, section.settings, key=key, where=where, base=base)

    orders = []
    for position, pool in enumerate(spec.pool):
        rule = built(rules, pool, "pool", position, key="rule")
        orders.append(PoolOrder(pool.name, rule, f"pool[{position}]", pool.optional))
    pairs = []
    for position, section in enumerate(spec.generator):
        generator = built(generators, section, "generator", position)
        _check_budgets(section, generator, position)
        pairs.append((section, generator))
    if spec.evidence.model and not any(generator.score_columns for _, generator in pairs):
        raise SpecError(
            "no generator here can say what its model knows of a record",
            "evidence.model",
            "remove it, or audit one that can, such as dpsgd",
        )
    also = [
        built(model_families, section, "evidence", "also", at).family()
        for at, section in enumerate(spec.evidence.also)
    ]
    wanted = dict.fromkeys(name for order in orders for name in order.rule.looked_for_by)
    named = {member.name for member in also}
    also += [model_families.get(name).plugin().family() for name in wanted if name not in named]
    return Plugins(
        reader=built(readers, spec.corpus, "corpus", key="reader"),
        pool_encoder=built(encoders, spec.encoders.pools, "encoders", "pools"),
        encoder=built(encoders, spec.encoders.evidence, "encoders", "evidence"),
        orders=tuple(orders),
        generators=tuple(pairs),
        families=(*chosen_families(spec.evidence.families), *also),
        attacks=tuple(
            built(attacks, section, "prior", position)
            for position, section in enumerate(spec.prior)
        ),
    )


def _check_budgets(section: GeneratorSection, generator: Generator, position: int) -> None:
    finite = [epsilon for epsilon in section.epsilon if math.isfinite(epsilon)]
    if finite and not generator.private_by_design:
        stated = isinstance(generator, StatedGenerator)
        raise SpecError(
            f"{finite[0]:g}: the generator {section.kind!r} has no privacy mechanism",
            f"generator[{position}].epsilon",
            'use "inf", or state with private = true that the program honours epsilon'
            if stated
            else 'use "inf"',
        )
