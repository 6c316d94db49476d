"""Text files: plain, gzipped or delimited, in any encoding, with errors that name the line."""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Annotated, Any

from pydantic import AfterValidator

from synthleak.core.cell import counted
from synthleak.core.errors import CorpusError
from synthleak.core.reading import (
    FILE,
    LINES_PER_RECORD,
    RECORD,
    RECORDS,
    Boundary,
    check_file,
    is_deep,
)


def _known_encoding(name: str) -> str:
    try:
        # Some codecs turn bytes into bytes; others are for domain names or for nothing at all.
        if b"a\n".decode(name) and "a\n".encode(name):
            return codecs.lookup(name).name
    except (LookupError, ValueError):
        pass
    raise ValueError("no such text encoding; utf-8, latin-1 and cp1252 are common")


Encoding = Annotated[str, AfterValidator(_known_encoding)]
"""The name of a text encoding, as the spec may give it."""


def open_lines(
    path: Path, *, encoding: str = "utf-8", newline: str | None = None, key: str = "corpus.path"
) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) of a text file, plain or gzipped; `key` is what named the file.

    A line is read no farther than the limit on a record, a packed file no farther than that on a
    file: a small file may unpack to any size.
    """
    check_regular(path, key)
    number = size = 0
    longest, largest = RECORD.value, FILE.value
    most = LINES_PER_RECORD * (RECORDS.value + 1)
    # Spreadsheets put a byte-order mark before UTF-8; it is not part of the first column's name.
    codec = "utf-8-sig" if encoding == "utf-8" else encoding

    def unreadable(error: Exception) -> CorpusError:
        if isinstance(error, UnicodeError):
            other = ", or set corpus.encoding (latin-1, cp1252, ...)" * (key == "corpus.path")
            place = _undecodable_line(path, codec, number)
            return CorpusError(
                f"not valid {encoding.upper()}",
                f"{path}, {place}",
                f"save the file as UTF-8{other}",
            )
        if isinstance(error, EOFError | zlib.error | gzip.BadGzipFile):
            return CorpusError(
                "the gzip file is broken", f"{path}, after line {number}", "fetch or pack it again"
            )
        return cannot_open(path, error, key)

    with Boundary(unreadable), _open(path, codec, newline) as file:
        while line := file.readline(longest + 1):
            number, size = number + 1, size + len(line)
            if len(line) > longest:
                RECORD.check(len(line), "the line", f"{path}, line {number}")
            if size > largest:
                FILE.check(size, "the unpacked file", str(path))
            if number > most:
                RECORDS.check(number // LINES_PER_RECORD, "the number of lines", str(path))
            yield number, line


def _open(path: Path, codec: str, newline: str | None) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding=codec, newline=newline)
    return path.open(encoding=codec, newline=newline)


def _undecodable_line(path: Path, codec: str, read: int) -> str:
    """Say which line to correct: text is decoded in blocks, and an error names only the block."""
    if "\n".encode(codec)[-1:] != b"\n":  # a line does not end at a byte
        return f"after line {read}"
    number = 0
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
            while line := file.readline(RECORD.value):
                number += 1
                line.decode(codec)
    except UnicodeError:
        pass
    except (OSError, EOFError, zlib.error):  # the file is broken too, farther on
        return f"after line {read}"
    return f"line {number}"


def check_regular(path: Path, key: str = "corpus.path") -> None:
    """Refuse what cannot be read as a file: pipes, devices, files beyond the limit."""
    check_file(path, FILE, CorpusError, f"check {key}")


def cannot_open(path: Path, error: Exception, key: str = "corpus.path") -> CorpusError:
    if isinstance(error, FileNotFoundError):
        return CorpusError("no such file", str(path), f"check {key}")
    if isinstance(error, IsADirectoryError):
        return CorpusError("a folder, not a file", str(path), f"check {key}")
    why = error.strerror if isinstance(error, OSError) else type(error).__name__
    return CorpusError(f"cannot be read ({why})", str(path), f"check {key}")


def read_json(path: Path, key: str = "corpus.path") -> dict[str, Any]:

    def unreadable(error: Exception) -> CorpusError:
        if isinstance(error, OSError):
            return cannot_open(path, error, key)
        return CorpusError("not a JSON object in UTF-8", str(path), "write or fetch it again")

    check_regular(path, key)
    with Boundary(unreadable):
        content = json.loads(path.read_text(encoding="utf-8"))
        json.dumps(content, ensure_ascii=False).encode()  # JSON can spell half of a pair
    if not isinstance(content, dict) or is_deep(content):
        raise unreadable(TypeError())
    return content


MOST_COLUMNS = 10_000


def delimited_rows(
    path: Path,
    *,
    delimiter: str = ",",
    quote: str = '"',
    encoding: str = "utf-8",
    columns: tuple[str, ...] | None = None,
    key: str = "corpus.path",
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield (line number, row) of a file with a header, or without one where `columns` names them.

    Empty lines are passed over; a row of another length is refused.
    """
    row_size = 0

    def lines() -> Iterator[str]:
        nonlocal row_size
        for number, line in open_lines(path, encoding=encoding, newline="", key=key):
            row_size += len(line)  # a quoted cell goes on over lines
            RECORD.check(row_size, "the row", f"{path}, line {number}")
            yield line

    def invalid(error: Exception) -> CorpusError:
        said = f" ({error})" if isinstance(error, csv.Error) else ""
        return CorpusError(
            f"not valid CSV{said}", f"{path}, line {rows.line_num}", "check its quotation marks"
        )

    style: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    rows = csv.reader(lines(), delimiter=delimiter, strict=True, **style)
    # Python's own limit on a cell is 131,072 characters, less than some discharge summaries.
    before = csv.field_size_limit(RECORD.value)
    try:
        parsed = Boundary(invalid).each(rows)
        header = list(columns) if columns else next(parsed, [])
        _check_header(header, path)
        for row in parsed:
            row_size = 0
            if row:
                yield rows.line_num, _row(header, row, f"{path}, line {rows.line_num}")
    finally:
        csv.field_size_limit(before)


def _check_header(header: list[str], path: Path) -> None:
    if len(header) > MOST_COLUMNS:
        raise CorpusError(f"{len(header):,} columns", f"{path}, line 1", "is there a header?")
    for position, name in enumerate(header):
        if name in header[:position]:
            raise CorpusError(
                f"columns {header.index(name) + 1} and {position + 1} have the same name",
                f"{path}, line 1",
                "rename one of them; if the file has no header, name its columns (corpus.columns)",
            )


def _row(header: list[str], row: list[str], where: str) -> dict[str, str]:
    if len(row) != len(header):
        raise CorpusError(
            f"{counted(len(row), 'cell')} where the header has {len(header)}",
            where,
            "quote cells that hold the delimiter",
        )
    return dict(zip(header, row, strict=True))
