"""The workbench: everything an audit works with, made from the spec and checked before it starts.

It can be pickled: a worker gets the whole bench once, and a list of units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from synthleak.analyses.cells import Cell
from synthleak.audit.layout import Plugins, lay_out
from synthleak.core.identity import digest
from synthleak.core.plugins import PluginFile, use_files
from synthleak.core.seeds import derive
from synthleak.core.spec import GeneratorSection, LoadedSpec, Spec
from synthleak.core.store import Store
from synthleak.corpus.corpus import Corpus, Record
from synthleak.encoders.encoder import Vectors, encode_once
from synthleak.evidence.observation import Observation, Targets
from synthleak.plan.plan import Plan, RecordSet, play
from synthleak.pools.pool import Pool
from synthleak.releases.release import Generator, Public, Request, public_side


@dataclass(frozen=True)
class Setup:
    """Corpus, pools, plans and plug-ins of one audit, and the store it works in."""

    spec: Spec
    plugins: Plugins
    corpus: Corpus
    pools: dict[str, Pool]
    plans: dict[str, Plan]
    publics: dict[str, Public]
    store: Store
    files: tuple[PluginFile, ...] = ()
    only: tuple[Cell, ...] | None = None
    _targets: dict[str, Targets] = field(default_factory=dict, repr=False, init=False)
    _keys: dict[tuple[Cell, str], str] = field(default_factory=dict, repr=False, init=False)
    _seen: dict[str, Observation] = field(default_factory=dict, repr=False, init=False)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle so that the plug-ins of single files are loaded before what is made of them."""
        return _empty_setup, (self.files,), {**self.__dict__, "_seen": {}}

    @cached_property
    def cells(self) -> list[Cell]:
        """Every combination that is audited, in the order of the spec; or `only` these."""
        if self.only is not None:
            return list(self.only)
        return [
            Cell(self.corpus.name, pool, section.name, epsilon)
            for pool in self.pools
            for section, _ in self.plugins.generators
            for epsilon in section.epsilon
        ]

    @cached_property
    def _record_keys(self) -> list[str]:
        return [digest(record.text, record.labels) for record in self.corpus.records]

    def generator_of(self, cell: Cell) -> tuple[GeneratorSection, Generator]:
        """Return the generator of a cell with its section."""
        return next(pair for pair in self.plugins.generators if pair[0].name == cell.generator)

    def records(self, positions: Sequence[int]) -> tuple[Record, ...]:
        """Return the records at these positions."""
        return tuple(self.corpus.records[position] for position in positions)

    def release_key(self, cell: Cell, record_set: RecordSet) -> str:
        """Return the key of a release: from contents and settings, never from company or speed.

        It is made once: what a generator reads from elsewhere is taken as it was when first asked.
        """
        if (cell, record_set.name) not in self._keys:
            self._keys[cell, record_set.name] = self._release_key(cell, record_set)
        return self._keys[cell, record_set.name]

    def _release_key(self, cell: Cell, record_set: RecordSet) -> str:
        section, generator = self.generator_of(cell)
        plan = self.plans[cell.pool]
        elsewhere = generator.fingerprint(self.request(cell, record_set))
        return digest(
            "release",
            generator.identity(),
            [self._record_keys[position] for position in record_set.records],
            [plan.nominal, plan.release_size, cell.epsilon, self._delta(section, generator, plan)],
            [section.label_prior, self.publics[cell.pool].key],
            self._release_seed(cell, record_set),
            *([elsewhere] if elsewhere else []),
        )

    def request(self, cell: Cell, record_set: RecordSet) -> Request:
        """Return what the generator of a cell is given for one set."""
        section, generator = self.generator_of(cell)
        plan = self.plans[cell.pool]
        return Request(
            records=self.records(record_set.records),
            nominal=plan.nominal,
            size=plan.release_size,
            epsilon=cell.epsilon,
            delta=self._delta(section, generator, plan),
            public=self.publics[cell.pool],
            seed=self._release_seed(cell, record_set),
            label_prior=section.label_prior,
            store=self.store,
        )

    def _delta(self, section: GeneratorSection, generator: Generator, plan: Plan) -> float:
        chosen = section.delta
        return generator.default_delta(plan.nominal) if chosen == "auto" else float(chosen)

    def _release_seed(self, cell: Cell, record_set: RecordSet) -> int:
        section, generator = self.generator_of(cell)
        return release_seed(record_set, generator.seed_name(section.name), cell.epsilon)

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Encode texts for scoring."""
        return encode_once(self.plugins.encoder, texts, self.store)

    def targets(self, pool: str) -> Targets:
        """Return the targets of a pool as the proxies see them, made once per process."""
        if pool not in self._targets:
            self._targets[pool] = Targets(
                [record.text for record in self.records(self.pools[pool].targets)],
                self.encode,
                [record.text for record in self.records(self.pools[pool].auxiliary)],
            )
        return self._targets[pool]

    def observation(self, text: str, texts: Callable[[], Sequence[str]]) -> Observation:
        """Open an observation by its content hash; the last one stays open in this process."""
        if text not in self._seen:
            self._seen.clear()
            self._seen[text] = Observation(texts(), self.encode)
        return self._seen[text]

    def raw_texts(self, record_set: RecordSet) -> list[str]:
        """Return the texts of a set that is looked at as it is."""
        return [record.text for record in self.records(record_set.records)]

    def raw_key(self, record_set: RecordSet) -> str:
        """Return the content hash of a raw set."""
        return digest("raw", [self._record_keys[position] for position in record_set.records])


def release_seed(record_set: RecordSet, name: str, epsilon: float) -> int:
    """Give every release randomness of its own, by its set, its generator's settings and ε.

    Two sections that differ in δ, in label_prior or in the corpus's description alone share it.
    """
    return derive(record_set.seed, name, repr(epsilon))


def _empty_setup(files: tuple[PluginFile, ...]) -> Setup:
    use_files(files)
    return object.__new__(Setup)


def set_up(loaded: LoadedSpec, store: Store) -> Setup:
    """Make the workbench of a spec: read, select, draw. Whatever is wrong is found here."""
    spec = loaded.spec
    with loaded.pointing():
        layout = lay_out(loaded, store)
        corpus, pools = layout.corpus, layout.pools
        plans = {name: play(pool, spec.game, spec.seed, store) for name, pool in pools.items()}
    publics = {
        name: public_side(
            [corpus.records[p] for p in pool.auxiliary],
            corpus.combinations,
            description=corpus.description,
        )
        for name, pool in pools.items()
    }
    return Setup(spec, layout.plugins, corpus, pools, plans, publics, store, layout.files)


def identity_of(setup: Setup) -> dict[str, Any]:
    """Return what makes two audits the same: settings and data, never a path or a worker count."""
    spec, plugins = setup.spec, setup.plugins
    return {
        "seed": spec.seed,
        "corpus": {"name": setup.corpus.name, "content": setup.corpus.fingerprint},
        "encoders": {
            "pools": plugins.pool_encoder.identity(),
            "evidence": plugins.encoder.identity(),
        },
        "pools": {order.name: order.rule.identity() for order in plugins.orders},
        "game": spec.game.model_dump(),
        "generators": {
            section.name: {
                **generator.identity(),
                "epsilon": list(section.epsilon),
                "delta": section.delta,
                "label_prior": section.label_prior,
            }
            for section, generator in plugins.generators
        },
        "families": {member.name: member.version for member in plugins.families},
        "priors": {attack.kind: attack.identity() for attack in plugins.attacks},
    }
