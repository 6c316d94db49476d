"""`jsonl`: one JSON object a line, plain or gzipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import FieldReader, open_lines
from synthleak.errors import CorpusError


@readers.register("jsonl", version=1)
class Jsonl(FieldReader):
    """JSON Lines: one object per record, plain or .gz; labels as a list or one string."""

    def read(self) -> Iterator[Record]:
        """Yield a record per line; empty lines are passed over."""
        for number, line in open_lines(self.path):
            if line.strip():
                yield self.record(self._object(line, number), number)

    def _object(self, line: str, number: int) -> dict[str, Any]:
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            raise CorpusError(
                f"not valid JSON at column {error.colno}",
                f"{self.path}, line {number}",
                "each line must be one whole JSON object",
            ) from None
        if not isinstance(row, dict):
            raise CorpusError(
                f"a JSON object is needed, found {type(row).__name__}",
                f"{self.path}, line {number}",
            )
        return row
