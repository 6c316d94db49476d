"""`csv`: comma-separated values."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import Encoding, delimited_rows
from synthleak.corpus.rows import FieldReader


@readers.register("csv", version=1)
class Csv(FieldReader):
    """Comma-separated values with a header, plain or .gz; several labels in a cell split by ';'."""

    delimiter: str = Field(default=",", min_length=1, max_length=1)
    quote: str = Field(default='"', max_length=1, description="empty where cells are never quoted")
    columns: tuple[str, ...] | None = Field(
        default=None, description="names of the columns, where the file has no header"
    )
    encoding: Encoding = "utf-8"

    def read(self) -> Iterator[Record]:
        rows = delimited_rows(
            self.path,
            delimiter=self.delimiter,
            quote=self.quote,
            encoding=self.encoding,
            columns=self.columns,
        )
        return self.records((line, f"{self.path}, line {line}", row) for line, row in rows)
