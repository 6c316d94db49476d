"""`parquet`: columnar tables."""

from __future__ import annotations

from collections.abc import Iterator

from synthleak.core.errors import CorpusError
from synthleak.corpus.arrow import parquet_rows
from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.rows import FieldReader


@readers.register("parquet", version=1)
class Parquet(FieldReader):
    """A Parquet file, or a folder of them in the order of their names."""

    def read(self) -> Iterator[Record]:
        files = sorted(self.path.glob("*.parquet")) if self.path.is_dir() else [self.path]
        if not files:
            raise CorpusError("the folder holds no .parquet file", str(self.path))
        rows = (
            (f"{file}, row {place}", row)
            for file in files
            for place, row in enumerate(parquet_rows(file), start=1)
        )
        return self.records((number, *found) for number, found in enumerate(rows, start=1))
