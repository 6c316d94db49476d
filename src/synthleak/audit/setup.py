"""The setup: all that an audit works with, drawn up from its spec and checked before it starts.

It is plain data, and what follows from it alone is a function here: plans, names, streams, and the
identity that makes two audits the same. It can be pickled: a worker gets the whole setup once, and
a list of units.
"""

from __future__ import annotations

import copyreg
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from synthleak.core.cell import Cell, counted_cells
from synthleak.core.errors import StoreError
from synthleak.core.registry import Plugin, PluginFile, use_files
from synthleak.core.seeds import digest, plain
from synthleak.core.spec import GameSection, GeneratorSection, PluginSection, Spec
from synthleak.core.store import Store
from synthleak.corpus.corpus import Corpus, Reader, Record
from synthleak.encoders.encoder import Encoder, Vectors, encode_once
from synthleak.evidence.attack import Attack
from synthleak.evidence.family import Family, Proxy
from synthleak.evidence.observation import Targets
from synthleak.evidence.table import person_proxies
from synthleak.plan.plan import Plan, RecordSet, designs
from synthleak.pools.pool import Persons, Pool, persons_of
from synthleak.pools.selection import PoolOrder
from synthleak.releases.claim import known_sigmas, learn_sigmas
from synthleak.releases.generator import Generator
from synthleak.releases.release import Public

T = TypeVar("T")
StreamName = tuple[int | str, ...]
"""The name of a random stream; every stream of an audit has one of its own."""


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


@dataclass(frozen=True, eq=False)
class Setup:
    """Corpus, pools, plans and plug-ins of one audit, and the store it works in."""

    spec: Spec
    plugins: Plugins
    corpus: Corpus
    pools: dict[str, Pool]
    plans: dict[str, Plan]
    publics: dict[str, Public]
    store: Store
    cells: tuple[Cell, ...]
    """What is audited: pool by pool, generator by generator, in the order of the spec."""
    files: tuple[PluginFile, ...] = ()
    empty: tuple[PoolOrder, ...] = ()
    """Optional pools of the spec whose rules select nobody."""
    reached: Mapping[Cell, int] = field(default_factory=dict)
    """The instances at the look that a cell has come to; all of them where none are declared."""

    def __repr__(self) -> str:
        return f"<Setup of {self.corpus!r}, {counted_cells(self.cells)}>"


def _reduce(setup: Setup) -> tuple[Any, ...]:
    """Pickle so that the plug-ins of single files are loaded before what is made of them.

    Keys go along: what a generator reads from elsewhere is taken as it was when first asked.
    """
    keys = {kind: memory_of(setup, kind) for kind in (RELEASE_KEYS, RAW_KEYS)}
    return _empty_setup, (setup.files, known_sigmas(), keys), setup.__dict__


def _empty_setup(
    files: tuple[PluginFile, ...], sigmas: Mapping[Any, float], keys: dict[str, dict[Any, Any]]
) -> Setup:
    use_files(files)
    learn_sigmas(sigmas)
    setup = object.__new__(Setup)
    _memory[setup] = keys
    return setup


copyreg.pickle(Setup, _reduce)

RELEASE_KEYS, RAW_KEYS = "release keys", "raw keys"
_memory: WeakKeyDictionary[Setup, dict[str, dict[Any, Any]]] = WeakKeyDictionary()


def memory_of(setup: Setup, kind: str) -> dict[Any, Any]:
    """Return what this process remembers of a setup, for as long as that lives.

    No value may hold the setup itself, which could then never be freed.
    """
    return _memory.setdefault(setup, {}).setdefault(kind, {})


def last_of(setup: Setup, kind: str, key: Any, make: Callable[[], T]) -> T:
    """Return what is made for a key; the last of each kind stays in this process."""
    memory = memory_of(setup, kind)
    if key not in memory:
        memory.clear()  # first: there may not be room for both
        memory[key] = make()
    value: T = memory[key]
    return value


def section_of(setup: Setup, cell: Cell) -> GeneratorSection:
    return next(s for s, _ in setup.plugins.generators if s.name == cell.generator)


def generator_of(setup: Setup, cell: Cell) -> Generator:
    return next(g for section, g in setup.plugins.generators if section.name == cell.generator)


def records_at(setup: Setup, positions: Sequence[int]) -> tuple[Record, ...]:
    with _known():
        return tuple(setup.corpus.all_records[position] for position in positions)


def record_keys(setup: Setup, positions: Sequence[int]) -> list[str]:
    memory = memory_of(setup, "record keys")
    if not memory:
        records = enumerate(setup.corpus.all_records)
        memory.update({place: digest(record.text, record.labels) for place, record in records})
    with _known():
        return [memory[position] for position in positions]


@contextmanager
def _known() -> Iterator[None]:
    try:
        yield
    except LookupError:
        raise StoreError(
            "a pool or a plan names a record that the corpus does not have",
            "store",
            "run the spec in another folder",
        ) from None


def target_names(setup: Setup, pool: str) -> tuple[str, ...]:
    """Return what tables call the targets of a pool: ids of records, or persons' names."""
    targets = setup.pools[pool].targets
    if setup.spec.game.persons:
        return tuple(setup.corpus.person_names[target] for target in targets)
    return tuple(record.id for record in records_at(setup, targets))


def persons_in(setup: Setup) -> Persons | None:
    game = setup.spec.game
    return persons_of(setup.corpus, game.max_records, setup.spec.seed) if game.persons else None


def record_proxies(setup: Setup) -> tuple[Proxy, ...]:
    """Return the proxies as they are computed, record by record."""
    return tuple(proxy for member in setup.plugins.families for proxy in member.proxies)


def proxies_of(setup: Setup) -> tuple[Proxy, ...]:
    """Return the proxies of all families, in the order of every table; those of persons twice."""
    proxies = record_proxies(setup)
    return person_proxies(proxies) if setup.spec.game.persons else proxies


def encoding(setup: Setup) -> Callable[[Sequence[str]], Vectors]:
    return partial(encode_once, setup.plugins.encoder, store=setup.store)


def targets_in(setup: Setup, pool: str) -> Targets:
    """Return the records of a pool's targets as proxies see them, made once per process."""
    memory = memory_of(setup, "targets")
    if pool not in memory:
        asked = records_at(setup, setup.pools[pool].asked)
        memory[pool] = Targets(
            [record.text for record in asked],
            encoding(setup),
            [record.text for record in records_at(setup, setup.pools[pool].auxiliary)],
            [record.labels for record in asked],
        )
    targets: Targets = memory[pool]
    return targets


def draws_sets(setup: Setup, pool: str) -> bool:
    """Say whether a plan draws private sets, so that its records are in some and not in others."""
    return not designs.get(setup.plans[pool].design).plugin.given


def smaller_cells(setup: Setup, cell: Cell) -> list[Cell]:
    """Return a cell as it is seen in smaller releases, the largest first (docs/method.md §4.7)."""
    return [replace(cell, size=size) for size in setup.spec.game.smaller_sizes]


def cells_of_all_sizes(setup: Setup) -> Iterator[Cell]:
    """Yield every cell, each followed by itself in smaller releases."""
    for cell in setup.cells:
        yield cell
        yield from smaller_cells(setup, cell)


def plan_of(setup: Setup, cell: Cell) -> Plan:
    """Return the plan of a cell's pool, as far as the cell's look (docs/method.md §4.6)."""
    plan = setup.plans[cell.pool]
    if cell.whole not in setup.reached:
        return plan
    reached_at = setup.reached[cell.whole]
    memory, key = memory_of(setup, "plans"), (cell.pool, reached_at)
    if key not in memory:
        memory[key] = plan.first(reached_at)
    reached: Plan = memory[key]
    return reached


def game_of(setup: Setup, cell: Cell) -> GameSection:
    """Return the game of a cell, as far as the cell's look."""
    game = setup.spec.game
    if cell.whole not in setup.reached:
        return game
    return game.model_copy(update={"instances": setup.reached[cell.whole]})


def sets_of(setup: Setup, cell: Cell) -> list[tuple[int, RecordSet]]:
    """Return the sets of a cell as far as its look, with their positions in the whole plan."""
    names = {item.name for item in plan_of(setup, cell).sets}
    sets = enumerate(setup.plans[cell.pool].sets)
    return [(position, item) for position, item in sets if item.name in names]


def raw_key(setup: Setup, record_set: RecordSet) -> str:
    keys = memory_of(setup, RAW_KEYS)
    if record_set.records not in keys:
        keys[record_set.records] = digest("raw", record_keys(setup, record_set.records))
    key: str = keys[record_set.records]
    return key


def plan_identity(setup: Setup, cell: Cell) -> list[Any]:
    plan = plan_of(setup, cell)
    return [designs.get(plan.design).version, plan.fingerprint]


def stream_name(setup: Setup, title: str, cell: Cell) -> StreamName:
    """Name the random streams of a cell.

    In a check names come from files, and records may come from memory: they do not count.
    """
    budget = repr(cell.epsilon)
    if setup.corpus.split is not None:
        return (setup.spec.seed, title, "given", cell.pool, budget)
    return (setup.spec.seed, title, cell.corpus, cell.pool, cell.generator, budget)


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
        **({"evidence": {"model": True}} if spec.evidence.model else {}),
    }


NAMED = {"pools": "pool", "generators": "generator", "families": "family", "priors": "prior attack"}
"""Parts of an identity that are looked up by name, and what one of them is called."""


def changes(old: Mapping[str, Any], setup: Setup) -> list[str]:
    """Say in a few words what differs between a folder's identity and a new audit's."""
    new: dict[str, Any] = plain(identity_of(setup))
    differences: list[str] = []
    for key, now in {**{key: {} for key in old}, **new}.items():
        was = old.get(key, {})
        if was == now:
            continue
        if isinstance(now, dict) and not isinstance(was, dict):
            differences.append(f"{key} is of another kind")
            continue
        if one := NAMED.get(key):
            differences += [f"{one} {name} is new" for name in now if name not in was]
            differences += [f"{one} {name} is gone" for name in was if name not in now]
            for name in now:
                if name in was and was[name] != now[name]:
                    differences += _differences(f"{name}.", was[name], now[name])
        elif key == "corpus" and was.get("name") == now["name"]:
            differences.append("the records of the corpus have changed")
        elif isinstance(now, dict):
            differences += _differences(f"{key}.", was, now)
        else:
            differences.append(f"{key} was {was}, is {now}")
    return differences


def _differences(prefix: str, was: Any, now: Any) -> list[str]:
    if not isinstance(was, dict) or not isinstance(now, dict):
        return [f"{prefix.rstrip('.')} was {was}, is {now}"]
    keys = [key for key in {**was, **now} if was.get(key) != now.get(key)]
    told = []
    for key in keys:
        before, after = was.get(key), now.get(key)
        if key == "argv" and before and after:
            files = [word[0] for word in after if word not in before and not isinstance(word, str)]
            before, after = map(_words, (before, after))
            told += [f"{file} was edited" for file in files if file in before]
        if before != after:
            told.append(f"{prefix}{key} was {before}, is {after}")
    return told


def _words(argv: Sequence[Any]) -> list[str]:
    """Return an argv as it is written: files by their names, without the hashes of contents."""
    return [word if isinstance(word, str) else word[0] for word in argv]


def resolved(setup: Setup) -> dict[str, Any]:
    """Return the spec with every default written out, so that the folder explains itself."""
    spec, plugins = setup.spec, setup.plugins
    rules = {order.name: order.rule for order in (*plugins.orders, *setup.empty)}
    also = [(m.name, m.plugin) for m in plugins.families if m.plugin is not None]
    return {
        "seed": spec.seed,
        "plugins": [file.path.resolve() for file in setup.files] or None,
        "corpus": _spelled(spec.corpus, plugins.reader, name=setup.corpus.name),
        "encoders": {
            "pools": {"kind": plugins.pool_encoder.kind, **settings_of(plugins.pool_encoder)},
            "evidence": {"kind": plugins.encoder.kind, **settings_of(plugins.encoder)},
        },
        "pool": [
            _spelled(section, rules[section.name], optional=section.optional or None)
            for section in spec.pool
        ],
        "game": spec.game.model_dump(),
        "generator": [
            {"name": section.name, **_spelled(section, generator)}
            for section, generator in plugins.generators
        ],
        "evidence": {
            "families": [member.name for member in plugins.families if member.plugin is None],
            "also": [{"kind": name, **settings_of(plugin)} for name, plugin in also] or None,
            "model": spec.evidence.model or None,
        },
        "prior": [{"kind": attack.kind, **attack.model_dump()} for attack in plugins.attacks],
        "analyses": {**spec.analyses.model_dump(), "also": list(spec.analyses.also)},
    }


def _spelled(section: PluginSection, plugin: Plugin, **changed: Any) -> dict[str, Any]:
    """Return the keys of a section, and all settings of the plug-in that it names."""
    return section.model_dump(exclude={*section.settings}) | changed | settings_of(plugin)


def settings_of(plugin: Plugin) -> dict[str, Any]:
    """Return the settings of a plug-in: paths hold from any folder, plug-ins within by kind."""

    def spelled(key: str, value: Any) -> Any:
        within = getattr(plugin, key)
        if isinstance(within, Plugin):
            return {"kind": within.kind, **settings_of(within)}
        return absolute(value)

    def absolute(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [absolute(item) for item in value]
        return value.resolve() if isinstance(value, Path) else value

    return {key: spelled(key, value) for key, value in plugin.model_dump().items()}
