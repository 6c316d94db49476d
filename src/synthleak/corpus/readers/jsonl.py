"""`jsonl`: one JSON object a line, plain or gzipped."""

from __future__ import annotations

import json
from collections.abc import Iterator

from synthleak.core.errors import CorpusError
from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import Encoding, open_lines
from synthleak.corpus.rows import FieldReader


@readers.register("jsonl", version=1)
class Jsonl(FieldReader):
    """JSON Lines: one object per record, plain or .gz; labels as a list or one string."""

    encoding: Encoding = "utf-8"

    def read(self) -> Iterator[Record]:
        """Yield a record per line; empty lines are passed over."""
        for number, line in open_lines(self.path, encoding=self.encoding):
            if line.strip():
                where = f"{self.path}, line {number}"
                yield self.record(json_object(line, where), number, where)


def _can_be_written(row: object) -> bool:
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def json_object(line: str, where: str) -> dict[str, object]:
    """Read one line as a JSON object."""
    try:
        row = json.loads(line)
    except (json.JSONDecodeError, RecursionError) as error:
        column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
        raise CorpusError(
            f"not valid JSON{column}", where, "each line must be one whole JSON object"
        ) from None
    # JSON can spell half of a pair, such as of an emoji that was cut. No file can hold it.
    if "\\ud" in line.lower() and not _can_be_written(row):
        raise CorpusError(
            "a text holds invalid Unicode (an unpaired surrogate)",
            where,
            "correct or drop that record",
        )
    if not isinstance(row, dict):
        raise CorpusError(f"a JSON object is needed, found {type(row).__name__}", where)
    return row
