"""`csv`: comma-separated values with a header line."""

from __future__ import annotations

import csv
from collections.abc import Iterator

from pydantic import Field

from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import FieldReader, open_lines
from synthleak.errors import CorpusError


@readers.register("csv", version=1)
class Csv(FieldReader):
    """Comma-separated values with a header, plain or .gz; several labels in a cell split by ';'."""

    delimiter: str = Field(default=",", min_length=1, max_length=1)

    def read(self) -> Iterator[Record]:
        """Yield a record per row."""
        lines = (line for _, line in open_lines(self.path, newline=""))
        rows = csv.reader(lines, delimiter=self.delimiter, strict=True)
        try:
            header = next(rows, None)
            if header is None:
                return
            for row in rows:
                if len(row) != len(header):
                    raise CorpusError(
                        f"{len(row)} cells where the header has {len(header)}",
                        f"{self.path}, line {rows.line_num}",
                        "quote cells that hold the delimiter",
                    )
                yield self.record(dict(zip(header, row, strict=True)), rows.line_num)
        except csv.Error as error:
            raise CorpusError(
                f"not valid CSV ({error})", f"{self.path}, line {rows.line_num}"
            ) from None
