"""`jsonl`: one JSON object a line, plain or gzipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from synthleak.core.errors import CorpusError
from synthleak.core.reading import Boundary
from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import Encoding, open_lines
from synthleak.corpus.rows import FieldReader


@readers.register("jsonl", version=1)
class Jsonl(FieldReader):
    """JSON Lines: one object per record, plain or .gz; labels as a list or one string."""

    encoding: Encoding = "utf-8"

    def read(self) -> Iterator[Record]:
        rows = json_rows(self.path, encoding=self.encoding)
        return self.records((line, f"{self.path}, line {line}", row) for line, row in rows)


def json_rows(
    path: Path, *, encoding: str, key: str = "corpus.path"
) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (line number, object) of a file; empty lines are passed over."""
    for number, line in open_lines(path, encoding=encoding, key=key):
        if line.strip():
            yield number, json_object(line, f"{path}, line {number}")


def json_object(line: str, where: str) -> dict[str, object]:

    def invalid(error: Exception) -> CorpusError:
        reason = ": nested too deeply, or a number with too many digits"
        if isinstance(error, json.JSONDecodeError):
            reason = f" at column {error.colno}"
        return CorpusError(
            f"not valid JSON{reason}", where, "each line must be one whole JSON object"
        )

    with Boundary(invalid):
        row = json.loads(line)
    if not isinstance(row, dict):
        raise CorpusError(f"a JSON object is needed, found {type(row).__name__}", where)
    return row
