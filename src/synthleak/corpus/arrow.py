"""Rows of Arrow and Parquet files, read in batches with pyarrow alone."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import CorpusError
from synthleak.core.limits import FILE, RECORD, RECORDS
from synthleak.core.reading import Boundary
from synthleak.corpus.arrow_messages import NotArrow, unpacked_bytes
from synthleak.corpus.files import cannot_open, check_regular

READ, BATCH = 65_536, 256
"""Rows that are read from a table, and turned into rows of Python, at a time."""
_CELL = 16
"""Bytes that a number counts for."""
_TEXTS = ("STRING", "NONE", "JSON", "BSON", "ENUM")
"""Logical types of columns that hold texts or bytes."""


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file."""

    def batches(file: Any) -> Any:
        from pyarrow.parquet import ParquetFile, read_metadata

        about = read_metadata(file)
        RECORDS.check(about.num_rows, "the number of rows", str(path))
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        unpacked = sum(group.total_byte_size for group in groups)
        FILE.check(unpacked, "the unpacked file", str(path))
        values = in_a_child(lambda: _values_of(about))
        if values is None:
            raise _not_whole("Parquet", str(path))
        FILE.check(4 * values, "the unpacked file", str(path))
        columns = [about.schema.column(number) for number in range(about.num_columns)]
        # A text that stands in many rows is stored once, and stays so until it is weighed.
        texts = [
            column.path
            for column in columns
            if column.physical_type == "BYTE_ARRAY" and column.logical_type.type in _TEXTS
        ]
        return ParquetFile(file, read_dictionary=texts).iter_batches(batch_size=READ)

    return _rows(path, batches, "Parquet")


def _values_of(about: Any) -> int:
    """Count the values that the footer of a Parquet file announces."""
    groups = [about.row_group(number) for number in range(about.num_row_groups)]
    return sum(g.column(n).num_values for g in groups for n in range(about.num_columns))


def in_a_child(count: Callable[[], int]) -> int | None:
    """Count in a child process; None if it ends before.

    Asked for a damaged column of a footer, pyarrow ends the process that it is in.
    """
    if not hasattr(os, "fork"):
        return count()
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child calls pyarrow alone
        child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what pyarrow says as it ends
            os.write(writer, str(count()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return int(said) if said else None


def arrow_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of an Arrow file: of the streaming format, or of the one with a footer."""

    def batches(file: Any) -> Any:
        import pyarrow as pa

        try:
            unpacked = unpacked_bytes(file, FILE.value)
        except NotArrow:
            raise _not_whole("Arrow", str(path)) from None
        FILE.check(unpacked, "the unpacked file", str(path))
        file.seek(0)
        try:
            return pa.ipc.open_stream(file)
        except pa.ArrowInvalid:
            footed = pa.ipc.open_file(file)
            return (footed.get_batch(i) for i in range(footed.num_record_batches))

    return _rows(path, batches, "Arrow")


def _not_whole(form: str, where: str) -> CorpusError:
    return CorpusError(f"not a whole {form} file", where, "write or fetch it again")


def _rows(path: Path, batches: Callable[[Any], Any], form: str) -> Iterator[dict[str, Any]]:
    number = size = 0

    def broken(error: Exception) -> CorpusError:
        if isinstance(error, OSError) and error.errno is not None:
            return cannot_open(path, error)
        return _not_whole(form, f"{path}{f', after row {number}' if number else ''}")

    def unfit(error: Exception) -> CorpusError:
        what = f"a cell cannot be read ({type(error).__name__})"
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            what = "a text is not valid UTF-8"
        place = f"{path}, rows {number + 1} to {number + batch.num_rows}"
        return CorpusError(what, place, "correct it, or leave that column out")

    check_regular(path)
    boundary, cells = Boundary(broken), Boundary(unfit)
    with boundary:
        file = path.open("rb")
    with file:
        with boundary:
            found = batches(file)
        for batch in boundary.each(found):
            with cells:
                batch.validate(full=True)  # a broken file may point anywhere in memory
                size += _weight(batch, path, number)
            FILE.check(size, "the unpacked file", str(path))
            for start in range(0, batch.num_rows, BATCH):
                part = batch.slice(start, BATCH)
                with cells:
                    rows = _plain(part).to_pylist()
                yield from rows
                number += len(rows)


def _weight(batch: Any, path: Path, number: int) -> int:
    """Return how many bytes the rows of a batch take once apart; refuse one beyond the limit.

    A text may be stored once and stand in every row.
    """
    whole = np.zeros(batch.num_rows, dtype=np.int64)
    for position, column in enumerate(batch.columns, start=1):
        try:
            whole += _weights(column)
        except _NotRead:
            raise CorpusError(
                f"column {position} has a type that is not read (a view of lists, a union, or run"
                " ends)",
                str(path),
                "leave that column out, or write it as texts, numbers or lists of them",
            ) from None
    heaviest = int(whole.argmax()) if len(whole) else 0
    RECORD.check(int(whole.max(initial=0)), "the row", f"{path}, row {number + heaviest + 1}")
    return int(whole.sum())


class _NotRead(Exception):  # noqa: N818 - reads as what it is
    """One value of this type can name others again and again."""


def _weights(array: Any) -> NDArray[np.int64]:
    """Return how many bytes each value of a column takes, with all that it names."""
    import pyarrow as pa
    from pyarrow import types

    kind = array.type
    if isinstance(array, pa.ExtensionArray):
        return _weights(array.storage)
    if types.is_nested(kind):
        return _nested_weights(array)
    if types.is_dictionary(kind):
        if types.is_nested(kind.value_type):
            raise _NotRead
        values, places = _weights(array.dictionary), array.indices
        if places.null_count:
            places = places.fill_null(0)
        return values[places.to_numpy()] if len(values) else np.zeros(len(array), dtype=np.int64)
    if types.is_run_end_encoded(kind):
        raise _NotRead
    if kind in (pa.string_view(), pa.binary_view()):
        lengths = np.frombuffer(array.buffers()[1], dtype=np.int32)[::4].astype(np.int64)
        return lengths[array.offset : array.offset + len(array)]
    if kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary()):
        width = np.int32 if kind in (pa.string(), pa.binary()) else np.int64
        ends = np.frombuffer(array.buffers()[1] or b"", dtype=width).astype(np.int64)
        return np.diff(ends[array.offset : array.offset + len(array) + 1])
    return np.full(len(array), _CELL, dtype=np.int64)


def _nested_weights(array: Any) -> NDArray[np.int64]:
    """Return the weights of structs and lists: those of what lies inside, added."""
    from pyarrow import types

    kind = array.type
    if types.is_struct(kind):
        fields = [_weights(array.field(number)) for number in range(kind.num_fields)]
        return sum(fields, np.full(len(array), _CELL, dtype=np.int64))
    if types.is_fixed_size_list(kind):
        inside = _weights(array.values)
        ends = np.arange(array.offset, array.offset + len(array) + 1) * kind.list_size
    elif types.is_map(kind):
        inside = _weights(array.keys) + _weights(array.items)
        ends = array.offsets.to_numpy()
    elif types.is_list(kind) or types.is_large_list(kind):
        inside = _weights(array.values)
        ends = array.offsets.to_numpy()
    else:
        raise _NotRead
    until = np.concatenate(([0], np.cumsum(inside)))
    return np.asarray(until[ends[1:]] - until[ends[:-1]] + _CELL, dtype=np.int64)


def _plain(batch: Any) -> Any:
    """Write texts out, and cut nanoseconds, which Python's times do not have."""
    import pyarrow as pa

    def plain(column: Any) -> Any:
        if pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        if pa.types.is_timestamp(column.type) and column.type.unit == "ns":
            return column.cast(pa.timestamp("us", column.type.tz), safe=False)
        return column

    columns = [plain(column) for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)
