"""The setup: everything an audit works with, made from the spec and checked before it starts.

It can be pickled: a worker gets the whole setup once, and a list of units.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from synthleak.audit.inputs import Inputs, Plugins, build_plugins
from synthleak.core.cell import Cell, counted_cells
from synthleak.core.errors import StoreError
from synthleak.core.identity import digest
from synthleak.core.plugins import PluginFile, read_files, use_files
from synthleak.core.seeds import derive
from synthleak.core.spec import LoadedSpec, Spec
from synthleak.core.spec_sections import GameSection, GeneratorSection
from synthleak.core.store import Store
from synthleak.corpus.corpus import Corpus, Record, assemble
from synthleak.encoders.encoder import Vectors, encode_once
from synthleak.evidence.family import Proxy
from synthleak.evidence.observation import Targets
from synthleak.evidence.persons import person_proxies
from synthleak.plan.plan import Plan, RecordSet, designs, draw_all
from synthleak.pools.persons import Persons, persons_of
from synthleak.pools.pool import Pool
from synthleak.pools.selection import PoolOrder, select_all, written_in
from synthleak.releases.generator import Generator, owners_of
from synthleak.releases.noise import known_sigmas, learn_sigmas
from synthleak.releases.release import Public, Request, public_side

T = TypeVar("T")
StreamName = tuple[int | str, ...]
"""The name of a random stream; every stream of an audit has one of its own."""


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
    empty: tuple[PoolOrder, ...] = ()
    """Optional pools of the spec whose rules select nobody."""
    only: tuple[Cell, ...] | None = None
    reached: Mapping[Cell, int] = field(default_factory=dict)
    """The instances at the look that a cell has come to; all of them where none are declared."""
    _targets: dict[str, Targets] = field(default_factory=dict, repr=False, init=False)
    _keys: dict[tuple[Cell, str], str] = field(default_factory=dict, repr=False, init=False)
    _last: dict[str, tuple[Any, Any]] = field(default_factory=dict, repr=False, init=False)
    _plans: dict[tuple[str, int], Plan] = field(default_factory=dict, repr=False, init=False)

    def __repr__(self) -> str:
        return f"<Setup of {self.corpus!r}, {counted_cells(self.cells)}>"

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle so that the plug-ins of single files are loaded before what is made of them."""
        return _empty_setup, (self.files, known_sigmas()), {**self.__dict__, "_last": {}}

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

    @property
    def left_out(self) -> list[str]:
        """The names of the optional pools whose rules select nobody."""
        return [order.name for order in self.empty]

    @property
    def proxies(self) -> tuple[Proxy, ...]:
        """The proxies of all families, in the order of every table; those of persons twice."""
        return (
            person_proxies(self.record_proxies) if self.spec.game.persons else self.record_proxies
        )

    @cached_property
    def persons(self) -> Persons | None:
        """The persons of the corpus, where they are asked about."""
        game = self.spec.game
        if not game.persons:
            return None
        return persons_of(self.corpus, game.max_records, self.spec.seed)

    @property
    def record_proxies(self) -> tuple[Proxy, ...]:
        """The proxies as they are computed, record by record."""
        return tuple(proxy for member in self.plugins.families for proxy in member.proxies)

    @cached_property
    def _record_keys(self) -> list[str]:
        return [digest(record.text, record.labels) for record in self.corpus.all_records]

    def generator_of(self, cell: Cell) -> tuple[GeneratorSection, Generator]:
        """Return the generator of a cell with its section."""
        return next(pair for pair in self.plugins.generators if pair[0].name == cell.generator)

    def records(self, positions: Sequence[int]) -> tuple[Record, ...]:
        """Return the records at these positions."""
        try:
            return tuple(self.corpus.all_records[position] for position in positions)
        except IndexError:
            raise StoreError(
                "a pool or a plan names a record that the corpus does not have",
                "store",
                "run the spec in another folder",
            ) from None

    def target_names(self, pool: str) -> tuple[str, ...]:
        """Return what tables call the targets of a pool: ids of records, or persons' names."""
        targets = self.pools[pool].targets
        if self.spec.game.persons:
            return tuple(self.corpus.person_names[target] for target in targets)
        return tuple(record.id for record in self.records(targets))

    def release_key(self, cell: Cell, record_set: RecordSet) -> str:
        """Return the key of a release: of contents and settings, never of batch or worker.

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
            *self._whose(generator, record_set),
        )

    def _whose(self, generator: Generator, record_set: RecordSet) -> list[Any]:
        """Return whose record is whose, where a generator or a program may look at it."""
        if self.spec.game.persons or getattr(generator, "unit", "record") == "person":
            return ["persons", owners_of(self.records(record_set.records))]
        return []

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
            persons=self.spec.game.persons,
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
        """Return the records of a pool's targets as proxies see them, made once per process."""
        if pool not in self._targets:
            self._targets[pool] = Targets(
                [record.text for record in self.records(self.pools[pool].asked)],
                self.encode,
                [record.text for record in self.records(self.pools[pool].auxiliary)],
            )
        return self._targets[pool]

    def last(self, kind: str, key: Any, make: Callable[[], T]) -> T:
        """Return what is made for a key; the last of each kind stays in this process."""
        if kind not in self._last or self._last[kind][0] != key:
            self._last.pop(kind, None)
            self._last[kind] = (key, make())
        made: T = self._last[kind][1]
        return made

    def forget(self, kind: str) -> None:
        """Drop the last of a kind."""
        self._last.pop(kind, None)

    def at(self, reached: Mapping[Cell, int]) -> Setup:
        """Return the setup with cells at other looks."""
        other = replace(self, reached=reached)
        for cache in ("_targets", "_keys", "_plans"):
            getattr(other, cache).update(getattr(self, cache))
        return other

    def plan_of(self, cell: Cell) -> Plan:
        """Return the plan of a cell's pool, as far as the cell's look (docs/method.md §4.6)."""
        plan = self.plans[cell.pool]
        if cell not in self.reached:
            return plan
        key = (cell.pool, self.reached[cell])
        if key not in self._plans:
            self._plans[key] = plan.first(self.reached[cell])
        return self._plans[key]

    def game_of(self, cell: Cell) -> GameSection:
        """Return the game of a cell, as far as the cell's look."""
        game = self.spec.game
        if cell not in self.reached:
            return game
        return game.model_copy(update={"instances": self.reached[cell]})

    def sets_of(self, cell: Cell) -> list[tuple[int, RecordSet]]:
        """Return the sets of a cell as far as its look, with their positions in the whole plan."""
        kept = {item.name for item in self.plan_of(cell).sets}
        sets = enumerate(self.plans[cell.pool].sets)
        return [(position, item) for position, item in sets if item.name in kept]

    def plan_identity(self, cell: Cell) -> list[Any]:
        """Return what a key says of a cell's plan."""
        plan = self.plan_of(cell)
        return [designs.get(plan.design).version, plan.fingerprint]

    def stream_name(self, title: str, cell: Cell) -> StreamName:
        """Name the random streams of a cell.

        In a check names come from files, and records may come from memory: they do not count.
        """
        budget = repr(cell.epsilon)
        if self.corpus.split is not None:
            return (self.spec.seed, title, "given", cell.pool, budget)
        return (self.spec.seed, title, cell.corpus, cell.pool, cell.generator, budget)

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


def _empty_setup(files: tuple[PluginFile, ...], sigmas: Mapping[Any, float]) -> Setup:
    use_files(files)
    learn_sigmas(sigmas)
    return object.__new__(Setup)


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


def select(inputs: Inputs, store: Store) -> dict[str, Pool]:
    """Select the pools: the records that the audit asks about."""
    spec = inputs.loaded.spec
    with inputs.loaded.pointing():
        return select_all(
            inputs.plugins.orders,
            inputs.corpus,
            lambda: inputs.vectors(store),
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
    orders = tuple(o for o in inputs.plugins.orders if o.names()[0] in pools)
    empty = tuple(o for o in inputs.plugins.orders if o.names()[0] not in pools)
    plugins = replace(inputs.plugins, orders=orders)
    corpus = replace(corpus, written=written_in(pools.values()))
    return Setup(spec, plugins, corpus, pools, plans, publics, store, inputs.files, empty)


def without_models(setup: Setup) -> Setup:
    """Return a setup whose families fit no model: an estimate would take as long as the audit."""
    families = tuple(member for member in setup.plugins.families if member.model is None)
    return replace(setup, plugins=replace(setup.plugins, families=families))


def set_up(loaded: LoadedSpec, store: Store) -> Setup:
    """Go through the first three stages. Whatever is wrong with a spec is found here."""
    inputs = read(loaded)
    return draw(inputs, select(inputs, store), store)


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
        "families": {
            member.name: member.version if member.settings is None else dict(member.settings)
            for member in plugins.families
        },
        "priors": {attack.kind: attack.identity() for attack in plugins.attacks},
    }
