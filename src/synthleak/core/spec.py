"""The spec: what is audited, frozen and checked. TOML in, errors with line, key and remedy.

Sections hold keys, defaults and limits. The settings of a plug-in are checked by the plug-in itself
(`PluginRegistry.build`).
"""

from __future__ import annotations

import contextlib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tomli_w
from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    field_validator,
    model_serializer,
    model_validator,
)

from synthleak.core.cell import Unit
from synthleak.core.engine.engine import engines
from synthleak.core.errors import SpecError, UserError
from synthleak.core.reading import RECORD, Boundary, check_file
from synthleak.core.validation import NAME, Frozen, check_nesting, listed, spec_error

Adjacency = Literal["replace", "add"]


def _budget(value: float) -> float:
    if math.isnan(value) or value <= 0:
        raise ValueError('use a number above 0, or "inf" for no privacy')
    return value


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        raise ValueError("use letters, digits, '.', '_', '+' and '-', with no space")
    return value


def _rising(numbers: tuple[float, ...]) -> bool:
    return all(one < other for one, other in pairwise(numbers))


MOST_SIZES = 10
"""Sizes of a release that one audit may look at."""


def _sizes(value: Any) -> Any:
    """Read one size of a release, or several; one alone is no list, so keys stay the same."""
    if value == "auto":
        return value
    sizes: tuple[Any, ...] = tuple(value) if isinstance(value, list | tuple) else (value,)
    whole = all(type(size) is int and size >= 2 for size in sizes)
    shares = all(type(size) is float and 0 < size <= 1 for size in sizes) and sizes[-1:] == (1.0,)
    if not (whole or shares) or not 0 < len(sizes) <= MOST_SIZES:
        raise ValueError(
            f'use a whole number from 2, up to {MOST_SIZES} rising ones, "auto",'
            " or shares of a release that end with 1.0"
        )
    if not _rising(sizes):
        raise ValueError("name rising sizes, such as [500, 2000, 8000]")
    if sizes == (1.0,):
        return "auto"
    return sizes[0] if len(sizes) == 1 else sizes


ReleaseSize = Annotated[
    int | tuple[int, ...] | tuple[float, ...] | Literal["auto"], BeforeValidator(_sizes)
]
"""One size of a release, several that rise, or rising shares of a release."""


def _distinct(what: str) -> AfterValidator:
    """Refuse a list that names something twice: a value, or a plug-in by its kind."""

    def check(values: tuple[Any, ...]) -> tuple[Any, ...]:
        if len({getattr(value, "kind", value) for value in values}) < len(values):
            raise ValueError(f"name each {what} once")
        return values

    return AfterValidator(check)


MOST_LOOKS = 10
"""Looks at most: each more leaves less of the level for all others."""

Epsilon = Annotated[float, AfterValidator(_budget)]
Name = Annotated[str, AfterValidator(_name)]


class PluginSection(Frozen):
    """A section whose other keys belong to the plug-in that it names."""

    model_config = ConfigDict(extra="allow")

    @property
    def settings(self) -> dict[str, Any]:
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
    release_size: ReleaseSize = Field(
        default="auto",
        description="synthetic records per release, or several sizes to look at; auto: N",
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
    def largest_size(self) -> int | Literal["auto"]:
        """The size in which releases are made.

        >>> GameSection(release_size=[500, 2000]).largest_size, GameSection().largest_size
        (2000, 'auto')
        """
        if not isinstance(self.release_size, tuple):
            return self.release_size
        largest = self.release_size[-1]
        return largest if isinstance(largest, int) else "auto"

    @property
    def smaller_sizes(self) -> tuple[float, ...]:
        """The smaller sizes that are looked at too, the largest first (docs/method.md §4.7).

        Numbers of texts, or shares of a release.

        >>> GameSection(release_size=[500, 2000, 8000]).smaller_sizes
        (2000, 500)
        >>> GameSection(release_size=[0.25, 1.0]).smaller_sizes
        (0.25,)
        """
        return self.release_size[-2::-1] if isinstance(self.release_size, tuple) else ()

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
        keys: dict[str, Any] = content(self)
        if not self.persons:
            del keys["unit"], keys["max_records"]
        if not self.share_releases:
            del keys["share_releases"]
        if isinstance(self.release_size, tuple):
            keys["release_size"] = list(self.release_size)
        keys["looks"] = list(self.looks)
        if not self.looks:
            del keys["looks"]
        return keys

    @field_validator("records")
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
    epsilon: Annotated[tuple[Epsilon, ...], BeforeValidator(listed), _distinct("budget")] = Field(
        default=(math.inf,), min_length=1, description="privacy budgets; inf: no privacy"
    )
    delta: Annotated[float, Field(gt=0, lt=1)] | Literal["auto"] = Field(
        default="auto", description="auto: the generator's own, mostly 1/N²"
    )
    label_prior: Literal["public", "private"] = Field(
        default="public",
        description="class sizes of auxiliary records, or of private ones (no claim)",
    )

    @model_validator(mode="before")
    @classmethod
    def _named_after_kind(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and "name" not in value and "kind" in value:
            return {**value, "name": value["kind"]}
        return value


class ModelSection(_KindOrTable):
    """An opt-in family: its kind, or a table with its kind and settings."""

    kind: str


class EvidenceSection(Frozen):
    """`[evidence]`: who looks at the releases, and at models (docs/method.md §6, §14, §16, §17)."""

    families: Literal["all"] | tuple[str, ...] = Field(
        default="all", description="synthleak list proxies"
    )
    also: Annotated[tuple[ModelSection, ...], BeforeValidator(listed), _distinct("family")] = Field(
        default=(), description="opt-in families: synthleak list models"
    )
    model: bool = Field(
        default=False, description="what an attacker who has the generator's model gains"
    )

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
        keys: dict[str, Any] = content(self)
        if self.redraws == "auto":
            del keys["redraws"]
        return keys


class RuntimeSection(Frozen):
    """`[runtime]`: where and how fast the audit runs. It enters no key and changes no result."""

    engine: str = Field(default="local", description="synthleak list engines")
    address: str | None = None
    workers: int | None = Field(default=None, ge=1)

    @field_validator("engine")
    @classmethod
    def _known(cls, value: str) -> str:
        engines.get(value, "runtime.engine")
        return value


class PriorSection(PluginSection):
    """`[[prior]]`: an earlier attack to compare with (docs/method.md §9); `prior = []` for none."""

    kind: str = Field(description="synthleak list priors")


class Spec(Frozen):
    """A whole audit. The same spec and seed give the same tables on every machine.

    Attributes:
        seed: decides every draw.
        plugins: Python files with plug-ins.
        corpus: where the records come from.
        encoders: who turns texts into vectors, for pools and for evidence.
        pool: the pools, in their order.
        game: the design and its sizes.
        generator: the generators, each with its budgets.
        evidence: the proxy families.
        prior: the earlier attacks to compare with.
        analyses: the analyses that take long, and how many redraws.
        runtime: where and how fast it runs.
    """

    seed: int = Field(default=0, ge=0, description="decides every draw")
    plugins: Annotated[tuple[str, ...], Field(description="Python files, docs/plugins.md")] = ()
    corpus: CorpusSection
    encoders: EncodersSection = EncodersSection()
    pool: Annotated[tuple[PoolSection, ...], Field(min_length=1)]
    game: GameSection = GameSection()
    generator: Annotated[tuple[GeneratorSection, ...], Field(min_length=1)]
    evidence: EvidenceSection = EvidenceSection()
    prior: Annotated[tuple[PriorSection, ...], _distinct("attack")] = (
        PriorSection(kind="canary"),
        PriorSection(kind="domias"),
    )
    analyses: AnalysesSection = AnalysesSection()
    runtime: RuntimeSection = RuntimeSection()

    @model_validator(mode="after")
    def _unique(self) -> Spec:
        for title, sections in (("pool", self.pool), ("generator", self.generator)):
            names = [section.name for section in sections]
            for position, name in enumerate(names):
                if name in names[:position]:
                    where = f"{title}[{position}].name"
                    raise SpecError(f"{name!r} is already used", where, "choose another name")
        return self


class LoadedSpec:
    """A spec and the file it came from, so that a mistake can be pointed at."""

    def __init__(self, spec: Spec, path: Path | None = None, text: str = "") -> None:
        self.spec = spec
        self.path = path
        self._text = text

    @property
    def base(self) -> Path | None:
        """The folder that relative paths of the spec start from."""
        return self.path.parent.resolve() if self.path else None

    @contextlib.contextmanager
    def pointing(self) -> Iterator[None]:
        """Add file and line to every `SpecError` raised inside."""
        try:
            yield
        except SpecError as error:
            raise point(error, self.path, self._text) from None


def as_loaded(spec: Spec | LoadedSpec | Path | str) -> LoadedSpec:
    """Return a spec with the file it came from, if there is one; a path is read."""
    if isinstance(spec, LoadedSpec):
        return spec
    return LoadedSpec(spec) if isinstance(spec, Spec) else load_spec(spec)


def load_spec(path: Path | str) -> LoadedSpec:
    """Read a spec from a TOML file.

    Args:
        path: the file; relative paths in it start from its folder.

    Returns:
        The spec, with the file it came from: pass it to `synthleak.run`.

    Raises:
        UserError: if the file cannot be read.
        SpecError: if it is not a spec; names line, key and remedy.
    """
    path = Path(path)

    def unreadable(error: Exception) -> UserError:
        if isinstance(error, FileNotFoundError):
            return UserError("no such file", str(path), "write one with `synthleak init`")
        why = error.strerror if isinstance(error, OSError) else error
        return UserError(f"cannot be read ({why})", str(path))

    check_file(path, RECORD, UserError, "name a spec")
    with Boundary(unreadable):
        text = path.read_text(encoding="utf-8")
    content = parse_toml(text, str(path))
    try:
        return LoadedSpec(parse_spec(content), path, text)
    except SpecError as error:
        raise point(error, path, text) from None


def parse_toml(text: str, where: str) -> dict[str, Any]:
    """Read TOML; `where` it was found goes into the error."""
    with Boundary(lambda error: SpecError(f"not valid TOML: {_toml_fault(error)}", where)):
        return tomllib.loads(text)


def _toml_fault(error: Exception) -> str:
    if isinstance(error, tomllib.TOMLDecodeError):
        return str(error)
    return "nested too deeply, or a number with too many digits"


def parse_spec(content: Mapping[str, Any]) -> Spec:
    """Check a spec given as a mapping.

    Args:
        content: the sections, as read from TOML or written in Python.

    Returns:
        The spec, with every default filled in.

    Raises:
        SpecError: if a key is unknown, missing or has a value that cannot be used.
    """
    check_nesting(content)
    try:
        return Spec.model_validate(content)
    except ValidationError as error:
        raise spec_error(error, (), _fields_near(error)) from None


def _fields_near(error: ValidationError) -> list[str]:
    location = error.errors(include_url=False)[0]["loc"]
    known: Any = Spec
    for part in location[:-1]:
        if isinstance(part, str) and hasattr(known, "model_fields") and part in known.model_fields:
            annotation = known.model_fields[part].annotation
            known = annotation if hasattr(annotation, "model_fields") else known
    return list(known.model_fields)


def point(error: SpecError, path: Path | None, text: str) -> SpecError:
    """Return the error with the line of the file that sets its key."""
    if path is None or error.where is None or error.where.startswith(str(path)):
        return error
    line = _line_of(error.where, text)
    file = f"{path}, line {line}" if line else str(path)
    return type(error)(error.what, f"{file}, {error.where}", error.remedy)


def _line_of(key: str, text: str) -> int | None:
    """Find the line that sets `key` (such as ``generator[1].epsilon[0]``), or its table."""
    wanted = re.match(r"([\w-]+)(?:\[(\d+)\])?", key)
    if wanted is None:
        return None
    section, index = wanted[1], int(wanted[2] or 0)
    path = re.findall(r"\.([\w-]+)", key)
    nearest_line, depth, seen = None, -1, -1
    table: list[str] | None = []  # that a line is in, by its path; none if it is another section's
    for number, line in enumerate(text.splitlines(), start=1):
        title = re.match(r"\s*\[+\s*([\w.-]+)\s*\]+\s*(#.*)?$", line)
        setting = re.match(r"\s*([\w-]+)\s*=", line)
        if title:
            table = title[1].split(".")
            if table[0] == section and (len(table) == 1 or seen < 0):
                seen += 1
            if table[0] != section or seen != index:
                table = None
        if table is None or not (title or setting):
            continue
        keys = table if title or not setting else [*table, setting[1]]
        if keys == [section, *path][: len(keys)] and len(keys) > depth:
            nearest_line, depth = number, len(keys)
    return nearest_line


def dump_toml(content: Mapping[str, Any]) -> str:
    """Write plain values, paths, tables and lists; a key whose value is None is left out.

    >>> print(dump_toml({"seed": 1, "p": None, "game": {"a key": float("-inf")}}))
    seed = 1
    <BLANKLINE>
    [game]
    "a key" = -inf
    <BLANKLINE>
    """
    return tomli_w.dumps(_writable(content))


def _writable(value: Any) -> Any:
    """Leave out None, which TOML does not have, and write paths as strings."""
    if isinstance(value, Mapping):
        return {str(key): _writable(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [_writable(item) for item in value]
    return str(value) if isinstance(value, Path) else value
