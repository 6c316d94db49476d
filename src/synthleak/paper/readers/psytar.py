"""`psytar`: sentences of psychiatric drug reviews, in the published workbook."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any
from zipfile import ZipFile

from pydantic import Field

from synthleak.core.errors import CorpusError, import_extra
from synthleak.core.limits import FILE
from synthleak.core.predicate import is_marked
from synthleak.core.reading import Boundary
from synthleak.core.validation import DataPath
from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import cannot_open, check_regular
from synthleak.corpus.rows import plain_cell
from synthleak.paper.published import Published

LABELS = ("ADR", "WD", "EF", "INF", "SSI", "DI", "Others")
_MOST_ROWS = 1_048_576
"""The rows that a sheet can have in the format."""
_TEXT, _POST, _ID = "sentences", "drug_id", "id"


@readers.register("psytar", version=1, needs="openpyxl", extra="xlsx")
class Psytar(Published):
    """PsyTAR_dataset.xlsx, sheet Sentence_Labeling: any mark in a label's cell counts."""

    path: DataPath
    sheet: str = Field(default="Sentence_Labeling")

    def read_all(self) -> Iterator[Record]:
        """Yield a record per sentence; a review is a group, so that it leaves the game as a whole.

        The sheet ends in a row of totals and holds some rows without a sentence: what has no id or
        no sentence is not a record.
        """
        rows = self._rows()
        header = [str(cell or "").strip() for cell in next(rows, ())]
        columns = {name.casefold(): place for place, name in enumerate(header) if name}
        for wanted in (_TEXT, _POST, *LABELS):
            if wanted.casefold() not in columns:
                raise CorpusError(
                    f"there is no column {wanted!r}",
                    f"{self.path}, sheet {self.sheet}",
                    "use the workbook as published",
                )
        for number, row in enumerate(rows, start=2):
            cells = {name: row[place] for name, place in columns.items() if place < len(row)}
            text = str(cells.get(_TEXT) or "").strip()
            if text and cells.get(_ID, "") is not None:
                yield _record(number, text, cells)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        openpyxl = import_extra("openpyxl", extra="xlsx", by="the reader 'psytar'")

        def broken(error: Exception) -> CorpusError:
            if isinstance(error, OSError) and error.errno is not None:
                return cannot_open(self.path, error)
            return CorpusError("not a whole .xlsx workbook", str(self.path), "fetch it again")

        check_regular(self.path)
        boundary = Boundary(broken)
        with boundary:
            file = self.path.open("rb")
        with file:
            with boundary, warnings.catch_warnings():
                # Workbooks carry forms and styles that openpyxl leaves out; no cell is lost.
                warnings.simplefilter("ignore", UserWarning)
                unpacked = sum(part.file_size for part in ZipFile(file).infolist())
                FILE.check(unpacked, "the unpacked file", str(self.path))
                book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            if self.sheet not in book.sheetnames:
                raise CorpusError(
                    f"there is no sheet {self.sheet!r}",
                    str(self.path),
                    f"it holds: {', '.join(book.sheetnames)}",
                )
            with boundary:
                # Rows that a file leaves out are filled in: a row number may claim billions.
                rows = book[self.sheet].iter_rows(values_only=True, max_row=_MOST_ROWS)
            yield from boundary.each(rows)


def _record(number: int, text: str, cells: dict[str, Any]) -> Record:
    labels = tuple(sorted(name for name in LABELS if is_marked(cells.get(name.casefold()))))
    own = {_TEXT, _ID, *(name.casefold() for name in LABELS)}
    return Record(
        id=f"psytar-{number}",
        text=text,
        labels=labels,
        group=str(cells[_POST]) if cells.get(_POST) else None,
        meta={name: plain_cell(value) for name, value in cells.items() if name not in own},
    )
