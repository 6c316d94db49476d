"""Rows of Arrow and Parquet files, read in batches with pyarrow alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from synthleak.core.errors import CorpusError
from synthleak.core.limits import FILE
from synthleak.core.reading import Boundary
from synthleak.corpus.files import cannot_open, check_regular

BATCH = 256
"""Rows that are unpacked at a time: one long text may be stored once and stand in many rows."""


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file."""

    def batches(file: Any) -> Any:
        from pyarrow.parquet import ParquetFile

        table = ParquetFile(file)
        about = table.metadata
        unpacked = sum(about.row_group(i).total_byte_size for i in range(about.num_row_groups))
        FILE.check(unpacked, "the unpacked file", str(path))
        return table.iter_batches(batch_size=BATCH)

    return _rows(path, batches, "Parquet")


def arrow_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of an Arrow file: of the streaming format, or of the one with a footer."""

    def batches(file: Any) -> Any:
        import pyarrow as pa

        try:
            return pa.ipc.open_stream(file)
        except pa.ArrowInvalid:
            footed = pa.ipc.open_file(file)
            return (footed.get_batch(i) for i in range(footed.num_record_batches))

    return _rows(path, batches, "Arrow")


def _rows(path: Path, batches: Callable[[Any], Any], form: str) -> Iterator[dict[str, Any]]:
    number = 0

    def broken(error: Exception) -> CorpusError:
        if isinstance(error, OSError) and error.errno is not None:
            return cannot_open(path, error)
        place = f", after row {number}" if number else ""
        return CorpusError(f"not a whole {form} file", f"{path}{place}", "write or fetch it again")

    def unfit(error: Exception) -> CorpusError:
        what = f"a cell cannot be read ({type(error).__name__})"
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            what = "a text is not valid UTF-8"
        place = f"{path}, rows {number + 1} to {number + part.num_rows}"
        return CorpusError(what, place, "correct it, or leave that column out")

    check_regular(path)
    boundary, cells = Boundary(broken), Boundary(unfit)
    with boundary:
        file = path.open("rb")
    with file:
        with boundary:
            found = batches(file)
        for batch in boundary.each(found):
            for start in range(0, batch.num_rows, BATCH):
                part = batch.slice(start, BATCH)
                with cells:
                    part.validate(full=True)  # a broken file may point anywhere in memory
                    rows = _plain_times(part).to_pylist()
                yield from rows
                number += len(rows)


def _plain_times(batch: Any) -> Any:
    """Cut nanoseconds, which Python's times do not have, so that every machine reads the same."""
    import pyarrow as pa

    fields = [
        field.with_type(pa.timestamp("us", field.type.tz))
        if pa.types.is_timestamp(field.type) and field.type.unit == "ns"
        else field
        for field in batch.schema
    ]
    if fields == list(batch.schema):
        return batch
    return pa.RecordBatch.from_arrays(
        [
            column.cast(field.type, safe=False)
            for column, field in zip(batch.columns, fields, strict=True)
        ],
        schema=pa.schema(fields),
    )
