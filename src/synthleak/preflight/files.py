"""Files of a data owner: rows read as they are, and folders written whole or not at all."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthleak.core.errors import StoreError
from synthleak.core.store import cannot_write, write_whole
from synthleak.corpus.corpus import Record
from synthleak.corpus.sources import Fields, numbered_rows


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
    fields = Fields(**named)
    rows, records = [], []
    for number, where, row in numbered_rows(path, text=fields.text, key=option):
        records.append(fields.record(row, number, where))
        rows.append(dict(row))
    return Source(rows, records)


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
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
        try:
            for name, content in files.items():
                write_whole(aside / name, content)
            aside.replace(folder)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise
    except OSError as error:
        raise cannot_write(folder, error) from None
