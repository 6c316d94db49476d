"""Malformed files of every kind: one line that names the file, and no text of a record."""

from __future__ import annotations

import gzip
import json
import os
import resource
import signal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synthleak.core.errors import CorpusError, SpecError
from synthleak.corpus import arrow, assemble, readers
from synthleak.corpus.sources import numbered_rows


def read(kind: str, path: Path | str, **settings: Any) -> Any:
    key = {} if kind == "n2c2" else {"path": str(path)}
    reader = readers.build(kind, {**key, **settings}, key="reader", where=("corpus",))
    return assemble(reader)


def deep(depth: int) -> str:
    return "[" * depth + "1" + "]" * depth


def refused(kind: str, path: Path, said: str, **settings: Any) -> None:
    with pytest.raises(CorpusError, match=said) as caught:
        read(kind, path, **settings)
    message = str(caught.value)
    assert str(path) in message and "\n" not in message and "secret" not in message


@pytest.mark.parametrize(
    "value", ["9" * 5000, deep(900), deep(100_000), deep(60), r'{"\ud800": 1}']
)
@pytest.mark.parametrize("field", ["id", "group", "other", "labels"])
def test_values_that_python_cannot_hold(tmp_path: Path, field: str, value: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"text": "secret", "{field}": {value}}}\n')
    refused("jsonl", path, "line 1")


@pytest.mark.parametrize(
    "row", ['{"text": "secret", "\\ud800": 1}', f'{{"text": "secret", "a": {deep(900)}}}']
)
def test_values_of_label_columns_and_names_of_columns(tmp_path: Path, row: str) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(row + "\n")
    refused("jsonl", path, "line 1", labels=["a"] if '"a"' in row else "labels")


def test_a_surrogate_in_a_label(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text('{"text": "secret", "labels": ["a", "\\ud83d"]}\n')
    refused("jsonl", path, "surrogate")


def test_numbers_beyond_64_bits_become_text(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    path.write_text(f'{{"text": "t", "age": {"9" * 400}, "id": {2**64 - 1}}}\n')
    (record,) = read("jsonl", path).records
    assert record.meta == {"age": "9" * 400} and record.id == str(2**64 - 1)


@pytest.mark.parametrize("codec", ["hex", "zlib", "rot13", "undefined", "nonsense", "a\0b"])
def test_a_codec_that_is_not_a_text_encoding(tmp_path: Path, codec: str) -> None:
    with pytest.raises(SpecError, match=r"corpus\.encoding: .*no such text encoding"):
        read("jsonl", tmp_path / "r.jsonl", encoding=codec)


def test_a_text_is_not_also_what_tables_show(tmp_path: Path) -> None:
    for setting in (
        {"id": "text"},
        {"group": "text"},
        {"labels": "text"},
        {"labels": ["a", "text"]},
    ):
        with pytest.raises(SpecError, match=r"corpus: .* name the same field, 'text'"):
            read("jsonl", tmp_path / "r.jsonl", **setting)
        files = {"members": "m.jsonl", "holdout": "h.jsonl"}
        with pytest.raises(SpecError, match=r"corpus: .* name the same field, 'text'"):
            readers.build("split", {**files, **setting}, key="reader", where=("corpus",))


def test_a_gzip_file_that_is_broken_and_undecodable(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "secret"}\n\xff\n') + b"not gzip")
    refused("jsonl", path, "not valid UTF-8")


@pytest.mark.parametrize("path", ["a\0b.jsonl", "x" * 5000, "d/" * 3000, "\udcff.jsonl"])
def test_a_path_that_the_system_refuses(path: str) -> None:
    with pytest.raises(SpecError, match=r"corpus\.path: .*(NUL|too long|Unicode)"):
        read("jsonl", path)


def table(tmp_path: Path, **columns: Any) -> Path:
    pq.write_table(pa.table({"text": ["secret"], **columns}), tmp_path / "r.parquet")
    return tmp_path / "r.parquet"


def test_parquet_nanoseconds_are_cut(tmp_path: Path) -> None:
    times = pa.array([1_600_000_000_123_456_789], pa.timestamp("ns"))
    (record,) = read("parquet", table(tmp_path, at=times)).records
    assert record.meta == {"at": "2020-09-13T12:26:40.123456"}


def test_parquet_times_beyond_pythons(tmp_path: Path) -> None:
    path = table(tmp_path, at=pa.array([2**62], pa.timestamp("us")))
    refused("parquet", path, "rows 1 to 1: a cell cannot be read")


def test_parquet_with_invalid_utf8(tmp_path: Path) -> None:
    path = table(tmp_path, note=pa.array([b"secret \xff"], pa.binary()).view(pa.string()))
    refused("parquet", path, "rows 1 to 1: a text is not valid UTF-8")


def dataset(tmp_path: Path, state: Any, info: Any) -> Path:
    rows = pa.table({"text": ["secret"], "labels": pa.array(["x"])})
    with pa.ipc.new_stream(tmp_path / "d.arrow", rows.schema) as writer:
        writer.write_table(rows)
    (tmp_path / "state.json").write_text(json.dumps(state))
    (tmp_path / "dataset_info.json").write_text(json.dumps(info))
    return tmp_path


FILES = {"_data_files": [{"filename": "d.arrow"}]}
CLASSES = {"_type": "ClassLabel", "names": ["a", "b"]}


@pytest.mark.parametrize(
    ("state", "info"),
    [
        ({"_data_files": [{}]}, {}),
        ({"_data_files": ["d.arrow"]}, {}),
        ({"_data_files": {"filename": "d.arrow"}}, {}),
        ({"_data_files": [{"filename": 5}]}, {}),
        (FILES, {"features": [1]}),
        (FILES, {"features": {"labels": {**CLASSES, "names": 5}}}),
        (FILES, {"features": {"labels": {**CLASSES, "names": [None]}}}),
        (FILES, {"features": {"labels": CLASSES}}),
    ],
)
def test_malformed_metadata_of_datasets(tmp_path: Path, state: Any, info: Any) -> None:
    refused("datasets", dataset(tmp_path, state, info), "what `save_to_disk` writes|of a class")


def test_an_unknown_xml_encoding(tmp_path: Path) -> None:
    path = tmp_path / "r.xml"
    path.write_text('<?xml version="1.0" encoding="x-none"?><a>secret</a>')
    refused("n2c2", path, "not valid XML", records=str(path), annotations=str(path))


def bomb(path: Path, unit: bytes, size: int) -> Path:
    block = unit * (1_000_000 // len(unit))
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(size // len(block)):
            file.write(block)
    return path


def test_a_gzip_bomb_is_read_no_farther_than_the_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    one_line = bomb(tmp_path / "zeros.jsonl.gz", bytes(1000), 400_000_000)
    refused("jsonl", one_line, "line 1: the line is larger than the limit of 4 MB")
    refused("csv", one_line, "line 1: the line is larger than the limit of 4 MB")
    monkeypatch.setenv("SYNTHLEAK_MAX_FILE_MB", "20")
    line = b'{"text": "secret", "id": "' + b"x" * 2000 + b'"}\n'
    lines = bomb(tmp_path / "lines.jsonl.gz", line, 100_000_000)
    refused("jsonl", lines, "the unpacked file is larger than the limit of 20 MB")
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 200_000  # KiB


def test_lines_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNTHLEAK_MAX_RECORDS", "5")
    path = tmp_path / "r.jsonl"
    path.write_text('{"text": "secret"}' + "\n" * 100)
    refused("jsonl", path, "the number of lines is larger than the limit of 5 records")


def test_a_quoted_cell_over_many_lines_is_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYNTHLEAK_MAX_RECORD_MB", "1")
    path = tmp_path / "r.csv"
    path.write_text('text\n"' + "secret\n" * 200_000)
    refused("csv", path, "the row is larger than the limit of 1 MB")


def test_a_text_of_a_table_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYNTHLEAK_MAX_RECORD_MB", "1")
    path = tmp_path / "r.parquet"
    pq.write_table(pa.table({"text": ["secret " * 200_000]}), path)
    refused("parquet", path, "row 1: the row is larger than the limit of 1 MB")


MANY = pa.array([0] * 400, pa.int32())
LONG = pa.DictionaryArray.from_arrays(MANY, pa.array(["secret " * 200_000]))
VIEWS = pa.ListViewArray.from_arrays([0] * 9, [400] * 9, pa.array([1] * 400))
for _ in range(4):  # each names all values of the one inside, again and again
    VIEWS = pa.ListViewArray.from_arrays([0] * 9, [9] * 9, VIEWS)
TABLES = {
    "packed": ({"text": pa.array(["secret " * 800_000])}, "the unpacked file is larger than"),
    "repeated": ({"text": ["t"] * 400, "x": LONG}, "is larger than the limit of [14] MB"),
    "in lists": (
        {"text": ["t"], "x": pa.ListArray.from_arrays([0, 400], LONG)},
        "the unpacked file is larger than the limit of 4 MB",
    ),
    "viewed": ({"text": ["t"] * 9, "x": VIEWS}, "the unpacked file is larger than"),
    "many short": (
        {
            "text": ["t"] * 400,
            "x": pa.DictionaryArray.from_arrays(MANY, pa.array(["secret " * 20_000])),
        },
        "the unpacked file is larger than the limit of 4 MB",
    ),
}


def written_table(table: pa.Table, kind: str, path: Path) -> None:
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    if kind == "parquet":
        pq.write_table(table, path, compression="zstd")
        return
    writer = pa.ipc.new_stream if kind == "stream" else pa.ipc.new_file
    with writer(path, table.schema, options=packed) as file:
        file.write_table(table)


@pytest.mark.parametrize("kind", ["stream", "file", "parquet"])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_weighed_before_it_is_unpacked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: str
) -> None:
    monkeypatch.setenv("SYNTHLEAK_MAX_RECORD_MB", "1")
    monkeypatch.setenv("SYNTHLEAK_MAX_FILE_MB", "4")
    columns, said = TABLES[name]
    if (name, kind) == ("viewed", "parquet"):
        pytest.skip("a Parquet file has no views")
    path = tmp_path / f"r.{kind.replace('stream', 'arrow').replace('file', 'arrow')}"
    written_table(pa.table(columns), kind, path)
    assert path.stat().st_size < 20_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(CorpusError, match=said) as caught:
        list(numbered_rows(path, text="text", key="--members"))
    assert "secret" not in str(caught.value)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after - before < 100_000  # kilobytes


@pytest.mark.parametrize("kind", ["stream", "file", "parquet"])
def test_tables_of_all_usual_types_are_read_as_before(tmp_path: Path, kind: str) -> None:
    table = pa.table(
        {
            "text": pa.array(["a", None, "naïve"]),
            "category": pa.array(["x", None, "y"]).dictionary_encode(),
            "lists": [["p", None], [], None],
            "structs": [{"a": 1, "b": ["q"]}, None, {"a": None, "b": None}],
            "maps": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int64())),
            "fixed": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int8(), 2)),
            "bytes": [b"b", None, b""],
            "nothing": pa.nulls(3),
            "large": pa.array(["l", None, "m"], pa.large_string()),
            "numbers": [1.5, None, 2.0],
        }
    )
    path = tmp_path / f"r.{kind.replace('stream', 'arrow').replace('file', 'arrow')}"
    written_table(table.slice(0, 2), kind, path)
    rows = [row for _, _, row in numbered_rows(path, text="text", key="--members")]
    assert rows == table.slice(0, 2).to_pylist()


@pytest.mark.parametrize(
    ("name", "derived"),
    [
        ("my notes", "my-notes"),
        ("Ärzte", "Arzte"),
        ("病歴", "corpus"),
        ('a"b\n', "a-b"),
        (".x", "corpus"),
    ],
)
def test_a_corpus_takes_a_valid_name_from_any_file(tmp_path: Path, name: str, derived: str) -> None:
    path = tmp_path / f"{name}.jsonl"
    path.write_text('{"text": "t"}\n')
    assert read("jsonl", path).name == derived


def test_a_file_that_ends_pyarrow_is_said_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On some damaged footers pyarrow aborts: the child ends, and the command does not."""
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"text": ["a", "b"]}), path)
    assert len(list(arrow.parquet_rows(path))) == 2
    monkeypatch.setattr(arrow, "_plain", lambda batch: os.kill(os.getpid(), signal.SIGKILL))
    with pytest.raises(CorpusError, match="not a whole Parquet file"):
        list(arrow.parquet_rows(path))


def test_a_bug_of_our_own_passes_the_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"text": ["a"]}), path)
    monkeypatch.setattr(arrow, "_weight", lambda row: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(arrow.parquet_rows(path))


def test_a_reader_that_stops_early_leaves_no_child(tmp_path: Path) -> None:
    path = tmp_path / "records.parquet"
    pq.write_table(pa.table({"text": ["a" * 1000] * 10_000}), path)
    rows = arrow.parquet_rows(path)
    next(rows)
    rows.close()  # type: ignore[attr-defined]
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
