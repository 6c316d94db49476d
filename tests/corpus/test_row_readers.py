"""Readers of row files: columns, endings, label types, and each mistake in one line."""

from __future__ import annotations

import datetime
import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from synthleak.core.errors import CorpusError, SpecError, UserError
from synthleak.corpus import Corpus, Record, assemble, readers

ROWS: list[dict[str, Any]] = [
    {"id": "a", "text": "one pill", "labels": ["x", "y"], "group": "p1", "site": "A", "age": 30},
    {"id": "b", "text": "two pills", "labels": [], "group": None, "site": "B", "age": 81},
]


def read(kind: str, path: Path, **settings: Any) -> list[Record]:
    reader = readers.build(kind, {"path": str(path), **settings}, key="reader", where=("corpus",))
    return list(reader.read())


def corpus(kind: str, path: Path, **settings: Any) -> Corpus:
    reader = readers.build(kind, {"path": str(path), **settings}, key="reader", where=("corpus",))
    return assemble(reader)


def put(path: Path, text: str, encoding: str = "utf-8") -> Path:
    data = text.encode(encoding)
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    return put(path, "".join(json.dumps(row) + "\n" for row in rows))


EXPECTED = [
    Record("a", "one pill", ("x", "y"), "p1", {"site": "A", "age": 30}),
    Record("b", "two pills", (), None, {"site": "B", "age": 81}),
]
AS_TEXT = [
    Record("a", "one pill", ("x", "y"), "p1", {"site": "A", "age": "30"}),
    Record("b", "two pills", (), None, {"site": "B", "age": "81"}),
]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_jsonl(tmp_path: Path, ending: str) -> None:
    assert read("jsonl", jsonl(tmp_path / f"r.{ending}", ROWS)) == EXPECTED


@pytest.mark.parametrize(
    ("kind", "ending", "sign"), [("csv", "csv", ","), ("csv", "csv.gz", ","), ("tsv", "tsv", "\t")]
)
def test_delimited(tmp_path: Path, kind: str, ending: str, sign: str) -> None:
    lines = ["id,text,labels,group,site,age", "a,one pill,x;y,p1,A,30", "", "b,two pills,,,B,81"]
    path = put(tmp_path / f"r.{ending}", "\n".join(line.replace(",", sign) for line in lines))
    assert read(kind, path) == AS_TEXT


def test_csv_with_quotes_line_breaks_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = put(tmp_path / "r.csv", '\ufeffid,text\r\n1,"a ""b"",\nc"\r\n2,d\r\n')
    assert [(r.id, r.text) for r in read("csv", path)] == [("1", 'a "b",\nc'), ("2", "d")]


def test_tsv_takes_quotation_marks_as_they_are(tmp_path: Path) -> None:
    path = put(tmp_path / "r.tsv", 'id\ttext\n1\t"never closed\n2\tsecond\n')
    assert [r.text for r in read("tsv", path)] == ['"never closed', "second"]


def test_csv_without_a_header(tmp_path: Path) -> None:
    path = put(tmp_path / "r.csv", "x,one\ny,two\n")
    records = read("csv", path, columns=["labels", "text"])
    assert [(r.id, r.text, r.labels) for r in records] == [
        ("1", "one", ("x",)),
        ("2", "two", ("y",)),
    ]


def test_csv_with_a_text_longer_than_pythons_limit(tmp_path: Path) -> None:
    path = put(tmp_path / "r.csv", "text\n" + "word " * 40_000 + "\n")
    assert len(read("csv", path)[0].text) == 200_000


def test_another_encoding(tmp_path: Path) -> None:
    path = put(tmp_path / "r.csv", "text\nMünchen café\n", encoding="latin-1")
    assert read("csv", path, encoding="latin-1")[0].text == "München café"


def test_parquet_file_and_folder(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "one.parquet")
    assert read("parquet", tmp_path / "one.parquet") == EXPECTED
    pq.write_table(pa.Table.from_pylist([{**ROWS[0], "id": "c"}]), tmp_path / "two.parquet")
    assert [r.id for r in read("parquet", tmp_path)] == ["a", "b", "c"]


def test_cells_of_any_type_become_meta_with_one_fingerprint(tmp_path: Path) -> None:
    row = {
        "id": 7.0,
        "text": "t",
        "day": datetime.date(2020, 1, 2),
        "at": datetime.datetime(2020, 1, 2, 3, 4),
        "score": float("nan"),
        "parts": [{"x": 1}],
    }
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "r.parquet")
    made = corpus("parquet", tmp_path / "r.parquet")
    assert made.records[0].id == "7"
    assert made.records[0].meta == {
        "day": "2020-01-02",
        "at": "2020-01-02T03:04:00",
        "score": None,
        "parts": [{"x": 1}],
    }
    assert made.fingerprint == corpus("parquet", tmp_path / "r.parquet").fingerprint


def test_columns_are_mapped_and_the_rest_is_meta(tmp_path: Path) -> None:
    rows = [{"note_id": 5, "body": "t", "who": 12.0, "tags": "u | v", "n": 1}]
    (record,) = read(
        "jsonl",
        jsonl(tmp_path / "r.jsonl", rows),
        id="note_id",
        text="body",
        group="who",
        labels="tags",
        label_separator="|",
    )
    assert record == Record("5", "t", ("u", "v"), "12", {"n": 1})


def test_labels_from_marked_columns(tmp_path: Path) -> None:
    path = put(tmp_path / "r.csv", "text,ADR,WD,EF\nt,1,0,\nu,!,no,x\n")
    records = read("csv", path, labels=["ADR", "WD", "EF"])
    assert [r.labels for r in records] == [("ADR",), ("ADR", "EF")]
    assert records[0].meta == {}


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("a;b;a", ("a", "b")),
        (["b", "a"], ("a", "b")),
        (3, ("3",)),
        (3.0, ("3",)),
        (0.5, ("0.5",)),
        (True, ("True",)),
        (None, ()),
    ],
)
def test_label_types(tmp_path: Path, cell: Any, labels: tuple[str, ...]) -> None:
    path = jsonl(tmp_path / "r.jsonl", [{"text": "t", "labels": cell}])
    assert read("jsonl", path)[0].labels == labels


def test_duplicates_are_dropped_and_counted(tmp_path: Path) -> None:
    rows = [{"id": i, "text": t} for i, t in enumerate(["One pill", "one  PILL", "two"])]
    made = corpus("jsonl", jsonl(tmp_path / "r.jsonl", rows))
    assert [r.id for r in made.records] == ["0", "2"]
    assert made.duplicates == 1


def save_dataset(folder: Path, rows: list[dict[str, Any]], features: dict[str, Any]) -> None:
    """Write what `datasets` writes with `save_to_disk(num_shards=2)`."""
    folder.mkdir(parents=True)
    names = []
    for shard, part in enumerate((rows[:1], rows[1:])):
        names.append(f"data-{shard:05d}-of-00002.arrow")
        table = pa.Table.from_pylist(part, schema=pa.Table.from_pylist(rows).schema)
        with pa.ipc.new_stream(folder / names[-1], table.schema) as writer:
            writer.write_table(table)
    state = {"_data_files": [{"filename": name} for name in names], "_split": None}
    (folder / "state.json").write_text(json.dumps(state))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features}))


CLASSES = {"names": ["neg", "pos"], "_type": "ClassLabel"}


def test_a_datasets_folder_with_class_names(tmp_path: Path) -> None:
    rows = [{"text": t, "label": n} for t, n in (("one", 1), ("two", 0), ("three", -1))]
    save_dataset(tmp_path / "ds", rows, {"text": {"_type": "Value"}, "label": CLASSES})
    records = read("datasets", tmp_path / "ds", labels="label")
    assert [(r.id, r.text, r.labels) for r in records] == [
        ("1", "one", ("pos",)),
        ("2", "two", ("neg",)),
        ("3", "three", ()),
    ]


@pytest.mark.parametrize(
    "feature",
    [{"feature": CLASSES, "_type": "List"}, {"feature": CLASSES, "_type": "Sequence"}, [CLASSES]],
)
def test_a_datasets_folder_with_lists_of_classes(tmp_path: Path, feature: Any) -> None:
    rows = [{"text": "one", "labels": [0, 1]}, {"text": "two", "labels": [1]}]
    save_dataset(tmp_path / "ds", rows, {"labels": feature})
    assert [r.labels for r in read("datasets", tmp_path / "ds")] == [("neg", "pos"), ("pos",)]


def test_a_datasets_folder_with_splits(tmp_path: Path) -> None:
    for split in ("train", "test"):
        rows = [{"text": f"{split} {n}"} for n in range(3)]
        save_dataset(tmp_path / "ds" / split, rows, {})
    (tmp_path / "ds" / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    assert read("datasets", tmp_path / "ds", split="test")[2].text == "test 2"
    with pytest.raises(SpecError, match=r"corpus\.split: .* train, test"):
        read("datasets", tmp_path / "ds")
    with pytest.raises(SpecError, match=r"corpus\.split: .*'test'"):
        read("datasets", tmp_path / "ds", split="tset")


LINE_1, LINE_2 = ", line 1", ", line 2"
BAD = [
    ("jsonl", b'{"text": "secret"\n', LINE_1, "JSON at column"),
    ("jsonl", rb'{"text": "secret \uD83d"}', LINE_1, "surrogate"),
    ("jsonl", rb'{"text": "ok", "id": "\ud83d"}', LINE_1, "surrogate"),
    ("jsonl", b'["secret"]\n', LINE_1, "found list"),
    ("jsonl", b'{"text": "ok"}\n{"body": "secret"}\n', LINE_2, "corpus.text"),
    ("jsonl", b'{"text": "  ", "id": "7"}\n', LINE_1, "'text'"),
    ("jsonl", b'{"text": 5}\n', LINE_1, "'text' holds a number, not a text; write it as a"),
    ("jsonl", b'{"text": ["secret"]}\n', LINE_1, "'text' holds a list, not a text"),
    ("jsonl", b'{"text": null}\n', LINE_1, "'text' is empty; drop that record"),
    ("jsonl", b'{"text": "secret", "id": null}\n', LINE_1, "corpus.id"),
    ("jsonl", b'{"text": "secret", "labels": {"a": 1}}\n', LINE_1, "'labels' holds a dict"),
    ("jsonl", b'{"text": "secret", "labels": [{}]}\n', LINE_1, "'labels' holds a list of dict"),
    ("jsonl", b'{"text": "ok"}\n{"text": "secret \xe9"}\n', LINE_2, "corpus.encoding"),
    ("jsonl.gz", b"not gzip at all", ", after line 0", "gzip"),
    (
        "jsonl.gz",
        gzip.compress(b'{"text": "secret"}\n' * 99, mtime=0)[:-9],
        ", after line 99",
        "gzip",
    ),
    ("csv", b"text,site\nsecret,A,B\n", LINE_2, "3 cells where the header has 2"),
    ("csv", b"text,site\nsecret\n", LINE_2, "1 cell where the header has 2"),
    ("csv", b"text,text\na,b\n", LINE_1, "columns 1 and 2 have the same name"),
    ("csv", b"secret,secret\na,b\n", LINE_1, "columns 1 and 2 have the same name"),
    ("csv", b"7,my secret,A\n8,more,B\n", LINE_2, "there are 3 columns, whose names"),
    ("tsv", b"7\tmy secret\n8\tmore\n", LINE_2, "there are 2 columns, whose names"),
    ("csv", b"text of my secret\nmore\n", LINE_2, "there is one column, whose name"),
    ("csv", b"id;text\n1;my secret\n", LINE_2, "only one column was found: is the delimiter ';'"),
    ("csv", b"id\ttext\n1\tmy secret\n", LINE_2, "or a tab? .tsv is read with tabs"),
    ("csv", b'text\n"secret\n', LINE_2, "CSV"),
    ("csv", b"txet\nsecret\n", LINE_2, "'txet'"),
    ("parquet", b"PAR1 secret", "", "Parquet"),
]


@pytest.mark.parametrize(("ending", "data", "place", "said"), BAD)
def test_bad_input_names_its_place_without_text(
    tmp_path: Path, ending: str, data: bytes, place: str, said: str
) -> None:
    path = tmp_path / f"bad.{ending}"
    path.write_bytes(data)
    with pytest.raises(CorpusError) as caught:
        corpus(ending.partition(".")[0], path)
    assert caught.value.where == f"{path}{place}"
    message = str(caught.value)
    assert said in message
    assert "\n" not in message and "secret" not in message


@pytest.mark.parametrize("ending", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("role", ["id", "labels", "group"])
def test_a_named_field_that_no_record_has_is_refused(
    tmp_path: Path, ending: str, role: str
) -> None:
    path = tmp_path / f"r.{ending}"
    if ending == "parquet":
        pq.write_table(pa.Table.from_pylist([{"text": "a"}, {"text": "b"}]), path)
    else:
        put(path, {"jsonl": '{"text": "a"}\n{"text": "b"}\n', "csv": "text\na\nb\n"}[ending])
    said = rf"^.*r\.{ending}: no record has the field 'nope'; set corpus\.{role} .*\(known: text\)$"
    with pytest.raises(CorpusError, match=said):
        read(ending, path, **{role: "nope"})
    assert len(read(ending, path)) == 2


def test_an_empty_name_stands_for_no_field(tmp_path: Path) -> None:
    path = put(tmp_path / "r.csv", ",text,group,id,labels\n0,a,p,7,x\n1,b,p,8,y\n")
    found = read("csv", path, group="", id="", labels="")
    assert [(r.id, r.group, r.labels) for r in found] == [("2", None, ()), ("3", None, ())]
    assert found[0].meta == {"": "0", "group": "p", "id": "7", "labels": "x"}


def test_a_named_field_that_some_record_has_is_read(tmp_path: Path) -> None:
    rows = [{"text": "a"}, {"text": "b", "patient": 7}]
    found = read("jsonl", jsonl(tmp_path / "r.jsonl", rows), group="patient")
    assert [record.group for record in found] == [None, "7"]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "parquet"])
def test_a_missing_file_names_path_and_key(tmp_path: Path, kind: str) -> None:
    with pytest.raises(CorpusError, match=r"corpus\.path") as caught:
        read(kind, tmp_path / "gone")
    assert caught.value.where == str(tmp_path / "gone")


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_what_is_not_a_regular_file_is_refused(tmp_path: Path, kind: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(CorpusError, match=r"not a regular file; .*corpus\.path"):
            read(kind, path)


def test_a_folder_in_place_of_a_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"folder.*corpus\.path"):
        read("jsonl", tmp_path)


def test_a_folder_without_data_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"holds no \.parquet file"):
        read("parquet", tmp_path)
    with pytest.raises(CorpusError, match="save_to_disk"):
        read("datasets", tmp_path)
    (tmp_path / "state.json").write_text("{")
    with pytest.raises(CorpusError, match=r"state\.json: not a JSON object"):
        read("datasets", tmp_path)


@pytest.mark.parametrize("data", ["", "\n\n"])
def test_an_empty_corpus_is_refused(tmp_path: Path, data: str) -> None:
    with pytest.raises(CorpusError, match=r"^r: "):
        corpus("jsonl", put(tmp_path / "r.jsonl", data))


def test_one_id_on_two_texts_is_refused(tmp_path: Path) -> None:
    rows = [{"id": "7", "text": "one"}, {"id": 7, "text": "two"}]
    with pytest.raises(CorpusError, match=r"^r: .*'7'"):
        corpus("jsonl", jsonl(tmp_path / "r.jsonl", rows))


def test_an_unknown_encoding_names_its_key() -> None:
    with pytest.raises(UserError, match=r"corpus\.encoding: 'uft-99'"):
        read("csv", Path("x.csv"), encoding="uft-99")
