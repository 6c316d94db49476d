"""All pools of a spec, in the order in which it names them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from synthleak.core.errors import PoolError
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.core.store import Store, keep
from synthleak.corpus.corpus import Corpus
from synthleak.encoders.encoder import Vectors
from synthleak.pools.pool import Ground, Pool, Rule, split

SPLIT_VERSION = 2
"""Raised when the pools of a given split change: order of targets, groups that are left out."""


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
) -> dict[str, Pool]:
    """Select every pool, once per corpus, rule, encoder and seed.

    An optional pool with fewer than two records is left out.
    """
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
                    return split(
                        corpus,
                        name,
                        targets,
                        auxiliary=auxiliary,
                        seed=seed,
                        origins=order.rule.origins(targets, ground),
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
    if ground.corpus.split is not None:  # a reference is looked at, never asked about
        asked = set(ground.corpus.split.positions("members", "holdout"))
        targets = [target for target in targets if target in asked]
    if len(targets) < 2:
        raise EmptyPoolError(
            f"the pool {name!r} has {len(targets)} record{'s' * (len(targets) != 1)}"
            f" of {len(ground.corpus)}",
            remedy=f"loosen its rule ({order.rule.kind}): a pool needs at least 2 records;"
            " or set optional = true to leave it out",
        )
    return targets
