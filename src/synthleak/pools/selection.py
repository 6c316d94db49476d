"""All pools of a spec, in the order in which it names them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from synthleak.core.errors import PoolError
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.core.store import Store, keep
from synthleak.corpus.corpus import Corpus, Record
from synthleak.encoders.encoder import Vectors
from synthleak.pools.pool import Ground, Material, Pool, Rule, Writer, Written, split

SHARED = "shared releases"
"""What names the split of pools that share their releases."""
SPLIT_VERSION = 2
"""Raised when the pools of a given split change: order of targets, groups that are left out."""


@dataclass(frozen=True)
class PoolOrder:
    """One section of the spec: a name, a rule, and its key."""

    name: str
    rule: Rule
    where: str

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
    share: bool = False,
) -> dict[str, Pool]:
    """Select every pool, once per corpus, rule, encoder and seed.

    Pools that `share` releases have one C and one R, which hold none of their targets.
    """
    if share:
        return _select_sharing(
            orders, corpus, vectors, encoder, auxiliary=auxiliary, seed=seed, store=store
        )
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
            )
            ground = Ground(corpus, vectors, dict(chosen), stream(seed, "pool", name))

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
                    )
                    return _with_written(pool, order.rule, corpus, seed)
                except PoolError as error:
                    raise _at(order, error) from None

            pools[name] = keep(store, "pool", key, make, Pool.to_bytes, Pool.from_bytes)
            chosen[name] = pools[name].targets
    return pools


def _select_sharing(
    orders: Sequence[PoolOrder],
    corpus: Corpus,
    vectors: Callable[[], Vectors],
    encoder: dict[str, Any],
    *,
    auxiliary: float,
    seed: int,
    store: Store,
) -> dict[str, Pool]:
    """Select all pools, then split what none of them holds, once for all."""
    made: dict[str, Pool] = {}

    def make(wanted: str) -> Pool:
        if made:
            return made[wanted]
        chosen: dict[str, Sequence[int]] = {}
        grounds: dict[str, Ground] = {}
        for order, name in named:
            grounds[name] = Ground(corpus, vectors, dict(chosen), stream(seed, "pool", name))
            try:
                chosen[name] = tuple(_select(order, name, grounds[name]))
            except PoolError as error:
                raise _at(order, error) from None
        every = sorted({target for targets in chosen.values() for target in targets})
        whole = split(corpus, SHARED, every, auxiliary=auxiliary, seed=seed)
        for order, name in named:
            origins = order.rule.origins(chosen[name], grounds[name])
            pool = replace(
                whole,
                name=name,
                targets=tuple(chosen[name]),
                origins=(name,) * len(chosen[name]) if origins is None else tuple(origins),
            )
            try:
                made[name] = _with_written(pool, order.rule, corpus, seed)
            except PoolError as error:
                raise _at(order, error) from None
        return made[wanted]

    named = [(order, name) for order in orders for name in order.names()]
    uses = any(order.rule.uses_vectors for order in orders)
    rules = [[order.name, order.rule.identity()] for order in orders]
    keys = {
        name: digest(
            "pool",
            SHARED,
            corpus.fingerprint,
            name,
            rules,
            encoder if uses else None,
            auxiliary,
            seed,
        )
        for _, name in named
    }
    return {
        name: keep(store, "pool", key, partial(make, name), Pool.to_bytes, Pool.from_bytes)
        for name, key in keys.items()
    }


def _at(order: PoolOrder, error: PoolError) -> PoolError:
    """Return the error with the section of the spec that it is about."""
    return PoolError(error.what, error.where or order.where, error.remedy)


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
    targets = order.rule.select(ground)
    if ground.corpus.split is not None:  # a reference is looked at, never asked about
        asked = set(ground.corpus.split.positions("members", "holdout"))
        targets = [target for target in targets if target in asked]
    if len(targets) < 2:
        raise PoolError(
            f"the pool {name!r} has {len(targets)} record{'s' * (len(targets) != 1)}"
            f" of {len(ground.corpus)}",
            remedy=f"loosen its rule ({order.rule.kind}): a pool needs at least 2 records",
        )
    return targets
