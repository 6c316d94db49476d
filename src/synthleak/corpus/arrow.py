"""Rows of Arrow and Parquet files, read by pyarrow in a child process.

A file of 30 kB may unpack to gigabytes, name one long text in a million rows, or be damaged so that
pyarrow ends the process that it is in. So a child with limited memory reads it, and hands the rows
over; however the child ends, that is said in one line.
"""

from __future__ import annotations

import os
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from synthleak.core.errors import CorpusError
from synthleak.core.reading import FILE, RECORD, RECORDS, Boundary
from synthleak.corpus.files import cannot_open, check_regular

Row = dict[str, Any]

READ, BATCH = 8_192, 256
"""Rows that are read from a table, and at most turned into rows of Python, at a time."""
_BUFFER = 2**20
"""Bytes of a Parquet file that are read at a time."""
_CELL = 16
"""Bytes that a number counts for."""
_WORKSPACE = 200_000_000
"""Bytes that pyarrow may need besides what a file unpacks to."""
_MAGIC = b"ARROW1"
"""What an Arrow file with a footer begins with."""


def parquet_rows(path: Path) -> Iterator[Row]:
    from pyarrow.parquet import ParquetFile

    def batches(file: Any) -> Any:
        # Without these two, a whole row group is held in memory.
        table = ParquetFile(file, pre_buffer=False, buffer_size=_BUFFER)
        about = table.metadata
        RECORDS.check(about.num_rows, "the number of rows", str(path))
        groups = [about.row_group(number) for number in range(about.num_row_groups)]
        unpacked = sum(group.total_byte_size for group in groups)
        FILE.check(unpacked, "the unpacked file", str(path))
        return table.iter_batches(batch_size=READ, use_threads=False)

    return _rows(path, batches, "Parquet")


def arrow_rows(path: Path) -> Iterator[Row]:
    """Yield the rows of an Arrow file: of the streaming format, or of the one with a footer."""
    import pyarrow as pa

    def batches(file: Any) -> Any:
        options = pa.ipc.IpcReadOptions(use_threads=False)
        footed = file.read(len(_MAGIC)) == _MAGIC
        file.seek(0)
        if not footed:
            return pa.ipc.open_stream(file, options=options)
        table = pa.ipc.open_file(file, options=options)
        return (table.get_batch(number) for number in range(table.num_record_batches))

    return _rows(path, batches, "Arrow")


def _rows(path: Path, batches: Callable[[Any], Any], form: str) -> Iterator[Row]:
    check_regular(path)
    return _from_a_child(_parts(path, batches, form), _not_whole(form, str(path)))


def _not_whole(form: str, where: str) -> CorpusError:
    return CorpusError(f"not a whole {form} file", where, "write or fetch it again")


def _from_a_child(parts: Iterator[list[Row]], ended: CorpusError) -> Iterator[Row]:
    """Yield the rows of `parts`, which a child process makes; raise `ended` if it is killed."""
    if not hasattr(os, "fork"):
        yield from chain.from_iterable(parts)
        return
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child calls pyarrow alone
        child = os.fork()
    if child == 0:
        try:
            os.close(reader)  # else a parent that stops early would not end it
            _send(parts, writer)
        finally:
            os._exit(0)
    os.close(writer)
    try:
        with os.fdopen(reader, "rb") as pipe:
            while True:
                try:
                    part = pickle.load(pipe)
                except EOFError:
                    raise ended from None
                if isinstance(part, Exception):
                    raise part
                if not part:
                    return
                yield from part
    finally:
        os.waitpid(child, 0)


def _send(parts: Iterator[list[Row]], writer: int) -> None:
    """Write all parts to a pipe, then an empty one; or the error that stopped them."""
    import pyarrow as pa

    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what pyarrow says as it ends
    pa.set_memory_pool(pa.system_memory_pool())  # others take more than they are asked for
    with suppress(ImportError, OSError, ValueError):  # where the system counts no memory
        import resource

        pages = int(Path("/proc/self/statm").read_text().split()[5])
        most = pages * resource.getpagesize() + FILE.value + _WORKSPACE
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    with os.fdopen(writer, "wb") as pipe:
        try:
            for part in parts:
                pickle.dump(part, pipe)
            pickle.dump([], pipe)
        except Exception as error:
            pickle.dump(error, pipe)


def _parts(path: Path, batches: Callable[[Any], Any], form: str) -> Iterator[list[Row]]:
    """Yield the rows of a file, some at a time, and weigh them: a text may stand in every row."""
    number = size = 0

    def check_size(error: Exception) -> None:
        if isinstance(error, MemoryError):
            FILE.check(FILE.value + 1, "the unpacked file", str(path))

    def broken(error: Exception) -> CorpusError:
        check_size(error)
        if isinstance(error, OSError) and error.errno is not None:
            return cannot_open(path, error)
        return _not_whole(form, f"{path}{f', after row {number}' if number else ''}")

    def unfit(error: Exception) -> CorpusError:
        check_size(error)
        what = f"a cell cannot be read ({type(error).__name__})"
        if isinstance(error, UnicodeError) or "UTF8" in str(error):
            what = "a text is not valid UTF-8"
        place = f"{path}, rows {number + 1} to {number + batch.num_rows}"
        return CorpusError(what, place, "correct it, or leave that column out")

    boundary, cells = Boundary(broken), Boundary(unfit)
    with boundary:
        file = path.open("rb")
    with file:
        with boundary:
            tables = batches(file)
        for batch in boundary.each(tables):
            with cells:
                batch.validate(full=True)  # a broken file may point anywhere in memory
            start, count = 0, 1  # one row first: a long text may stand in all of them
            while start < batch.num_rows:
                with cells:
                    rows = _plain(batch.slice(start, count)).to_pylist()
                weights = [_weight(row) for row in rows]
                size += sum(weights)
                FILE.check(size, "the unpacked file", str(path))
                for row, weight in enumerate(weights, start=number + 1):
                    RECORD.check(weight, "the row", f"{path}, row {row}")
                yield rows
                number, start, count = number + len(rows), start + count, min(2 * count, BATCH)


def _weight(value: Any) -> int:
    """Return how many bytes a value takes, about, with all that lies inside.

    >>> _weight({"text": "one", "numbers": [1, 2]})
    67
    """
    if isinstance(value, str | bytes):
        return len(value)
    if isinstance(value, dict):
        return _CELL + sum(map(_weight, value.values()))
    if isinstance(value, list | tuple):
        return _CELL + sum(map(_weight, value))
    return _CELL


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
