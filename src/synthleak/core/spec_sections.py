"""The sections of a spec: their keys, defaults and limits.

The settings of a plug-in are checked by the plug-in itself (`PluginRegistry.build`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from synthleak.core.errors import SpecError
from synthleak.core.unit import Unit
from synthleak.core.validation import NAME, Frozen, listed

Adjacency = Literal["replace", "add"]


def _budget(value: float) -> float:
    if math.isnan(value) or value <= 0:
        raise ValueError('use a number above 0, or "inf" for no privacy')
    return value


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError("use letters, digits, '.', '_', '+' and '-', with no space")
    return value


def _rising(numbers: tuple[int, ...]) -> bool:
    return all(one < other for one, other in pairwise(numbers))


MOST_LOOKS = 10
"""Looks at most: each more leaves less of the level for all others."""

Epsilon = Annotated[float, AfterValidator(_budget)]
Name = Annotated[str, AfterValidator(_name)]


class PluginSection(Frozen):
    """A section whose other keys belong to the plug-in that it names."""

    model_config = ConfigDict(extra="allow")

    @property
    def settings(self) -> dict[str, Any]:
        """The keys that belong to the plug-in."""
        return dict(self.model_extra or {})


class CorpusSection(PluginSection):
    """`[corpus]`: which records, read by which reader."""

    reader: str = Field(description="who reads the records: synthleak list readers")
    name: Name | None = Field(default=None, description="its name in the tables; the file's name")
    description: str = Field(default="", description="one line on what the records are")


class _KindOrTable(PluginSection):
    """A plug-in by its kind alone, or a table with its kind and settings."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value


class EncoderSection(_KindOrTable):
    """An encoder: its kind, or a table with its kind and settings."""

    kind: str = "static"


class EncodersSection(Frozen):
    """`[encoders]`: who turns text into vectors, for pools and for evidence (docs/method.md §2)."""

    pools: EncoderSection = Field(default=EncoderSection(), description="to find outliers")
    evidence: EncoderSection = Field(default=EncoderSection(), description="to score releases")


class PoolSection(PluginSection):
    """`[[pool]]`: a named set of targets and the rule that selects it (docs/method.md §3).

    An `optional` pool whose rule selects nobody is left out instead of being an error.
    """

    name: Name = Field(description="its name in the tables")
    rule: str = Field(description="who is selected: synthleak list pools")
    optional: bool = Field(default=False, description="left out where its rule selects nobody")


class GameSection(Frozen):
    """`[game]`: how the membership game is played (docs/method.md §4)."""

    design: str = Field(default="lone", description="lone: one target at a time; cohort: all")
    instances: int = Field(default=100, ge=1, description="private sets, and releases, per pool")
    records: int | Literal["auto"] = Field(
        default="auto", description="N; auto: 500, or 200 with fewer than 600 candidates"
    )
    release_size: int | Literal["auto"] = Field(
        default="auto", description="synthetic records per release; auto: N"
    )
    adjacency: Adjacency = Field(
        default="replace", description="a missing target is replaced, or only left out (add)"
    )
    candidates: int = Field(default=20, ge=1, description="lone: non-members per instance")
    rounds: int = Field(default=50, ge=1, description="lone: draws of non-members")
    references: int = Field(default=4, ge=2, description="sets that calibrate S2 and S3; even")
    auxiliary: float = Field(
        default=0.5, gt=0, lt=1, description="share of the other records that an attacker knows"
    )
    unit: Unit = Field(default="record", description="what a target is")
    max_records: int = Field(default=10, ge=1, description="of a person, at most")
    share_releases: bool = Field(
        default=False, description="cohort: all pools share one set of releases"
    )
    looks: tuple[Annotated[int, Field(ge=2)], ...] = Field(
        default=(),
        max_length=MOST_LOOKS,
        description="instances at which results are looked at; the last is `instances`",
    )

    @property
    def number_of_looks(self) -> int:
        """How often results are looked at: every level is divided by it (docs/method.md §8.12)."""
        return max(1, len(self.looks))

    @property
    def blocks(self) -> tuple[int, ...]:
        """The instances between one look and the next; coins are tossed block by block.

        >>> GameSection(instances=50, looks=(10, 24)).blocks, GameSection(instances=8).blocks
        ((10, 14, 26), (8,))
        """
        ends = [*(look for look in self.looks if look < self.instances), self.instances]
        return tuple(end - start for start, end in pairwise([0, *ends]))

    @property
    def persons(self) -> bool:
        """Whether targets are persons with all their records (docs/method.md §15)."""
        return self.unit == "person"

    @model_validator(mode="after")
    def _of_persons(self) -> GameSection:
        if "max_records" in self.model_fields_set and not self.persons:
            raise SpecError(
                "max_records bounds the records of a person, and unit is 'record'",
                "game.max_records",
                'set game.unit = "person", or remove it',
            )
        return self

    @model_validator(mode="before")
    @classmethod
    def _with_last_look(cls, value: Any) -> Any:
        """Add `instances` to the looks; a single look is what every audit has."""
        if not isinstance(value, Mapping) or not isinstance(value.get("looks"), list | tuple):
            return value
        last = value.get("instances", cls.model_fields["instances"].default)
        looks = [*value["looks"], *[last] * (last not in value["looks"])]
        return {**value, "looks": looks if len(looks) > 1 else ()}

    @model_validator(mode="after")
    def _of_looks(self) -> GameSection:
        if self.looks and (self.looks[-1] != self.instances or not _rising(self.looks)):
            above = [look for look in self.looks if look > self.instances]
            raise SpecError(
                f"a look at {above[0]} instances, and there are {self.instances}"
                if above
                else "looks do not rise",
                "game.looks",
                f"name rising numbers up to instances = {self.instances}",
            )
        return self

    @model_serializer(mode="wrap")
    def _as_written(self, content: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is newer and not used, so that the keys of other audits stay the same."""
        found: dict[str, Any] = content(self)
        if not self.persons:
            del found["unit"], found["max_records"]
        if not self.share_releases:
            del found["share_releases"]
        found["looks"] = list(self.looks)
        if not self.looks:
            del found["looks"]
        return found

    @field_validator("records", "release_size")
    @classmethod
    def _positive(cls, value: int | str) -> int | str:
        if isinstance(value, int) and value < 2:
            raise ValueError('use a whole number from 2, or "auto"')
        return value

    @field_validator("references")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("use an even number: half are with the target, half without")
        return value


class GeneratorSection(PluginSection):
    """`[[generator]]`: a generator and the privacy budgets it is audited at (docs/method.md §5)."""

    kind: str = Field(description="what makes the releases: synthleak list generators")
    name: Name = Field(default="", description="its name in the tables; its kind")
    epsilon: Annotated[tuple[Epsilon, ...], BeforeValidator(listed)] = Field(
        default=(math.inf,), min_length=1, description="privacy budgets; inf: no privacy"
    )
    delta: Annotated[float, Field(gt=0, lt=1)] | Literal["auto"] = Field(
        default="auto", description="auto: the generator's own, mostly 1/N²"
    )
    label_prior: Literal["public", "private"] = Field(
        default="public", description="class sizes from R, or from the private set (no claim)"
    )

    @model_validator(mode="before")
    @classmethod
    def _named_after_kind(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "name" not in value and "kind" in value:
            return {**value, "name": value["kind"]}
        return value

    @field_validator("epsilon")
    @classmethod
    def _once_each(cls, value: tuple[float, ...]) -> tuple[float, ...]:
        if len(set(value)) < len(value):
            raise ValueError("name each budget once")
        return value


class ModelSection(_KindOrTable):
    """A family that fits a model: its kind, or a table with its kind and settings."""

    kind: str


class EvidenceSection(Frozen):
    """`[evidence]`: which proxy families look at the releases (docs/method.md §6, §14)."""

    families: Literal["all"] | tuple[str, ...] = Field(
        default="all", description="synthleak list proxies"
    )
    also: Annotated[tuple[ModelSection, ...], BeforeValidator(listed)] = Field(
        default=(), description="families that fit a model: synthleak list models"
    )

    @field_validator("also")
    @classmethod
    def _each_once(cls, value: tuple[ModelSection, ...]) -> tuple[ModelSection, ...]:
        if len({section.kind for section in value}) < len(value):
            raise ValueError("name each family once")
        return value

    @field_validator("families")
    @classmethod
    def _some(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not value:
            raise ValueError('name one family at least, or "all"')
        return value


class AnalysesSection(Frozen):
    """`[analyses]`: which analyses that take long run with the audit, and how far the verdict's
    redraws go (docs/method.md §8, §10).
    """

    also: Annotated[tuple[str, ...], BeforeValidator(listed)] = Field(
        default=(), description='analyses that take minutes, such as "meta"'
    )
    redraws: Annotated[int, Field(ge=0, le=1_000_000)] | Literal["auto"] = Field(
        default="auto", description="redraws where 2,000 reach their floor; auto: up to 100,000"
    )

    @model_serializer(mode="wrap")
    def _as_written(self, content: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out what is newer and not used, so that the keys of other audits stay the same."""
        found: dict[str, Any] = content(self)
        if self.redraws == "auto":
            del found["redraws"]
        return found


ENGINES = ("local", "ray")


class RuntimeSection(Frozen):
    """`[runtime]`: where and how fast the audit runs. It enters no key and changes no result."""

    engine: Literal["local", "ray"] = "local"
    address: str | None = None
    workers: int | None = Field(default=None, ge=1)


class PriorSection(PluginSection):
    """`[[prior]]`: an earlier attack to compare with (docs/method.md §9); `prior = []` for none."""

    kind: str = Field(description="synthleak list priors")
