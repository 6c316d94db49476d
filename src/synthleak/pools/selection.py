"""All pools of a spec, in the order in which it names them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from synthleak.core.errors import ContractError, PoolError
from synthleak.core.identity import digest
from synthleak.core.plugins import calling
from synthleak.core.seeds import stream
from synthleak.core.store import Store, keep
from synthleak.core.unit import counted, noun
from synthleak.corpus.corpus import Corpus, Record
from synthleak.encoders.encoder import Vectors
from synthleak.pools.persons import Persons, persons_of
from synthleak.pools.pool import Pool, Written
from synthleak.pools.rule import Ground, Material, Rule, Writer
from synthleak.pools.split import split

SHARED = "shared releases"
"""What names the split of pools that share their releases."""
SPLIT_VERSION = 3
"""Raised when the pools of a given split change: order of targets, groups that are left out."""

PERSONS_VERSION = 1
"""Raised when the pools of persons change."""


class EmptyPoolError(PoolError):
    """A rule selects fewer than two records."""


@dataclass(frozen=True)
class PoolOrder:
    """One section of the spec: a name, a rule, its key, and whether it may select nobody."""

    name: str
    rule: Rule
    where: str
    optional: bool = False

    def names(self) -> list[str]:
        """Return the names of the pools that this section makes."""
        if self.rule.count() == 1:
            return [self.name]
        return [f"{self.name}{draw}" for draw in range(self.rule.count())]


def select_all(
    orders: Sequence[PoolOrder],
    corpus: Corpus,
    vectors: Callable[[], Vectors],
    encoder: dict[str, Any],
    *,
    auxiliary: float,
    seed: int,
    store: Store,
    max_records: int | None = None,
    share: bool = False,
) -> dict[str, Pool]:
    """Select every pool, once per corpus, rule, encoder and seed.

    An optional pool with fewer than two targets is left out. With `max_records` targets are
    persons, with at most that many records each. Pools that `share` releases have one C and one R,
    which hold none of their targets.
    """
    persons = None if max_records is None else persons_of(corpus, max_records, seed)
    whose = [] if persons is None else ["persons", PERSONS_VERSION, max_records]
    if share:
        key = digest(
            "pool",
            SHARED,
            corpus.fingerprint,
            [[order.name, order.rule.identity(), order.optional] for order in orders],
            encoder if any(order.rule.uses_vectors for order in orders) else None,
            auxiliary,
            seed,
            *whose,
        )
        shared = keep(
            store,
            _kind(*orders),
            key,
            lambda: _select_sharing(
                orders, corpus, vectors, persons, auxiliary=auxiliary, seed=seed
            ),
            lambda made: b"\n".join(pool.to_bytes() for pool in made),
            lambda data: [Pool.from_bytes(line) for line in data.splitlines()],
        )
        return {pool.name: pool for pool in shared}
    chosen: dict[str, Sequence[int]] = {}
    pools: dict[str, Pool] = {}
    for order in orders:
        for name in order.names():
            key = digest(
                "pool",
                corpus.fingerprint,
                name,
                order.rule.identity(),
                encoder if order.rule.uses_vectors else None,
                {key: list(value) for key, value in chosen.items()},
                auxiliary,
                seed,
                *([SPLIT_VERSION] if corpus.split is not None else []),
                *whose,
            )
            ground = Ground(corpus, vectors, dict(chosen), stream(seed, "pool", name), persons)

            def make(name: str = name, order: PoolOrder = order, ground: Ground = ground) -> Pool:
                try:
                    targets = _select(order, name, ground)
                    pool = split(
                        corpus,
                        name,
                        targets,
                        auxiliary=auxiliary,
                        seed=seed,
                        origins=order.rule.origins(targets, ground),
                        persons=persons,
                    )
                    return _with_written(pool, order.rule, corpus, seed)
                except PoolError as error:
                    raise _at(order, error) from None

            try:
                kind = _kind(order)
                pools[name] = keep(store, kind, key, make, Pool.to_bytes, Pool.from_bytes)
            except EmptyPoolError:
                if not order.optional:
                    raise
                continue
            chosen[name] = pools[name].targets
    _check_some(pools, corpus)
    return pools


def _kind(*orders: PoolOrder) -> str:
    """Return the kind of artefact: pools that hold texts lie apart, so that a purge finds them."""
    return "written" if any(isinstance(order.rule, Writer) for order in orders) else "pool"


def _check_some(chosen: Mapping[str, Any], corpus: Corpus) -> None:
    """Refuse an audit without a pool: all are optional, and none selects anybody."""
    if not chosen:
        raise PoolError(
            f"no pool selects two of {len(corpus)} records", "pool", "loosen a rule, or add a pool"
        )


def _select_sharing(
    orders: Sequence[PoolOrder],
    corpus: Corpus,
    vectors: Callable[[], Vectors],
    persons: Persons | None,
    *,
    auxiliary: float,
    seed: int,
) -> list[Pool]:
    """Select all pools, then split what none of them holds, once for all."""
    named = [(order, name) for order in orders for name in order.names()]
    chosen: dict[str, tuple[int, ...]] = {}
    grounds: dict[str, Ground] = {}
    for order, name in named:
        rng = stream(seed, "pool", name)
        grounds[name] = Ground(corpus, vectors, dict(chosen), rng, persons)
        try:
            chosen[name] = tuple(_select(order, name, grounds[name]))
        except PoolError as error:
            if not (order.optional and isinstance(error, EmptyPoolError)):
                raise _at(order, error) from None
    _check_some(chosen, corpus)
    every = sorted({target for targets in chosen.values() for target in targets})
    whole = split(corpus, SHARED, every, auxiliary=auxiliary, seed=seed, persons=persons)
    pools = []
    for order, name in named:
        if name not in chosen:
            continue
        targets = chosen[name]
        own = None
        if persons is not None and whole.persons is not None:
            records = tuple(persons.records[persons.owner[target]] for target in targets)
            own = replace(whole.persons, targets=records)
        try:
            origins = order.rule.origins(targets, grounds[name]) or (name,) * len(targets)
            pool = replace(whole, name=name, targets=targets, origins=tuple(origins), persons=own)
            pools.append(_with_written(pool, order.rule, corpus, seed))
        except PoolError as error:
            raise _at(order, error) from None
    return pools


def _at(order: PoolOrder, error: PoolError) -> PoolError:
    """Return the error with the section of the spec that it is about."""
    return type(error)(error.what, error.where or order.where, error.remedy)


def _with_written(pool: Pool, rule: Rule, corpus: Corpus, seed: int) -> Pool:
    """Write the targets of a pool whose rule makes its own, once it is known what is R."""
    if not isinstance(rule, Writer):
        return pool
    inside = set(pool.auxiliary)
    material = Material(
        corpus,
        [corpus.records[place] for place in pool.auxiliary],
        [record for place, record in enumerate(corpus.records) if place not in inside],
        stream(seed, "written", pool.name),
    )
    width = len(str(rule.size))
    names = [f"{pool.name}-{number:0{width}d}" for number in range(1, rule.size + 1)]
    if taken := {record.id for record in corpus.records}.intersection(names):
        raise PoolError(
            f"the corpus has a record with the id {min(taken)!r}, as a record to be written",
            remedy="give the pool another name",
        )
    with calling("pool rule", rule.kind, rule):
        made = [
            Written(position, Record(name, text, labels), rule.repeats)
            for position, name, (text, labels) in zip(
                pool.targets, names, rule.write(material), strict=True
            )
        ]
    return replace(pool, written=tuple(made))


def written_in(pools: Iterable[Pool]) -> tuple[Record, ...]:
    """Return what was written for the pools, in the order of its positions."""
    items = [item for pool in pools for item in pool.written]
    return tuple(item.record for item in sorted(items, key=lambda item: item.position))


def _select(order: PoolOrder, name: str, ground: Ground) -> Sequence[int]:
    if isinstance(order.rule, Writer) and ground.corpus.split is not None:
        raise PoolError(
            f"the rule {order.rule.kind!r} writes records, and this release exists already",
            remedy="write them before training, with `synthleak canaries`",
        )
    if isinstance(order.rule, Writer) and ground.persons is not None:
        raise PoolError(
            f"the rule {order.rule.kind!r} writes records that are nobody's, and this audit asks"
            " about people",
            remedy='audit them apart, with unit = "record"',
        )
    with calling("pool rule", order.rule.kind, order.rule):
        targets = [operator.index(target) for target in order.rule.select(ground)]
        known = len(ground.corpus.all_records)
        # A writer's targets come behind all records: they are written for the places it selects.
        if not isinstance(order.rule, Writer) and (
            outside := [t for t in targets if not 0 <= t < known]
        ):
            raise ContractError(
                f"the rule {order.rule.kind!r} selects record {outside[0]}; there are records 0 to"
                f" {len(ground.corpus.all_records) - 1}"
            )
    if ground.persons is not None:  # a rule of its own may have named any record of a person
        targets = ground.persons.who_own(targets)
    if ground.corpus.split is not None:  # a reference is looked at, never asked about
        asked = set(ground.corpus.split.positions("members", "holdout"))
        targets = [target for target in targets if target in asked]
    if len(targets) < 2:
        raise EmptyPoolError(
            f"the pool {name!r} has {counted(len(targets), ground.unit)}"
            f" of {len(ground.everybody)}",
            remedy=f"loosen its rule ({order.rule.kind}): a pool needs at least 2"
            f" {noun(ground.unit)}; or set optional = true to leave it out",
        )
    return targets
