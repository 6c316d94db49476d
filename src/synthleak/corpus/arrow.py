"""Rows of Arrow and Parquet files, read in batches with pyarrow alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from synthleak.core.errors import CorpusError
from synthleak.corpus.files import cannot_open, check_regular

BATCH = 2048


def parquet_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a Parquet file."""

    def batches(file: Any) -> Any:
        from pyarrow.parquet import ParquetFile

        return ParquetFile(file).iter_batches(batch_size=BATCH)

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
    import pyarrow as pa

    check_regular(path)
    try:
        with path.open("rb") as file:
            for batch in batches(file):
                for start in range(0, batch.num_rows, BATCH):
                    yield from batch.slice(start, BATCH).to_pylist()
    except pa.ArrowException:
        raise CorpusError(
            f"not a whole {form} file", str(path), "write or fetch it again"
        ) from None
    except OSError as error:
        raise cannot_open(path, error) from None
