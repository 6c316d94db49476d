"""Generators: who makes releases, and what each promises (docs/method.md §5)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from synthleak.core.cell import Unit
from synthleak.core.errors import GeneratorError
from synthleak.core.registry import Plugin, PluginRegistry
from synthleak.core.runtime import FLEET, Resources
from synthleak.core.seeds import digest
from synthleak.core.validation import Frozen, listed
from synthleak.corpus.corpus import Record
from synthleak.releases.claim import Claim, GaussianEvent, no_claim, stated_claim
from synthleak.releases.release import Request, Synthetic

Floats = NDArray[np.float64]


class Generator(Plugin):
    """Makes releases: `generate(request) -> synthetic records`, and says what it promises."""

    any_size: ClassVar[bool] = False
    """Whether a release is as large as it happens to be, whatever was asked for."""

    ignores_seed: ClassVar[bool] = False
    """Whether another seed makes the same release: true of nulls only."""

    reproducible: ClassVar[bool] = True
    """Whether a request gives the same bytes on every machine: not so of language models."""

    exclusive: ClassVar[bool] = False
    """Whether one process alone makes its releases, because it holds a device."""

    def default_delta(self, nominal: int) -> float:
        """Return the δ that is used unless the spec names one.

        Args:
            nominal: N of the plan.
        """
        return 1.0 / nominal**2

    def claim(self, request: Request) -> Claim:
        """Return what a release for this request promises; by default nothing.

        Args:
            request: what the release is made from, with ε and δ.
        """
        return no_claim()

    @property
    def in_order(self) -> bool:
        """Whether smaller sizes of a release are its first rows, and not rows that are drawn."""
        return False

    @property
    def private_by_design(self) -> bool:
        """Whether a finite ε means anything to this generator."""
        return False

    @property
    def score_columns(self) -> tuple[str, ...]:
        """Name what `generate_and_score` says of a record; empty if it says nothing."""
        return ()

    def scored_with(self, epsilon: float) -> str:
        """Say in plain words what these scores are made from, as in "if the model were published".

        Args:
            epsilon: the budget of the cell.
        """
        return "the model"

    def seed_name(self, section: str) -> str:
        """Return what names the randomness of its releases, given the name of its section.

        By default what the generator is, so that no two generators share noise.

        Args:
            section: the name of the section.
        """
        return digest(self.identity())

    def check(self) -> None:
        """Raise a `GeneratorError` if no release can be made here: asked before any is made."""

    def awaited(self, request: Request) -> str | None:
        """Return the name of what must be put somewhere before this release can be made.

        Args:
            request: what the release is made from.

        Returns:
            The name, or None if nothing is missing.
        """
        return None

    def fingerprint(self, request: Request) -> str:
        """Return the content hash of what decides a release beside the request; often nothing.

        Args:
            request: what the release is made from.
        """
        return ""

    @abstractmethod
    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Return `request.size` synthetic records.

        Args:
            request: the private records, the public side, the budget and the seed.

        Raises:
            GeneratorError: no release can be made, in one line that says what to do.
        """

    def generate_many(self, requests: Sequence[Request]) -> Iterator[Sequence[Synthetic]]:
        """Make many releases in one call; each must equal what `generate` alone would make.

        Args:
            requests: requests of one cell: they share N, ε, size and public side.

        Yields:
            The release of each request.
        """
        for request in requests:
            yield self.generate(request)

    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Record], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Floats]]:
        """Make many releases, and score records under the model behind each (docs/method.md §16).

        Called only where there are `score_columns`. A release must not depend on `records`.

        Args:
            requests: as for `generate_many`.
            records: what is scored: records that may or may not have been learnt.
            sample: whether releases are made; without, the models are trained for the scores alone.

        Yields:
            For each request the release, which is empty without `sample`, and `[record, column]`:
            numbers that are higher the more a record looks learnt.
        """
        raise NotImplementedError

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
    (docs/method.md §15; docs/design/claims.md).
    """

    unit: Unit = Field(default="record", description="what epsilon protects")
    max_records: int = Field(
        default=10, ge=1, description='at most this many records of a person; for unit = "person"'
    )

    def identity(self) -> dict[str, Any]:
        """Leave both out for records, so that the keys of such releases stay the same."""
        settings = super().identity()
        if self.unit == "record":
            del settings["unit"], settings["max_records"]
        return settings

    def claim(self, request: Request) -> Claim:
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
    by_owner: dict[int, list[Record]] = {}
    for owner, record in zip(owners_of(records), records, strict=True):
        by_owner.setdefault(owner, []).append(record)
    return [
        tuple(contributed)
        if len(contributed) <= most
        else tuple(sorted(contributed, key=lambda r: digest(seed, r.text, r.labels))[:most])
        for contributed in by_owner.values()
    ]


class StatedEvent(Frozen):
    """A mechanism as a program states it: Gaussian with `mu`, or `steps` sums with noise `sigma`.

    Each record is in a sum with probability `rate`; σ is in units of what one record adds at most.
    DP-SGD has all three.
    """

    mu: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    sigma: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    rate: float = Field(default=1.0, gt=0, le=1)
    steps: int = Field(default=1, ge=1)

    @model_validator(mode="after")
    def _one_noise(self) -> StatedEvent:
        if (self.mu is None) == (self.sigma is None):
            raise ValueError("write mu, or sigma with rate and steps")
        if self.mu is not None and (self.rate, self.steps) != (1.0, 1):
            raise ValueError("mu is that of all steps: leave rate and steps out, or write sigma")
        return self

    @property
    def event(self) -> GaussianEvent:
        """The noised sums, for the accountant; a replaced record moves a sum by 2 at most."""
        sigma = self.sigma if self.mu is None else 1 / self.mu
        assert sigma is not None
        what = "Gaussian noise" if self.mu else "noised sum"
        return GaussianEvent(what, sigma, 1.0, 2.0, self.steps, self.rate)


ROUNDED = 1.01
"""By how much a stated ε may be rounded down."""


class StatedGenerator(Generator):
    """A generator whose ε is stated by whoever made its releases, and taken at their word.

    With a stated `mechanism` the claim is its whole curve, accounted here, and not one point.
    """

    private: bool = False
    unit: Unit = Field(default="record", description="what the stated epsilon protects")
    mechanism: Annotated[tuple[StatedEvent, ...], BeforeValidator(listed)] = Field(
        default=(), description="what adds the noise: mu, or sigma, rate and steps; one or several"
    )

    @model_validator(mode="after")
    def _private_mechanism(self) -> Self:
        if self.mechanism and not self.private:
            raise ValueError("a mechanism is stated, but private = true is not")
        return self

    @property
    def private_by_design(self) -> bool:
        return self.private

    def claim(self, request: Request) -> Claim:
        """Take whoever made the release at their word."""
        if math.isinf(request.epsilon):
            return no_claim()
        if not self.mechanism:
            return replace(stated_claim(request.epsilon, request.delta), unit=self.unit)
        claim = accounted_claim(self.mechanism, request.epsilon, request.delta)
        accounted = claim.epsilon_at(request.delta)
        if accounted > ROUNDED * request.epsilon:
            raise GeneratorError(
                f"the stated mechanism has ε = {accounted:.3g} at δ = {request.delta:.2g}, more"
                f" than epsilon = {request.epsilon:g}",
                "generator.mechanism",
                f"set generator.epsilon to {accounted:.3g}, or correct the mechanism",
            )
        return replace(claim, unit=self.unit)

    def identity(self) -> dict[str, Any]:
        """Leave the unit out for records, so that the keys of such releases stay the same."""
        settings = super().identity()
        if settings.get("unit") == "record":
            del settings["unit"]
        if not self.mechanism:
            del settings["mechanism"]
        return settings

    @property
    def stated(self) -> dict[str, Any]:
        """What its maker states of a release: part of its key."""
        stated: dict[str, Any] = {"private": self.private}
        if self.unit != "record":
            stated["unit"] = self.unit
        if self.mechanism:
            stated["mechanism"] = [event.model_dump() for event in self.mechanism]
        return stated


def accounted_claim(mechanism: Sequence[StatedEvent], epsilon: float, delta: float) -> Claim:
    """Return the claim of a stated mechanism: taken at its word, and accounted here."""
    events = tuple(one.event for one in mechanism)
    accountant = "stated by the program, accounted here by dp-accounting PLD"
    return Claim(epsilon, delta, events, accountant=accountant)


generators: PluginRegistry[Generator] = PluginRegistry("generator", "synthleak.releases.generators")
