"""Cells of delimited text files, for the readers of CSV and its kin."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from synthleak.core.errors import CorpusError
from synthleak.corpus.files import open_lines

LONGEST_CELL = 2**30
"""Python's csv stops at 131,072 characters, less than a long discharge summary with its notes."""


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
    lines = (line for _, line in open_lines(path, encoding=encoding, newline="", key=key))
    style: dict[str, Any] = {"quotechar": quote} if quote else {"quoting": csv.QUOTE_NONE}
    rows = csv.reader(lines, delimiter=delimiter, strict=True, **style)
    before = csv.field_size_limit(LONGEST_CELL)
    try:
        header = list(columns) if columns else next(rows, None)
        _check_header(header or [], path)
        for row in rows:
            if row:
                yield rows.line_num, _row(header or [], row, f"{path}, line {rows.line_num}")
    except csv.Error as error:
        raise CorpusError(
            f"not valid CSV ({error})", f"{path}, line {rows.line_num}", "check its quotation marks"
        ) from None
    finally:
        csv.field_size_limit(before)


def _check_header(header: list[str], path: Path) -> None:
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
            f"{len(row)} cells where the header has {len(header)}",
            where,
            "quote cells that hold the delimiter",
        )
    return dict(zip(header, row, strict=True))
