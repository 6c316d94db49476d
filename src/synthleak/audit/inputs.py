"""What a spec names: its plug-ins, with their settings checked, and its corpus."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from synthleak.analyses.analysis import analyses
from synthleak.core.errors import SpecError
from synthleak.core.plugins import PluginFile
from synthleak.core.spec import LoadedSpec
from synthleak.core.spec_sections import EncoderSection, GeneratorSection
from synthleak.core.store import Store
from synthleak.corpus.corpus import Corpus, Reader, readers
from synthleak.encoders.encoder import Encoder, Vectors, encode_once, encoders
from synthleak.evidence.attack import Attack, attacks
from synthleak.evidence.family import Family
from synthleak.evidence.model_family import model_families
from synthleak.evidence.table import chosen_families
from synthleak.pools.rule import rules
from synthleak.pools.selection import PoolOrder
from synthleak.releases.generator import Generator, generators


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
        orders.append(PoolOrder(pool.name, rule, f"pool[{position}]", pool.optional))
    made = []
    for position, section in enumerate(spec.generator):
        generator = generators.build(
            section.kind, section.settings, key="kind", where=("generator", position), base=base
        )
        _check_budgets(section, generator, position)
        made.append((section, generator))
    also = [
        model_families.build(
            section.kind, section.settings, key="kind", where=("evidence", "also", at), base=base
        ).family()
        for at, section in enumerate(spec.evidence.also)
    ]
    return Plugins(
        reader=readers.build(
            spec.corpus.reader, spec.corpus.settings, key="reader", where=("corpus",), base=base
        ),
        pool_encoder=encoder(spec.encoders.pools, "pools"),
        encoder=encoder(spec.encoders.evidence, "evidence"),
        orders=tuple(orders),
        generators=tuple(made),
        families=(*chosen_families(spec.evidence.families), *also),
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
class Inputs:
    """What a spec names, read: plug-ins with their settings, and the corpus."""

    loaded: LoadedSpec
    files: tuple[PluginFile, ...]
    plugins: Plugins
    corpus: Corpus
    _vectors: list[Vectors] = field(default_factory=list, repr=False, init=False)

    def vectors(self, store: Store) -> Vectors:
        """Encode the corpus for the rules of pools, once; vectors are kept in the store."""
        if not self._vectors:
            texts = [record.text for record in self.corpus.records]
            self._vectors.append(encode_once(self.plugins.pool_encoder, texts, store))
        return self._vectors[0]
