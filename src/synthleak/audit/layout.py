"""What a spec names, read and selected: all that comes before the game."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from synthleak.analyses.analysis import analyses
from synthleak.core.errors import SpecError
from synthleak.core.plugins import PluginFile, read_files, use_files
from synthleak.core.spec import EncoderSection, GeneratorSection, LoadedSpec
from synthleak.core.store import Store
from synthleak.corpus.corpus import Corpus, Reader, assemble, readers
from synthleak.encoders.encoder import Encoder, Vectors, encode_once, encoders
from synthleak.evidence.attack import Attack, attacks
from synthleak.evidence.family import Family
from synthleak.evidence.table import chosen_families
from synthleak.pools.pool import Pool, rules
from synthleak.pools.selection import PoolOrder, select_all
from synthleak.releases.release import Generator, generators


@dataclass(frozen=True)
class Plugins:
    """The plug-ins that a spec names, with their settings checked."""

    reader: Reader
    pool_encoder: Encoder
    encoder: Encoder
    orders: tuple[PoolOrder, ...]
    generators: tuple[tuple[GeneratorSection, Generator], ...]
    families: tuple[Family, ...]
    attacks: tuple[Attack, ...] = ()


def build_plugins(loaded: LoadedSpec) -> Plugins:
    """Check every plug-in section of the spec."""
    spec, base = loaded.spec, loaded.base
    for position, name in enumerate(spec.analyses.also):
        analyses.get(name, f"analyses.also[{position}]")

    def encoder(section: EncoderSection, name: str) -> Encoder:
        return encoders.build(
            section.kind, section.settings, key="kind", where=("encoders", name), base=base
        )

    orders = []
    for position, pool in enumerate(spec.pool):
        rule = rules.build(
            pool.rule, pool.settings, key="rule", where=("pool", position), base=base
        )
        orders.append(PoolOrder(pool.name, rule, f"pool[{position}]"))
    made = []
    for position, section in enumerate(spec.generator):
        generator = generators.build(
            section.kind, section.settings, key="kind", where=("generator", position), base=base
        )
        _check_budgets(section, generator, position)
        made.append((section, generator))
    return Plugins(
        reader=readers.build(
            spec.corpus.reader, spec.corpus.settings, key="reader", where=("corpus",), base=base
        ),
        pool_encoder=encoder(spec.encoders.pools, "pools"),
        encoder=encoder(spec.encoders.evidence, "evidence"),
        orders=tuple(orders),
        generators=tuple(made),
        families=tuple(chosen_families(spec.evidence.families)),
        attacks=tuple(
            attacks.build(
                section.kind, section.settings, key="kind", where=("prior", position), base=base
            )
            for position, section in enumerate(spec.prior)
        ),
    )


def _check_budgets(section: GeneratorSection, generator: Generator, position: int) -> None:
    finite = [epsilon for epsilon in section.epsilon if math.isfinite(epsilon)]
    if finite and not generator.private_by_design:
        raise SpecError(
            f"{finite[0]:g}: the generator {section.kind!r} has no privacy mechanism",
            f"generator[{position}].epsilon",
            'use "inf"',
        )


@dataclass(frozen=True)
class Layout:
    """What a spec names, read and selected: all that comes before the game."""

    files: tuple[PluginFile, ...]
    plugins: Plugins
    corpus: Corpus
    pools: dict[str, Pool]
    vectors: Callable[[], Vectors]


def lay_out(loaded: LoadedSpec, store: Store) -> Layout:
    """Read the corpus of a spec and select its pools; the caller points at mistakes."""
    spec = loaded.spec
    files = read_files(spec.plugins, loaded.base, "plugins")
    use_files(files)
    plugins = build_plugins(loaded)
    corpus = assemble(plugins.reader, name=spec.corpus.name, description=spec.corpus.description)

    @cache
    def vectors() -> Vectors:
        return encode_once(plugins.pool_encoder, [r.text for r in corpus.records], store)

    pools = select_all(
        plugins.orders,
        corpus,
        vectors,
        plugins.pool_encoder.identity(),
        auxiliary=spec.game.auxiliary,
        seed=spec.seed,
        store=store,
    )
    return Layout(files, plugins, corpus, pools, vectors)
