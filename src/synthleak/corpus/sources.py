"""Records from files of any kind, or from what a Python session holds in memory.

What somebody audits without a generator lies around in the form it happens to have: JSON Lines,
tables, data frames. A frame is read by what it offers, so that no frame library is imported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.core.errors import CorpusError, UserError
from synthleak.corpus.arrow import arrow_rows, parquet_rows
from synthleak.corpus.corpus import Record
from synthleak.corpus.files import check_regular, delimited_rows, open_lines
from synthleak.corpus.readers.jsonl import json_rows
from synthleak.corpus.rows import FieldReader, Numbered

MEMORY = "(from memory)"
"""What a run folder's spec says of records that no file holds."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Rows:
    """Rows that a Python session handed over: a text, or a mapping of fields, each."""

    rows: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __repr__(self) -> str:
        return MEMORY


class Fields(FieldReader):
    """Which field of a row is what; it reads no file itself."""

    path: Path = Path(MEMORY)

    def read(self) -> Iterator[Record]:
        """Yield nothing: rows come from elsewhere."""
        return iter(())


def rows_in(data: Any, name: str) -> Rows:
    """Return the rows of a list, a data frame or a column of one (pandas, polars, datasets, Arrow).

    >>> rows_in(["a", {"text": "b"}], "members").rows
    ('a', {'text': 'b'})
    """
    if isinstance(data, Rows):
        return data
    if hasattr(data, "to_dicts"):  # a polars frame
        return Rows(tuple(data.to_dicts()))
    if hasattr(data, "to_pylist"):  # an Arrow table or column
        return Rows(tuple(data.to_pylist()))
    if hasattr(data, "columns") and hasattr(data, "to_dict"):  # a pandas frame
        return Rows(tuple(data.to_dict("records")))
    if hasattr(data, "to_list"):  # a pandas or polars column
        return Rows(tuple(data.to_list()))
    if isinstance(data, Mapping) and any(_is_part(part) for part in data.values()):
        parts = ", ".join(map(str, data))
        raise UserError(
            f"a {type(data).__name__} holds several parts ({parts})",
            name,
            f"give one of them, such as data[{next(iter(data))!r}]",
        )
    if isinstance(data, Mapping | bytes) or not isinstance(data, Iterable):
        raise UserError(
            f"a {type(data).__name__} holds no records",
            name,
            "give a path, a list of texts or of dicts, a data frame or a column of one",
        )
    return Rows(tuple(data))


def _is_part(part: Any) -> bool:
    """Say whether a value of a mapping could be data by itself."""
    return isinstance(part, Iterable) and not isinstance(part, str | bytes)


def source_of(data: Any, name: str) -> Path | Rows:
    """Return a file as its path, and anything else as rows."""
    return Path(data) if isinstance(data, str | Path) else rows_in(data, name)


def part_of(data: Any, positions: Sequence[int]) -> Any:
    """Return some records of a list, a data frame or a column, as the same kind of thing.

    >>> part_of(["a", "b", "c"], [0, 2])
    ['a', 'c']
    """
    if hasattr(data, "iloc"):  # pandas
        return data.iloc[list(positions)]
    if hasattr(data, "to_dicts") or hasattr(data, "to_frame"):  # a polars frame or column
        return data[list(positions)]
    if hasattr(data, "select") and hasattr(data, "features"):  # a dataset of `datasets`
        return data.select(list(positions))
    if hasattr(data, "to_pylist") or isinstance(data, np.ndarray):  # an Arrow table or column
        return data.take(np.array(positions, dtype=np.int64))  # it takes no empty list
    rows = rows_in(data, "data").rows
    return [rows[n] for n in positions]


def numbered_rows(
    source: Path | Rows, *, text: str, encoding: str = "utf-8", key: str
) -> Iterator[Numbered]:
    """Yield the rows of a source; `key` is what named it, `text` the field of a bare text."""
    if isinstance(source, Rows):
        for number, row in enumerate(source.rows, start=1):
            yield number, f"{key}, record {number}", _as_row(row, text, f"{key}, record {number}")
        return
    if source.name == MEMORY:
        raise CorpusError(
            "these records came from memory",
            key,
            "call synthleak.check again with the same records and folder",
        )
    check_regular(source, key)
    if not source.exists():
        raise CorpusError("no such file", str(source), f"check {key}")
    for number, row in _file_rows(source, text, encoding, key):
        yield number, f"{source}, line {number}", row


def _as_row(row: Any, text: str, where: str) -> Row:
    if isinstance(row, str):
        return {text: row}
    if isinstance(row, Mapping):
        return row
    raise CorpusError(f"a record is a text or a dict of fields, found {type(row).__name__}", where)


def _file_rows(path: Path, text: str, encoding: str, key: str) -> Iterator[tuple[int, Row]]:
    kind = Path(path.name.removesuffix(".gz")).suffix.lower()
    if path.is_dir():
        yield from enumerate(_folder_rows(path), start=1)
    elif kind in (".jsonl", ".ndjson", ".json"):
        yield from json_rows(path, encoding=encoding, key=key)
    elif kind == ".csv":
        yield from delimited_rows(path, encoding=encoding, key=key)
    elif kind in (".tsv", ".tab"):
        yield from delimited_rows(path, delimiter="\t", quote="", encoding=encoding, key=key)
    elif kind == ".parquet":
        yield from enumerate(parquet_rows(path), start=1)
    elif kind == ".arrow":
        yield from enumerate(arrow_rows(path), start=1)
    elif kind == ".txt":
        for number, line in open_lines(path, encoding=encoding, key=key):
            if line.strip():
                yield number, {text: line.rstrip("\n")}
    else:
        raise CorpusError(
            f"unknown file type {kind}" if kind else "a file without an ending: unknown file type",
            str(path),
            "use .jsonl, .csv, .tsv or .txt (a text a line), plain or .gz; .parquet or .arrow",
        )


def _folder_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of a folder of Arrow files (as `datasets` saves) or of Parquet files."""
    for ending, rows in (("arrow", arrow_rows), ("parquet", parquet_rows)):
        if files := sorted(path.glob(f"*.{ending}")):
            for file in files:
                yield from rows(file)
            return
    parts = sorted(one.name for one in path.iterdir() if any(one.glob("*.arrow")))
    if parts:  # a saved DatasetDict
        raise CorpusError(
            f"the folder holds several parts: {', '.join(parts)}",
            str(path),
            f"name one of them, such as {path / parts[0]}",
        )
    raise CorpusError("the folder holds no .arrow and no .parquet file", str(path))
