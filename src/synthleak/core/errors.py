"""The errors that synthleak raises.

    SynthleakError
    ├── UserError            something the user can correct: one line, exit code 2
    │   ├── SpecError        a key of the spec
    │   │   ├── PoolError    a rule that selects nothing, or too much
    │   │   └── PlanError    a game that cannot be played with these pools
    │   ├── CorpusError      a file of records, with its line
    │   ├── GeneratorError   a generator that cannot do what was asked
    │   ├── MissingExtra     an optional package that is not installed
    │   └── StoreError       a run folder that cannot be read or written
    │       └── Damaged      an artefact that is not what was written
    └── ContractError        a plug-in that breaks its contract: a bug of its author

A `UserError` says what happened, where (file, line, key) and what to do.
It never carries the text of a record.
"""

from __future__ import annotations

import importlib
import re
from typing import Any

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Line ends, and what could command a terminal or turn the direction of what it shows."""


def one_line(text: str) -> str:
    """Write a message without line ends, control characters and what no terminal can show.

    >>> one_line("no file a\\nb\\x1b[2J\\udcff")
    'no file a b [2J?'
    """
    return _CONTROL.sub(" ", text).encode(errors="replace").decode()


class SynthleakError(Exception):
    """The root: everything that synthleak raises on purpose."""


class UserError(SynthleakError):
    """A mistake the user can correct, said in one line.

    Args:
        what: what happened.
        where: the file, line or key.
        remedy: what to do.

    >>> str(UserError("epsilon = -1", where="audit.toml, line 4", remedy="use a number above 0"))
    'audit.toml, line 4: epsilon = -1; use a number above 0'
    """

    def __init__(self, what: str, where: str | None = None, remedy: str | None = None) -> None:
        super().__init__(what, where, remedy)
        self.what = what
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        origin = f"{self.where}: " if self.where else ""
        advice = f"; {self.remedy}" if self.remedy else ""
        return one_line(f"{origin}{self.what}{advice}")


class SpecError(UserError):
    """A key of the spec is unknown, missing, or has a value that cannot be used."""


class CorpusError(UserError):
    """A file of records cannot be read as a corpus."""


class PoolError(SpecError):
    """A pool rule selects nothing, or a pool leaves too little for the game."""


class PlanError(SpecError):
    """The game cannot be played with these pools and sizes."""


class GeneratorError(UserError):
    """A generator cannot do what was asked of it."""


class MissingExtra(UserError):  # noqa: N818 - reads as what it is
    """An optional package is needed and not installed."""


def import_extra(module: str, *, extra: str, by: str) -> Any:
    """Import an optional package where it is used; if it is missing, name the pip command.

    >>> import_extra("no_such", extra="xlsx", by="it")
    Traceback (most recent call last):
    ...
    synthleak.core.errors.MissingExtra: it needs the package no_such; pip install 'synthleak[xlsx]'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"{by} needs the package {error.name or module}",
            remedy=f"pip install 'synthleak[{extra}]'",
        ) from None


class StoreError(UserError):
    """A run folder cannot be read or written, or belongs to another spec."""


class Damaged(StoreError):  # noqa: N818 - reads as what it is
    """An artefact of a store is not what was written there, or is gone."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"{name} is damaged or missing", "store", "run the audit again: it is made again"
        )
        self.name = name

    def __reduce__(self) -> tuple[type[Damaged], tuple[str]]:
        return Damaged, (self.name,)


class ContractError(SynthleakError):
    """A plug-in broke the contract of its kind."""
