"""Pool rules and how they are applied: all pools of a spec, in its order (docs/method.md §3)."""

from __future__ import annotations

import operator
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synthleak.core.cell import Unit, counted, noun
from synthleak.core.errors import ContractError, PoolError
from synthleak.core.registry import Plugin, PluginRegistry, calling
from synthleak.core.seeds import digest, stream
from synthleak.core.store import Store, keep
from synthleak.corpus.corpus import Corpus, Record
from synthleak.encoders.encoder import Vectors
from synthleak.pools.pool import Persons, Pool, Written, persons_of, split

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ground:
    """What a rule may look at when it selects.

    Where an audit asks about `persons`, a rule still selects records, and every person who owns one
    of them is selected. The first record of a person stands for the person.

    Attributes:
        corpus: all records; a position is a place in `corpus.records`.
        vectors: encodes all records when it is called, one row each.
        earlier: the positions that each pool above this one has selected.
        rng: draws for this pool alone.
        persons: who owns which records; None where the audit asks about records.
    """

    corpus: Corpus
    vectors: Callable[[], Vectors]
    earlier: Mapping[str, Sequence[int]]
    rng: np.random.Generator
    persons: Persons | None = None

    @property
    def unit(self) -> Unit:
        return "record" if self.persons is None else "person"

    @property
    def everybody(self) -> Sequence[int]:
        """What can be selected: every record, or the first record of every person."""
        return range(len(self.corpus)) if self.persons is None else self.persons.first


class Rule(Plugin):
    """Selects targets: `select(ground) -> positions`."""

    def count(self) -> int:
        """Return how many pools one section makes: more than one only for random controls."""
        return 1

    @property
    def uses_vectors(self) -> bool:
        """Whether the pool encoder is part of what the selection was made from."""
        return False

    @property
    def looked_for_by(self) -> tuple[str, ...]:
        """Opt-in families that see what is special about its targets: they join the audit."""
        return ()

    @abstractmethod
    def select(self, ground: Ground) -> Sequence[int]:
        """Select the targets of a pool.

        Args:
            ground: what the rule may look at.

        Returns:
            The positions of the selected records.
        """

    def origins(self, targets: Sequence[int], ground: Ground) -> Sequence[str] | None:
        """Say which earlier pool each target came from.

        Args:
            targets: the positions that `select` returned.
            ground: what it looked at.

        Returns:
            The name of a pool for each target; None for a pool of its own.
        """
        return None


@dataclass(frozen=True)
class Material:
    """What a rule may write targets from.

    Attributes:
        corpus: all records.
        auxiliary: the records of R, which texts may be made of.
        others: all records outside R, which no text may resemble.
        rng: draws for this pool alone.
    """

    corpus: Corpus
    auxiliary: Sequence[Record]
    others: Sequence[Record]
    rng: np.random.Generator


class Writer(Rule):
    """A rule that writes its targets: no record of the corpus is one (docs/method.md §13)."""

    size: int = Field(default=60, ge=2, description="how many are written")
    repeats: int = Field(default=1, ge=1, le=64, description="copies that are in where one is in")

    def select(self, ground: Ground) -> Sequence[int]:
        """Return the positions of what will be written: those that follow all others.

        Args:
            ground: what the rule may look at.
        """
        if self.size > len(ground.corpus):
            raise PoolError(
                f"size = {self.size:,}, and the corpus has {len(ground.corpus):,} records",
                remedy="write fewer",
            )
        taken = [position for pool in ground.earlier.values() for position in pool]
        first = max([len(ground.corpus) - 1, *taken]) + 1
        return range(first, first + self.size)

    @abstractmethod
    def write(self, material: Material) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Write the targets. No coin was tossed so far, so none depends on one.

        Args:
            material: what they may be made of.

        Returns:
            `size` texts, each with its labels.
        """


class Filter(Rule):
    """A rule that looks for matching records and keeps at most `size` of them.

    Which ones it keeps: the most extreme, if the rule says how extreme each match is; otherwise a
    uniform draw (docs/method.md §3).
    """

    size: int | None = Field(
        default=None,
        ge=1,
        description="at most this many: the most extreme where the rule ranks, else a draw by seed",
    )

    def select(self, ground: Ground) -> Sequence[int]:
        """Return the matching records, or the persons who own one, at most `size` of them.

        Args:
            ground: what the rule may look at.
        """
        matches = self.matches(ground)
        if ground.persons is not None:
            matches = (
                ground.persons.extremes(matches)
                if isinstance(matches, Mapping)
                else ground.persons.who_own(matches)
            )
        return cap(matches, self.size, ground.rng)

    @abstractmethod
    def matches(self, ground: Ground) -> Sequence[int] | Mapping[int, float]:
        """Find all records that match.

        Args:
            ground: what the rule may look at.

        Returns:
            Their positions. A mapping also says how extreme each one is: the larger, the sooner
            `size` keeps it.
        """


rules: PluginRegistry[Rule] = PluginRegistry("pool rule", "synthleak.pools.rules")
"""Registers the decorated class: `@rules.register(name, version=1)`."""


def cap(
    matches: Sequence[int] | Mapping[int, float], size: int | None, rng: np.random.Generator
) -> list[int]:
    """Keep at most `size` of the found records, in corpus order.

    A mapping says how extreme each record is: the largest values are kept, and a draw decides
    between equal ones. Without it all are drawn uniformly.

    >>> cap({3: 1.0, 5: 9.0, 7: 2.0}, 2, np.random.default_rng(1))
    [5, 7]
    """
    positions = sorted(matches)
    if size is None or len(positions) <= size:
        return positions
    if not isinstance(matches, Mapping):
        return sorted(int(x) for x in rng.choice(np.asarray(matches), size, replace=False))
    drawn = [positions[index] for index in rng.permutation(len(positions))]
    return sorted(sorted(drawn, key=lambda position: -matches[position])[:size])


def mean_ranks(*measures: NDArray[Any]) -> Floats:
    """Return the mean rank of each record over the measures, among all records of the corpus.

    Values are rounded first, so that the last digits of a sum cannot order equal records.

    Args:
        measures: one value a record, each; the larger, the more extreme.

    Returns:
        The mean rank of each record, ties sharing theirs.

    >>> mean_ranks(np.array([5, 7, 7]), np.array([0.3, 0.2, 0.1]))
    array([2.  , 2.25, 1.75])
    """
    from scipy.stats import rankdata

    return np.asarray(np.mean([rankdata(np.round(values, 9)) for values in measures], axis=0))


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
            lambda pools: b"\n".join(pool.to_bytes() for pool in pools),
            lambda data: [Pool.from_bytes(line) for line in data.splitlines()],
        )
        return {pool.name: pool for pool in shared}
    pools: dict[str, Pool] = {}
    for order, name in _named(orders):
        earlier = {other: pool.targets for other, pool in pools.items()}
        key = digest(
            "pool",
            corpus.fingerprint,
            name,
            order.rule.identity(),
            encoder if order.rule.uses_vectors else None,
            {other: list(targets) for other, targets in earlier.items()},
            auxiliary,
            seed,
            *([SPLIT_VERSION] if corpus.split is not None else []),
            *whose,
        )
        ground = Ground(corpus, vectors, earlier, stream(seed, "pool", name), persons)
        make = partial(_make_pool, order, name, ground, auxiliary, seed)
        with _located(order):
            pools[name] = keep(store, _kind(order), key, make, Pool.to_bytes, Pool.from_bytes)
    _check_some(pools, corpus)
    return pools


def _make_pool(order: PoolOrder, name: str, ground: Ground, auxiliary: float, seed: int) -> Pool:
    targets = _select(order, name, ground)
    pool = split(
        ground.corpus,
        name,
        targets,
        auxiliary=auxiliary,
        seed=seed,
        origins=order.rule.origins(targets, ground),
        persons=ground.persons,
    )
    return _with_written(pool, order.rule, ground.corpus, seed)


@contextmanager
def _located(order: PoolOrder) -> Iterator[None]:
    """Name the section of the spec that an error is about; an optional pool may stay empty."""
    try:
        yield
    except PoolError as error:
        if not (order.optional and isinstance(error, EmptyPoolError)):
            raise type(error)(error.what, error.where or order.where, error.remedy) from None


def _named(orders: Sequence[PoolOrder]) -> list[tuple[PoolOrder, str]]:
    return [(order, name) for order in orders for name in order.names()]


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
    chosen: dict[str, tuple[int, ...]] = {}
    selected: list[tuple[PoolOrder, str, Ground]] = []
    for order, name in _named(orders):
        ground = Ground(corpus, vectors, dict(chosen), stream(seed, "pool", name), persons)
        with _located(order):
            chosen[name] = tuple(_select(order, name, ground))
            selected.append((order, name, ground))
    _check_some(chosen, corpus)
    every = sorted({target for targets in chosen.values() for target in targets})
    whole = split(corpus, SHARED, every, auxiliary=auxiliary, seed=seed, persons=persons)
    pools = []
    for order, name, ground in selected:
        targets, asked = chosen[name], None
        if persons is not None and whole.persons is not None:
            asked = replace(whole.persons, targets=persons.of(targets))
        with _located(order):
            origins = order.rule.origins(targets, ground) or (name,) * len(targets)
            pool = replace(whole, name=name, targets=targets, origins=tuple(origins), persons=asked)
            pools.append(_with_written(pool, order.rule, corpus, seed))
    return pools


def _with_written(pool: Pool, rule: Rule, corpus: Corpus, seed: int) -> Pool:
    """Write the targets of a pool whose rule makes its own, once it is known what is R."""
    if not isinstance(rule, Writer):
        return pool
    inside = set(pool.auxiliary)
    material = Material(
        corpus,
        [corpus.records[position] for position in pool.auxiliary],
        [record for position, record in enumerate(corpus.records) if position not in inside],
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
        texts = [
            Written(position, Record(name, text, labels), rule.repeats)
            for position, name, (text, labels) in zip(
                pool.targets, names, rule.write(material), strict=True
            )
        ]
    return replace(pool, written=tuple(texts))


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
