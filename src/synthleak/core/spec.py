"""The spec: what is audited, frozen and checked. TOML in, errors with key, value and remedy."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from synthleak.core.errors import SpecError, UserError
from synthleak.core.limits import RECORD
from synthleak.core.reading import Boundary, check_file
from synthleak.core.spec_lines import point
from synthleak.core.spec_sections import (
    AnalysesSection,
    CorpusSection,
    EncodersSection,
    EvidenceSection,
    GameSection,
    GeneratorSection,
    PoolSection,
    PriorSection,
    RuntimeSection,
)
from synthleak.core.validation import Frozen, check_nesting, spec_error


class Spec(Frozen):
    """A whole audit. The same spec and seed give the same tables on every machine."""

    seed: int = Field(default=0, ge=0, description="decides every draw")
    plugins: Annotated[tuple[str, ...], Field(description="Python files, docs/plugins.md")] = ()
    corpus: CorpusSection
    encoders: EncodersSection = EncodersSection()
    pool: Annotated[tuple[PoolSection, ...], Field(min_length=1)]
    game: GameSection = GameSection()
    generator: Annotated[tuple[GeneratorSection, ...], Field(min_length=1)]
    evidence: EvidenceSection = EvidenceSection()
    prior: tuple[PriorSection, ...] = (PriorSection(kind="canary"), PriorSection(kind="domias"))
    analyses: AnalysesSection = AnalysesSection()
    runtime: RuntimeSection = RuntimeSection()

    @model_validator(mode="after")
    def _unique(self) -> Spec:
        for title, names in (
            ("pool", [pool.name for pool in self.pool]),
            ("generator", [generator.name for generator in self.generator]),
        ):
            for position, name in enumerate(names):
                if name in names[:position]:
                    raise SpecError(
                        f"{name!r} is already used",
                        f"{title}[{position}].name",
                        "choose another name",
                    )
        return self

    @field_validator("prior")
    @classmethod
    def _each_attack_once(cls, value: tuple[PriorSection, ...]) -> tuple[PriorSection, ...]:
        if len({attack.kind for attack in value}) < len(value):
            raise ValueError("name each attack once")
        return value


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
    """Read a spec from a TOML file."""
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
    """Check a spec given as a mapping, as read from TOML or written in Python."""
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
