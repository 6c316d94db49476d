"""Releases: what a generator is given, and what it gives back (docs/method.md §5)."""

from __future__ import annotations

import gzip
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synthleak.core.identity import digest
from synthleak.core.registry import Plugin, PluginRegistry
from synthleak.core.runtime import FLEET, Resources
from synthleak.core.store import Store
from synthleak.core.text import fold
from synthleak.core.unit import Unit
from synthleak.corpus.corpus import Labels, Record
from synthleak.releases.claim import Claim, GaussianEvent, no_claim, stated_claim

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Synthetic:
    """One synthetic record. Its text may be a private one, so its repr does not show it."""

    text: str = field(repr=False)
    labels: Labels = ()


@dataclass(frozen=True)
class Public:
    """What a generator may use without paying for it: R, and the declared label schema.

    `prior[i]` is the probability of `classes[i]`: from R with a floor, so that every declared class
    can be prompted; never from the private set (docs/method.md §5). `description` says in a line
    what kind of texts these are; only generators that read it have it in their keys.
    """

    auxiliary: tuple[Record, ...] = field(repr=False)
    classes: tuple[Labels, ...]
    prior: tuple[float, ...]
    description: str = ""
    _memory: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def key(self) -> str:
        """The content hash."""
        return digest(
            "public",
            [[record.text, record.labels] for record in self.auxiliary],
            self.classes,
            self.prior,
        )

    def remember(self, name: str, make: Callable[[], T]) -> T:
        """Return what `make` derived from the public side, made once for all its releases."""
        if name not in self._memory:
            self._memory[name] = make()
        made: T = self._memory[name]
        return made

    def expresses(self, records: Sequence[Record]) -> float:
        """Return the share of records whose class can be prompted at all."""
        possible = {c for c, p in zip(self.classes, self.prior, strict=True) if p > 0}
        return sum(record.labels in possible for record in records) / len(records)

    def draw_classes(self, size: int, rng: np.random.Generator) -> list[Labels]:
        """Draw `size` classes from the prior."""
        picks: NDArray[np.int64] = rng.choice(len(self.classes), size, p=np.asarray(self.prior))
        return [self.classes[pick] for pick in picks]


@dataclass(frozen=True)
class Request:
    """One set to make a release from. Nothing says whether it is a game or a reference.

    `nominal` is N of the plan: rates, steps, noise and normalisers come from it, never from the
    number of records, which would tell the worlds apart. `store` is where the audit remembers the
    vectors of texts, so that no record is encoded twice. `persons` says that the audit asks about
    persons, so that programs are told whose record is whose.
    """

    records: tuple[Record, ...] = field(repr=False)
    nominal: int
    size: int
    epsilon: float
    delta: float
    public: Public = field(repr=False)
    seed: int
    label_prior: str = "public"
    store: Store | None = field(default=None, repr=False, compare=False)
    persons: bool = False

    @property
    def void(self) -> str | None:
        """Why no claim holds for this request, if none does."""
        peeks = self.label_prior == "private"
        return "class sizes were taken from the private set" if peeks else None

    def draw_classes(self, rng: np.random.Generator) -> list[Labels]:
        """Draw a class for each text of the release: from the public prior, unless told not to."""
        side = private_prior(self.public, self.records) if self.void else self.public
        return side.draw_classes(self.size, rng)


@dataclass(frozen=True)
class Header:
    """What is known of a release without opening it: `text` is the content hash of its records.

    `different` is how many texts it has that are neither blank nor equal once folded: 0 is an empty
    release, 1 a degenerate one. It is None in stores that were written before it was counted.
    """

    text: str
    size: int
    claim: Claim
    different: int | None = None

    def to_bytes(self) -> bytes:
        """Write the header for the store."""
        content = {
            "text": self.text,
            "size": self.size,
            "different": self.different,
            "claim": self.claim.to_json(),
        }
        return json.dumps(content, indent=1).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Header:
        """Read a header from the store."""
        content = json.loads(data)
        claim = Claim.from_json(content["claim"])
        return cls(content["text"], content["size"], claim, content.get("different"))


def different_texts(release: Sequence[Synthetic]) -> int:
    """Count the texts that are neither blank nor equal once folded.

    >>> different_texts([Synthetic("A b"), Synthetic(" a  B"), Synthetic(" ")])
    1
    """
    return len({fold(record.text) for record in release} - {""})


class Generator(Plugin):
    """Makes releases: `generate(request) -> synthetic records`, and says what it promises."""

    def default_delta(self, nominal: int) -> float:
        """Return the δ that is used unless the spec names one."""
        return 1.0 / nominal**2

    def claim(self, request: Request) -> Claim:
        """State what a release for this request promises; by default nothing."""
        return no_claim()

    @property
    def private_by_design(self) -> bool:
        """Whether a finite ε means anything to this generator."""
        return False

    @property
    def any_size(self) -> bool:
        """Whether a release is as large as it happens to be, whatever was asked for."""
        return False

    @property
    def ignores_seed(self) -> bool:
        """Whether another seed makes the same release: true of nulls only."""
        return False

    @property
    def reproducible(self) -> bool:
        """Whether a request gives the same bytes on every machine: not so of language models."""
        return True

    def seed_name(self, section: str) -> str:
        """Return what names the randomness of its releases, given the name of its section.

        By default what the generator is, so that no two generators share noise.
        """
        return digest(self.identity())

    def check(self) -> None:
        """Raise a `GeneratorError` if no release can be made here: asked before any is made."""

    def awaited(self, request: Request) -> str | None:
        """Return the name of what must be put somewhere before this release can be made."""
        return None

    def fingerprint(self, request: Request) -> str:
        """Return the content hash of what decides a release beside the request; often nothing."""
        return ""

    @abstractmethod
    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Return `request.size` synthetic records."""

    def generate_many(self, requests: Sequence[Request]) -> Iterator[Sequence[Synthetic]]:
        """Make many releases in one call; each must equal what `generate` alone would make."""
        for request in requests:
            yield self.generate(request)

    @property
    def exclusive(self) -> bool:
        """Whether one process alone makes its releases, because it holds a device."""
        return False

    @property
    def resources(self) -> Resources:
        """What one call needs on a cluster; nothing here enters a key."""
        return FLEET if self.exclusive else Resources()

    @property
    def batch(self) -> int:
        """How many releases one call should make; the engine may pass fewer."""
        return 8


class AccountedGenerator(Generator):
    """A generator whose finite ε is accounted here, from the sums that it adds noise to."""

    public_inputs: ClassVar[tuple[str, ...]] = ()

    @property
    def private_by_design(self) -> bool:
        """A finite ε is accounted for."""
        return True

    @abstractmethod
    def events(self, request: Request) -> tuple[GaussianEvent, ...]:
        """Return the noised sums of a release with finite ε."""

    def claim(self, request: Request) -> Claim:
        """State the noised sums, and what is taken as public."""
        if math.isinf(request.epsilon):
            return no_claim()
        return Claim(
            request.epsilon,
            request.delta,
            self.events(request),
            public=self.public_inputs,
            void=request.void,
        )


class PersonAccounting(AccountedGenerator):
    """A generator that can account for whole persons: their records are bounded together.

    With `unit = "person"` the finite ε is that of adding or removing a person with all records
    (docs/method.md §15; design/claim-persons.md).
    """

    unit: Unit = Field(default="record", description="what epsilon protects")
    max_records: int = Field(
        default=10, ge=1, description='of a person, at most so many; for unit = "person"'
    )

    def identity(self) -> dict[str, Any]:
        """Leave both out for records, so that the keys of such releases stay the same."""
        found = super().identity()
        if self.unit == "record":
            del found["unit"], found["max_records"]
        return found

    def claim(self, request: Request) -> Claim:
        """State whom the noised sums protect."""
        return replace(super().claim(request), unit=self.unit)

    def contributions(self, request: Request) -> list[tuple[Record, ...]]:
        """Return what is clipped together: each record alone, or the records of each person."""
        if self.unit == "record":
            return [(record,) for record in request.records]
        return bounded_contributions(request.records, self.max_records, request.seed)


def owners_of(records: Sequence[Record]) -> list[int]:
    """Number the persons of some records; one without a group is a person of its own.

    >>> owners_of([Record("1", "a", group="x"), Record("2", "b"), Record("3", "c", group="x")])
    [0, 1, 0]
    """
    known: dict[tuple[str, str], int] = {}
    names = [("record", r.id) if r.group is None else ("group", r.group) for r in records]
    return [known.setdefault(name, len(known)) for name in names]


def bounded_contributions(
    records: Sequence[Record], most: int, seed: int
) -> list[tuple[Record, ...]]:
    """Return the records of each person, at most `most` of them.

    Which ones are kept depends on that person's records and the seed alone: if it depended on
    others, one person could move what another contributes.
    """
    found: dict[int, list[Record]] = {}
    for owner, record in zip(owners_of(records), records, strict=True):
        found.setdefault(owner, []).append(record)
    return [
        tuple(own)
        if len(own) <= most
        else tuple(sorted(own, key=lambda r: digest(seed, r.text, r.labels))[:most])
        for own in found.values()
    ]


class StatedGenerator(Generator):
    """A generator whose ε is stated by whoever made its releases, and taken at their word."""

    private: bool = False
    unit: Unit = Field(default="record", description="what the stated epsilon protects")

    @property
    def private_by_design(self) -> bool:
        """As the user declares."""
        return self.private

    def claim(self, request: Request) -> Claim:
        """Take whoever made the release at their word."""
        if math.isinf(request.epsilon):
            return no_claim()
        return replace(stated_claim(request.epsilon, request.delta), unit=self.unit)

    def identity(self) -> dict[str, Any]:
        """Leave the unit out for records, so that the keys of such releases stay the same."""
        found = super().identity()
        if found.get("unit") == "record":
            del found["unit"]
        return found

    @property
    def stated(self) -> dict[str, Any]:
        """What its maker states of a release: part of its key."""
        return {"private": self.private} | ({} if self.unit == "record" else {"unit": self.unit})


generators: PluginRegistry[Generator] = PluginRegistry("generator", "synthleak.releases.generators")


def public_side(
    auxiliary: Sequence[Record],
    classes: Mapping[Labels, int],
    *,
    floor: float = 0.01,
    description: str = "",
) -> Public:
    """Declare the public side: the classes by name, their sizes from R with a floor.

    `floor` is the share of the prior that is spread evenly over all declared classes.
    """
    names = sorted(classes)
    counts = dict.fromkeys(names, 0)
    for record in auxiliary:
        counts[record.labels] += 1
    # With nothing public every class is as likely as any other.
    total = sum(counts.values()) or 1
    share = np.array([counts[name] / total for name in names])
    prior = (1 - floor) * share + floor / len(names)
    return Public(
        tuple(auxiliary), tuple(names), tuple((prior / prior.sum()).tolist()), description
    )


def private_prior(public: Public, records: Sequence[Record]) -> Public:
    """Take class sizes from the private set, as the paper does. This voids the claim."""
    total = len(records)
    counts = dict.fromkeys(public.classes, 0)
    for record in records:
        counts[record.labels] += 1
    prior = tuple(counts[name] / total for name in public.classes)
    return Public(public.auxiliary, public.classes, prior, public.description)


def dump_texts(records: Sequence[Synthetic]) -> bytes:
    """Write synthetic records as gzipped JSON Lines."""
    lines = [
        json.dumps({"text": r.text, "labels": list(r.labels)}, ensure_ascii=False) for r in records
    ]
    return gzip.compress(("\n".join(lines) + "\n").encode(), compresslevel=6, mtime=0)


def load_texts(data: bytes) -> list[Synthetic]:
    """Read records written by `dump_texts`."""
    rows: list[dict[str, Any]] = [
        json.loads(line) for line in gzip.decompress(data).decode().split("\n") if line
    ]
    return [Synthetic(row["text"], tuple(row["labels"])) for row in rows]
