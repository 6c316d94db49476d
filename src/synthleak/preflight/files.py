"""Files of a data owner: rows read as they are, and folders written whole or not at all."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from synthleak.core.errors import CorpusError, StoreError, UserError
from synthleak.core.limits import within_limits
from synthleak.core.registry import Plugin
from synthleak.core.validation import spec_error
from synthleak.core.whole_files import cannot_write, whole_folder, write_whole
from synthleak.corpus.corpus import Record
from synthleak.corpus.rows import Numbered
from synthleak.corpus.sources import Fields, numbered_rows

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True)
class Source:
    """A file of the data owner: its rows as they are, and as records."""

    rows: Sequence[Mapping[str, Any]]
    records: Sequence[Record]

    def part(self, places: Sequence[int]) -> Source:
        """Return some of the rows."""
        return Source([self.rows[n] for n in places], [self.records[n] for n in places])


def read_source(path: Path, named: Mapping[str, str], option: str) -> Source:
    """Read the rows of a file; texts that stand there twice stay, since they are trained on."""
    for field in named.values():
        if [*named.values()].count(field) > 1:
            *most, last = named
            raise UserError(f"two of {', '.join(most)} and {last} are the field {field!r}", option)
    fields = built(Fields, {**named, "path": path})
    rows: list[dict[str, Any]] = []

    def noted() -> Iterator[Numbered]:
        for number, where, row in numbered_rows(path, text=fields.text, key=option):
            rows.append(dict(row))
            yield number, where, row

    try:
        return Source(rows, list(within_limits(fields.records(noted()), option, str(path))))
    except CorpusError as error:
        remedy = error.remedy and error.remedy.replace("set corpus.", "set --")
        raise CorpusError(error.what, error.where, remedy) from None


def built(kind: type[P], settings: Mapping[str, Any]) -> P:
    """Return a plug-in with its settings, or say in one line what is wrong with them."""
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        raise spec_error(error, (), kind.model_fields) from None


def json_lines(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Return rows as JSON Lines."""
    return "".join(json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in rows).encode(
        errors="backslashreplace"
    )


def write_folder(folder: Path, files: Mapping[str, bytes], why: str) -> None:
    """Write a folder that does not exist yet: whole, for the owner's eyes only, or not at all.

    `why` says why files that are there must not be overwritten.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise StoreError(
            "the folder is not empty",
            str(folder),
            f"choose another: {why}",
        )
    try:
        with whole_folder(folder) as aside:
            for name, content in files.items():
                write_whole(aside / name, content)
    except OSError as error:
        raise cannot_write(folder, error) from None
