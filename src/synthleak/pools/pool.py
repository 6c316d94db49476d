"""Pools: which records the audit asks about, and what is left for the game (docs/method.md §3)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import TypeAdapter

from synthleak.corpus.corpus import Record

Floats = NDArray[np.float64]


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
        """How many copies of a target join a set: one, except for canaries with repeats."""
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
        if self.given is not None and not self.given.either:
            del fields["given"]["either"]
        return json.dumps(fields).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Pool:
        """Read a pool from the store."""
        return _adapter().validate_json(data)


@cache
def _adapter() -> TypeAdapter[Pool]:
    return TypeAdapter(Pool)


def describe(pool: Pool) -> dict[str, Any]:
    """Return the sizes of a pool for a table."""
    return {
        "pool": pool.name,
        "targets": len(pool.targets),
        "candidates": len(pool.candidates),
        "auxiliary": len(pool.auxiliary),
    }
