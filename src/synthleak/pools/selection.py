"""All pools of a spec, in the order in which it names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from synthleak.core.errors import PoolError
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.core.store import Store, keep
from synthleak.core.unit import counted, noun
from synthleak.corpus.corpus import Corpus
from synthleak.encoders.encoder import Vectors
from synthleak.pools.persons import persons_of
from synthleak.pools.pool import Ground, Pool, Rule, split

SPLIT_VERSION = 2
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
) -> dict[str, Pool]:
    """Select every pool, once per corpus, rule, encoder and seed.

    An optional pool with fewer than two targets is left out. With `max_records` targets are
    persons, with at most so many records each.
    """
    persons = None if max_records is None else persons_of(corpus, max_records, seed)
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
                *([] if persons is None else ["persons", PERSONS_VERSION, max_records]),
            )
            ground = Ground(corpus, vectors, dict(chosen), stream(seed, "pool", name), persons)

            def make(name: str = name, order: PoolOrder = order, ground: Ground = ground) -> Pool:
                try:
                    targets = _select(order, name, ground)
                    return split(
                        corpus,
                        name,
                        targets,
                        auxiliary=auxiliary,
                        seed=seed,
                        origins=order.rule.origins(targets, ground),
                        persons=persons,
                    )
                except PoolError as error:
                    where = error.where or order.where
                    raise type(error)(error.what, where, error.remedy) from None

            try:
                pools[name] = keep(store, "pool", key, make, Pool.to_bytes, Pool.from_bytes)
            except EmptyPoolError:
                if not order.optional:
                    raise
                continue
            chosen[name] = pools[name].targets
    if not pools:
        raise PoolError(
            f"no pool selects two of {len(corpus)} records", "pool", "loosen a rule, or add a pool"
        )
    return pools


def _select(order: PoolOrder, name: str, ground: Ground) -> Sequence[int]:
    targets = order.rule.select(ground)
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
