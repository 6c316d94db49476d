"""Cells of delimited text files, for the readers of CSV and its kin."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from synthleak.core.errors import CorpusError
from synthleak.core.limits import RECORD
from synthleak.core.reading import Boundary
from synthleak.core.unit import counted
from synthleak.corpus.files import open_lines

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
