"""Pools: which records the audit asks about, and what is left for the game (docs/method.md §3)."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synthleak.core.errors import PoolError
from synthleak.core.registry import Plugin, PluginRegistry
from synthleak.core.seeds import stream
from synthleak.core.unit import Unit
from synthleak.corpus.corpus import Corpus, Record, Split
from synthleak.encoders.encoder import Vectors
from synthleak.pools.groups import blocks_of, groups_of
from synthleak.pools.persons import Persons

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Given:
    """What is known of the targets of an existing release (docs/method.md §11).

    `member[t]` says whether a target was a member; targets of one `block` (a group) were in or out
    together; `coins` says that each was in or out by its own fair coin.
    """

    member: tuple[bool, ...]
    block: tuple[int, ...]
    coins: bool


Owned = tuple[tuple[int, ...], ...]
"""The records of each person, as positions."""


@dataclass(frozen=True)
class PersonRecords:
    """Whose records are whose: those of every target, and of C and R (docs/method.md §15)."""

    targets: Owned
    candidates: Owned
    auxiliary: Owned


@dataclass(frozen=True)
class Written:
    """A target that no corpus holds: a record made for the test, at a position after the corpus.

    Where it is in, it is there `copies` times (docs/method.md §13).
    """

    position: int
    record: Record
    copies: int = 1


@dataclass(frozen=True)
class Pool:
    """A target pool P and the split of the rest: candidates C and auxiliary R, as positions.

    Where membership is `given`, C is the private set itself, and R the reference, if any. Where
    targets are `persons`, each of `targets` is the first record of one, and stands for all.
    """

    name: str
    targets: tuple[int, ...]
    origins: tuple[str, ...]
    candidates: tuple[int, ...]
    auxiliary: tuple[int, ...]
    given: Given | None = None
    persons: PersonRecords | None = None
    written: tuple[Written, ...] = ()

    @property
    def asked(self) -> tuple[int, ...]:
        """All records of all targets, target by target."""
        if self.persons is None:
            return self.targets
        return tuple(place for own in self.persons.targets for place in own)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of records of each target."""
        if self.persons is None:
            return (1,) * len(self.targets)
        return tuple(map(len, self.persons.targets))

    def records_of(self, target: int) -> tuple[int, ...]:
        """Return the records of a target: one, or all of a person."""
        return (self.targets[target],) if self.persons is None else self.persons.targets[target]

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """How often each target is there where it is in: once, but for canaries with repeats."""
        several = {item.position: item.copies for item in self.written}
        return tuple(several.get(target, 1) for target in self.targets)

    @cached_property
    def joining(self) -> Owned:
        """What joins a set with each target: its records, as often as there are copies."""
        return tuple(self.records_of(n) * copies for n, copies in enumerate(self.copies))

    def to_bytes(self) -> bytes:
        """Write the pool for the store."""
        fields = asdict(self)
        for name in ("given", "persons", "written"):
            if not fields[name]:
                del fields[name]
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Pool:
        """Read a pool from the store."""
        fields = json.loads(data)
        given = fields.pop("given", None)
        if given is not None:
            given = Given(tuple(given["member"]), tuple(given["block"]), given["coins"])
        persons = fields.pop("persons", None)
        if persons is not None:
            persons = PersonRecords(**{k: tuple(map(tuple, own)) for k, own in persons.items()})
        name = fields.pop("name")
        written = tuple(
            Written(
                item["position"],
                Record(**item["record"] | {"labels": tuple(item["record"]["labels"])}),
                item["copies"],
            )
            for item in fields.pop("written", ())
        )
        plain = {key: tuple(fields[key]) for key in fields}
        return cls(name=name, given=given, persons=persons, written=written, **plain)


@dataclass(frozen=True)
class Ground:
    """What a rule may look at when it selects.

    Where an audit asks about `persons`, a rule selects records as ever, and whoever owns one is
    selected; a person is stood for by its first record.
    """

    corpus: Corpus
    vectors: Callable[[], Vectors]
    earlier: Mapping[str, Sequence[int]]
    rng: np.random.Generator
    persons: Persons | None = None

    @property
    def unit(self) -> Unit:
        """What is selected."""
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

    @abstractmethod
    def select(self, ground: Ground) -> Sequence[int]:
        """Return the positions of the selected records."""

    def origins(self, targets: Sequence[int], ground: Ground) -> Sequence[str] | None:
        """Return which earlier pool each target came from; none for a pool of its own."""
        return None


@dataclass(frozen=True)
class Material:
    """What a rule may write targets from: R, and the records that they must not resemble."""

    corpus: Corpus
    auxiliary: Sequence[Record]
    others: Sequence[Record]
    rng: np.random.Generator


class Writer(Rule):
    """A rule that writes its targets: no record of the corpus is one (docs/method.md §13)."""

    size: int = Field(default=60, ge=2, description="how many are written")
    repeats: int = Field(default=1, ge=1, le=64, description="copies that are in where one is in")

    def select(self, ground: Ground) -> Sequence[int]:
        """Return the positions of what will be written: those that follow all others."""
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
        """Return `size` texts with labels. No coin was tossed so far, so none depends on one."""


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
        """Return the matching records, or the persons who own one, at most `size` of them."""
        found = self.matches(ground)
        if ground.persons is not None:
            found = (
                ground.persons.extremes(found)
                if isinstance(found, Mapping)
                else ground.persons.who_own(found)
            )
        return cap(found, self.size, ground.rng)

    @abstractmethod
    def matches(self, ground: Ground) -> Sequence[int] | Mapping[int, float]:
        """Return the positions of all records that match.

        A mapping also says how extreme each one is: the larger, the sooner `size` keeps it.
        """


rules: PluginRegistry[Rule] = PluginRegistry("pool rule", "synthleak.pools.rules")
"""Registers the decorated class: `@rule(name, version=1)`."""


def cap(
    found: Sequence[int] | Mapping[int, float], size: int | None, rng: np.random.Generator
) -> list[int]:
    """Keep at most `size` of the found records, in corpus order.

    A mapping says how extreme each record is: the largest values are kept, and a draw decides
    between equal ones. Without it all are drawn uniformly.

    >>> cap({3: 1.0, 5: 9.0, 7: 2.0}, 2, np.random.default_rng(1))
    [5, 7]
    """
    positions = sorted(found)
    if size is None or len(positions) <= size:
        return positions
    if not isinstance(found, Mapping):
        return sorted(int(x) for x in rng.choice(np.asarray(found), size, replace=False))
    drawn = [positions[place] for place in rng.permutation(len(positions))]
    return sorted(sorted(drawn, key=lambda position: -found[position])[:size])


def mean_ranks(*measures: NDArray[Any]) -> Floats:
    """Return the mean rank of each record over the measures, among all records of the corpus.

    Values are rounded first, so that the last digits of a sum cannot order equal records.

    >>> mean_ranks(np.array([5, 7, 7]), np.array([0.3, 0.2, 0.1]))
    array([2.  , 2.25, 1.75])
    """
    from scipy.stats import rankdata

    ranks: Floats = np.mean([rankdata(np.round(values, 9)) for values in measures], axis=0)
    return ranks


def split(
    corpus: Corpus,
    name: str,
    targets: Sequence[int],
    *,
    auxiliary: float,
    seed: int,
    origins: Sequence[str] | None = None,
    persons: Persons | None = None,
) -> Pool:
    """Split what the targets leave into candidates C and auxiliary R.

    Where records carry a group, the target's whole group leaves both, so that no other record of
    the same person can replace the target (docs/method.md §1). Where targets are `persons`, whole
    persons go to C and to R.
    """
    if corpus.split is not None:
        return _as_given(corpus, corpus.split, name, targets, origins, seed, persons)
    if persons is not None:
        return _split_persons(name, targets, persons, auxiliary, seed, origins)
    records = corpus.records
    inside = set(targets)
    groups = {records[t].group for t in targets if t < len(records)} - {None}
    rest = [
        position
        for position, record in enumerate(records)
        if position not in inside and (record.group is None or record.group not in groups)
    ]
    if len(rest) < 4:
        raise PoolError(
            f"the pool {name!r} of {len(inside)} records leaves {len(rest)} of {len(records)}",
            remedy="give its rule a smaller size",
        )
    order = stream(seed, "split", name).permutation(len(rest))
    cut = min(max(round(len(rest) * auxiliary), 1), len(rest) - 1)
    shuffled = [rest[i] for i in order]
    return Pool(
        name=name,
        targets=tuple(targets),
        origins=tuple(name for _ in targets) if origins is None else tuple(origins),
        candidates=tuple(sorted(shuffled[cut:])),
        auxiliary=tuple(sorted(shuffled[:cut])),
    )


def _split_persons(
    name: str,
    targets: Sequence[int],
    persons: Persons,
    auxiliary: float,
    seed: int,
    origins: Sequence[str] | None,
) -> Pool:
    """Split the persons that the targets leave, so that R has about its share of the records."""
    asked = [persons.owner[target] for target in targets]
    rest = [own for person, own in enumerate(persons.records) if person not in set(asked)]
    if len(rest) < 4:
        raise PoolError(
            f"the pool {name!r} of {len(asked)} people leaves {len(rest)}"
            f" of {len(persons.records)}",
            remedy="give its rule a smaller size",
        )
    shuffled = [rest[i] for i in stream(seed, "split", name).permutation(len(rest)).tolist()]
    taken = np.cumsum([len(own) for own in shuffled])
    cut = int(np.abs(taken[:-1] - auxiliary * taken[-1]).argmin()) + 1
    sides = [tuple(sorted(side)) for side in (shuffled[cut:], shuffled[:cut])]
    candidates, known = (tuple(sorted(p for own in side for p in own)) for side in sides)
    return Pool(
        name=name,
        targets=tuple(targets),
        origins=tuple(name for _ in targets) if origins is None else tuple(origins),
        candidates=candidates,
        auxiliary=known,
        persons=PersonRecords(tuple(persons.records[p] for p in asked), *sides),
    )


def _as_given(
    corpus: Corpus,
    split: Split,
    name: str,
    targets: Sequence[int],
    origins: Sequence[str] | None,
    seed: int,
    persons: Persons | None,
) -> Pool:
    """Take the roles of the records as they are; groups that came whole stay whole.

    Targets are shuffled before anything is computed: files list members first, so their position
    would tell who was in (docs/method.md §11).
    """
    left_out = groups_of(corpus).left_out
    kept = [place for place, target in enumerate(targets) if target not in left_out]
    order = [kept[place] for place in stream(seed, "order", name).permutation(len(kept))]
    targets = [targets[place] for place in order]
    origins = None if origins is None else [origins[place] for place in order]
    member = tuple(split.roles[target] == "members" for target in targets)
    if all(member) or not any(member):
        raise PoolError(
            f"the pool {name!r} holds {sum(member)} members and {len(member) - sum(member)} of the"
            " holdout: there is nobody to compare with",
            remedy="loosen its rule",
        )
    return Pool(
        name=name,
        targets=tuple(targets),
        origins=tuple(name for _ in targets) if origins is None else tuple(origins),
        candidates=tuple(split.positions("members")),
        auxiliary=tuple(_reference(corpus, split, persons)),
        given=Given(member, blocks_of(corpus, targets), split.declared == "coins"),
        persons=None
        if persons is None
        else PersonRecords(tuple(persons.records[persons.owner[t]] for t in targets), (), ()),
    )


def _reference(corpus: Corpus, split: Split, persons: Persons | None) -> list[int]:
    """Return the reference; where persons are asked about, without records of their own.

    A baseline that holds other records of one side's persons would tell the sides apart.
    """
    places = split.positions("reference")
    if persons is None:
        return places
    asked = {corpus.person_names[p] for p in split.positions("members", "holdout")}
    return [place for place in places if corpus.person_names[place] not in asked]


def describe(pool: Pool) -> dict[str, Any]:
    """Return the sizes of a pool for a table."""
    return {
        "pool": pool.name,
        "targets": len(pool.targets),
        "candidates": len(pool.candidates),
        "auxiliary": len(pool.auxiliary),
    }
