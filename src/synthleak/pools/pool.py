"""Pools: which records the audit asks about, and what is left for the game (docs/method.md §3).

A pool is made by `split` from selected targets. What they leave is drawn into candidates C and
auxiliary records R. Where a release exists already, everybody's role is given, and torn groups show
whether whole groups or single records were drawn then (§11).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from itertools import combinations
from typing import Literal

import numpy as np
from pydantic import TypeAdapter

from synthleak.core.cell import counted
from synthleak.core.errors import PoolError
from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Corpus, Record, Split


@dataclass(frozen=True)
class Given:
    """What is known of the targets of an existing release (docs/method.md §11).

    `member[t]` says whether a target was a member; targets of one `block` (a group) were in or out
    together; `coins` says that each was in or out by its own fair coin. Where `either` fits, whole
    blocks were drawn or single targets.
    """

    member: tuple[bool, ...]
    block: tuple[int, ...]
    coins: bool
    either: bool = False


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

    A set that holds it holds `copies` of it (docs/method.md §13).
    """

    position: int
    record: Record
    copies: int = 1


@dataclass(frozen=True)
class Pool:
    """A target pool P and the split of the rest: candidates C and auxiliary R, as positions.

    Attributes:
        name: what tables call it.
        targets: the targets; of a person the first record, which stands for all.
        origins: the pool that each target was selected by.
        candidates: C; where membership is given, the private set itself.
        auxiliary: R; where membership is given, the reference, if any.
        given: who was a member, where that is given.
        persons: the records of each person, where targets are persons.
        written: the targets that were written for the audit.
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
        return tuple(record for person in self.persons.targets for record in person)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of records of each target."""
        if self.persons is None:
            return (1,) * len(self.targets)
        return tuple(map(len, self.persons.targets))

    def records_of(self, target: int) -> tuple[int, ...]:
        """Return the records of a target: one, or all of a person.

        Args:
            target: its place among the targets.
        """
        return (self.targets[target],) if self.persons is None else self.persons.targets[target]

    @cached_property
    def copies(self) -> tuple[int, ...]:
        """How many copies of a target join a set: one, except for canaries with repeats."""
        several = {item.position: item.copies for item in self.written}
        return tuple(several.get(target, 1) for target in self.targets)

    @cached_property
    def joining(self) -> Owned:
        """What joins a set with each target: its records, as often as there are copies."""
        return tuple(self.records_of(n) * copies for n, copies in enumerate(self.copies))

    def to_bytes(self) -> bytes:
        """Return the pool as it is stored."""
        fields = asdict(self)
        for name in ("given", "persons", "written"):
            if not fields[name]:
                del fields[name]
        if self.given is not None and not self.given.either:
            del fields["given"]["either"]
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Pool:
        """Return a stored pool.

        Args:
            data: what `to_bytes` returned.
        """
        return _adapter().validate_json(data)


@cache
def _adapter() -> TypeAdapter[Pool]:
    return TypeAdapter(Pool)


FEW_TORN = 0.05
"""Of the groups with several records, how many may be torn by mistake and are left out."""
REACH = 3.29
"""Standard deviations within which a count agrees with chance: 999 times in 1,000."""


@dataclass(frozen=True)
class SplitGroups:
    """How the groups of a given split lie over members and holdout.

    `unit` is what was drawn: whole groups, single records, either where both fit, or None where
    neither does. Of `several` groups with two or more records `torn` have records on both sides.
    `left_out` are the positions of the records of torn groups, where whole groups were drawn. Where
    either fits nobody is left out: who is would depend on the split of single records.
    """

    unit: Literal["group", "record", "either"] | None
    several: int
    torn: int
    left_out: frozenset[int] = frozenset()


def split_groups(corpus: Corpus) -> SplitGroups:
    """Find out from the torn groups what the split drew."""
    assert corpus.split is not None
    asked = corpus.split.positions("members", "holdout")
    by_group: dict[str, list[int]] = {}
    for position in asked:
        group = corpus.records[position].group
        if group is not None:
            by_group.setdefault(group, []).append(position)
    several = [group for group in by_group.values() if len(group) > 1]
    torn = [group for group in several if len({corpus.split.roles[p] for p in group}) > 1]
    few = len(torn) <= FEW_TORN * len(several)
    members = len(corpus.split.positions("members"))
    by_chance = bool(several) and _as_by_chance(
        [len(group) for group in several], len(torn), members, len(asked)
    )
    if few and not by_chance:
        left_out = frozenset(position for group in torn for position in group)
        return SplitGroups("group", len(several), len(torn), left_out)
    unit: Literal["record", "either"] = "either" if few else "record"
    return SplitGroups(unit if by_chance else None, len(several), len(torn))


def _as_by_chance(sizes: Sequence[int], torn: int, members: int, records: int) -> bool:
    """Say whether a split of single records would tear about as many groups of these sizes."""
    from scipy.stats import hypergeom

    # A group of k stays whole if none of its records is a member, or all are.
    rates = [
        1
        - float(
            hypergeom.pmf(0, records, members, size) + hypergeom.pmf(size, records, members, size)
        )
        for size in sizes
    ]
    spread = math.sqrt(sum(rate * (1 - rate) for rate in rates))
    return abs(torn - sum(rates)) <= REACH * spread + 0.5


def blocks_of(corpus: Corpus, targets: Sequence[int], groups: SplitGroups) -> tuple[int, ...]:
    """Number what is permuted: the groups of the targets, or single records.

    A record without a group is its own. Where either was drawn, groups are numbered.
    """
    whole = groups.unit in ("group", "either")
    names: dict[str | int, int] = {}
    keys: list[str | int] = [
        group if whole and (group := corpus.records[target].group) is not None else target
        for target in targets
    ]
    return tuple(names.setdefault(key, len(names)) for key in keys)


@dataclass(frozen=True)
class Persons:
    """The persons of a corpus, in the order of their first records.

    `records` are those of each person that take part, in corpus order: all, or a draw of
    `max_records` where there are more. `owned` are all of them. A person is stood for by the first
    record that takes part.
    """

    records: tuple[tuple[int, ...], ...]
    owned: tuple[tuple[int, ...], ...]

    @cached_property
    def owner(self) -> dict[int, int]:
        """The person that owns each record, also one that takes no part."""
        return {p: person for person, positions in enumerate(self.owned) for p in positions}

    @property
    def first(self) -> list[int]:
        """The record that stands for each person."""
        return [positions[0] for positions in self.records]

    def of(self, targets: Iterable[int]) -> Owned:
        """Return the records of the person that each target stands for."""
        return tuple(self.records[self.owner[target]] for target in targets)

    def who_own(self, positions: Iterable[int]) -> list[int]:
        """Return who owns one of these records, each once, in corpus order.

        >>> Persons(((0, 2), (1,)), ((0, 2), (1,))).who_own([2])
        [0]
        """
        return sorted({self.records[self.owner[p]][0] for p in positions if p in self.owner})

    def extremes(self, extremity: Mapping[int, float]) -> dict[int, float]:
        """Return who owns one of these records, as extreme as the most extreme one owned.

        >>> Persons(((0, 2), (1,)), ((0, 2), (1,))).extremes({0: 1.0, 1: 5.0, 2: 3.0})
        {0: 3.0, 1: 5.0}
        """
        return {
            first: max(extremity[p] for p in self.owned[self.owner[first]] if p in extremity)
            for first in self.who_own(extremity)
        }


def persons_of(corpus: Corpus, max_records: int, seed: int) -> Persons:
    """Find the persons of a corpus: those of members and holdout, where a split is given.

    Of a person with more than `max_records` records a draw takes part, the same in every pool.
    """
    if all(record.group is None for record in corpus.records):
        raise PoolError(
            "no record says whose it is",
            "game.unit",
            "name the field of the person with corpus.group, or ask about records",
        )
    positions: Iterable[int] = range(len(corpus))
    left_out: frozenset[int] = frozenset()
    if corpus.split is not None:
        groups = split_groups(corpus)
        if groups.unit != "group" and groups.torn:
            raise PoolError(
                f"{groups.torn:,} of {groups.several:,} people with several records have them on"
                " both sides, so nobody was in or out as a whole",
                "game.unit",
                'split by whole persons, or ask about records: unit = "record"',
            )
        positions, left_out = corpus.split.positions("members", "holdout"), groups.left_out
    owned: dict[str, list[int]] = {}
    for position in positions:
        if position not in left_out:
            owned.setdefault(corpus.person_names[position], []).append(position)
    rng = stream(seed, "persons")
    kept = [
        person
        if len(person) <= max_records
        else sorted(person[i] for i in rng.permutation(len(person))[:max_records].tolist())
        for person in owned.values()
    ]
    return Persons(tuple(map(tuple, kept)), tuple(map(tuple, owned.values())))


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
    origins = (name,) * len(targets) if origins is None else tuple(origins)
    if corpus.split is not None:
        return _as_given(corpus, corpus.split, name, targets, origins, seed, persons)
    rest: list[tuple[int, ...]]
    if persons is None:
        inside, unit, everybody = set(targets), "record", len(corpus)
        groups = {corpus.records[t].group for t in targets if t < everybody} - {None}
        rest = [
            (position,)
            for position, record in enumerate(corpus.records)
            if position not in inside and (record.group is None or record.group not in groups)
        ]
    else:
        inside, unit, everybody = (
            {persons.owner[t] for t in targets},
            "person",
            len(persons.records),
        )
        rest = [records for person, records in enumerate(persons.records) if person not in inside]
    if len(rest) < 4:
        raise PoolError(
            f"the pool {name!r} of {counted(len(inside), unit)} leaves {len(rest)} of {everybody}",
            remedy="give its rule a smaller size",
        )
    shuffled = [rest[i] for i in stream(seed, "split", name).permutation(len(rest)).tolist()]
    if persons is None:
        cut = min(max(round(len(rest) * auxiliary), 1), len(rest) - 1)
    else:  # so that R has about its share of the records
        taken = np.cumsum([len(records) for records in shuffled])
        cut = int(np.abs(taken[:-1] - auxiliary * taken[-1]).argmin()) + 1
    sides = [tuple(sorted(side)) for side in (shuffled[cut:], shuffled[:cut])]
    candidates, known = (tuple(sorted(p for records in side for p in records)) for side in sides)
    return Pool(
        name=name,
        targets=tuple(targets),
        origins=origins,
        candidates=candidates,
        auxiliary=known,
        persons=None if persons is None else PersonRecords(persons.of(targets), *sides),
    )


def _as_given(
    corpus: Corpus,
    split: Split,
    name: str,
    targets: Sequence[int],
    origins: tuple[str, ...],
    seed: int,
    persons: Persons | None,
) -> Pool:
    """Take the roles of the records as they are; groups that came whole stay whole.

    Targets are shuffled before anything is computed: files list members first, so their position
    would tell who was in (docs/method.md §11).
    """
    groups = split_groups(corpus)
    kept = [index for index, target in enumerate(targets) if target not in groups.left_out]
    order = [kept[index] for index in stream(seed, "order", name).permutation(len(kept))]
    targets = [targets[index] for index in order]
    origins = tuple(origins[index] for index in order)
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
        origins=origins,
        candidates=tuple(split.positions("members")),
        auxiliary=tuple(_reference(corpus, split, persons)),
        given=Given(
            member,
            blocks_of(corpus, targets, groups),
            split.declared == "coins",
            groups.unit == "either" and persons is None,
        ),
        persons=None if persons is None else PersonRecords(persons.of(targets), (), ()),
    )


def _reference(corpus: Corpus, split: Split, persons: Persons | None) -> list[int]:
    """Return the reference; where persons are asked about, without records of their own.

    A baseline that holds other records of one side's persons would tell the sides apart.
    """
    positions = split.positions("reference")
    if persons is None:
        return positions
    asked = {corpus.person_names[p] for p in split.positions("members", "holdout")}
    return [position for position in positions if corpus.person_names[position] not in asked]


@dataclass(frozen=True)
class Overlap:
    """Two pools and the records in both."""

    pool: str
    other: str
    shared: int
    share_of_smaller: float


def overlaps_of(pools: Mapping[str, Pool]) -> list[Overlap]:
    """Return the overlap of every pair of pools, in the order of the spec."""
    overlaps = []
    for one, two in combinations(pools.values(), 2):
        shared = len(set(one.targets) & set(two.targets))
        smaller = min(len(one.targets), len(two.targets))
        overlaps.append(Overlap(one.name, two.name, shared, shared / smaller))
    return overlaps
