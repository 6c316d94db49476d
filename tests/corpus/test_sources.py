"""Records from files of any kind and from what a session holds; members and holdout by role."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
import pyarrow.parquet
import pytest

from synthleak.core.errors import CorpusError, UserError
from synthleak.corpus import assemble
from synthleak.corpus.readers.split import SplitFiles
from synthleak.corpus.sources import Rows, numbered_rows, rows_in
from synthleak.corpus.statistics import looks_foreign

ROWS = [{"id": "1", "text": "one fish"}, {"id": "2", "text": "two fish"}]


def written(folder: Path, kind: str) -> Path:
    path = folder / f"rows.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    elif kind in ("csv", "tsv"):
        mark = "," if kind == "csv" else "\t"
        lines = [mark.join(ROWS[0]), *(mark.join(row.values()) for row in ROWS)]
        path.write_text("\n".join(lines), encoding="utf-8")
    elif kind == "txt":
        path.write_text("\n".join(row["text"] for row in ROWS) + "\n", encoding="utf-8")
    elif kind == "parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), path)
    else:
        path.mkdir()
        table = pyarrow.Table.from_pylist(ROWS)
        with pyarrow.ipc.new_stream(path / "data.arrow", table.schema) as stream:
            stream.write_table(table)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "csv", "tsv", "txt", "parquet", "folder"])
def test_files_of_every_kind_hold_the_same_rows(tmp_path: Path, kind: str) -> None:
    rows = numbered_rows(written(tmp_path, kind), text="text", key="--members")
    assert [row["text"] for _, _, row in rows] == ["one fish", "two fish"]


@pytest.mark.parametrize(
    "data",
    [
        ROWS,
        tuple(ROWS),
        (row for row in ROWS),
        ["one fish", "two fish"],
        pandas.DataFrame(ROWS),
        pandas.DataFrame(ROWS)["text"],
        polars.DataFrame(ROWS),
        polars.DataFrame(ROWS)["text"],
        pyarrow.Table.from_pylist(ROWS),
        pyarrow.array(["one fish", "two fish"]),
    ],
    ids=lambda data: f"{type(data).__module__.partition('.')[0]}-{type(data).__name__}",
)
def test_lists_frames_and_columns_hold_the_same_texts(data: Any) -> None:
    rows = numbered_rows(rows_in(data, "members"), text="text", key="members")
    assert [row["text"] for _, _, row in rows] == ["one fish", "two fish"]


MIXED = {
    "id": [1, 2],
    "text": ["one fish", "two fish"],
    "labels": [["b", "a"], None],
    "age": [None, 81],
    "day": [datetime.date(2020, 1, 2), None],
}


@pytest.mark.parametrize(
    "frame", [pandas.DataFrame(MIXED), polars.DataFrame(MIXED)], ids=["pandas", "polars"]
)
def test_frames_with_missing_and_typed_cells_make_one_corpus(frame: Any) -> None:
    """A missing cell is None in polars and NaN in pandas, which turns whole numbers to floats."""
    rows = Rows(tuple(rows_in(frame, "members").rows))
    records = [r for r in assemble(reader(members=rows)).records if r.id.startswith("members")]
    assert [(r.text, r.labels) for r in records] == [("one fish", ("a", "b")), ("two fish", ())]
    assert [r.meta for r in records] == [
        {"age": None, "day": "2020-01-02"},
        {"age": 81, "day": None},
    ]


@pytest.mark.parametrize("data", [7, {"text": "a"}, b"bytes"])
def test_what_holds_no_records_is_refused(data: Any) -> None:
    with pytest.raises(UserError, match="holds no records"):
        rows_in(data, "members")


def reader(**changes: Any) -> SplitFiles:
    settings: dict[str, Any] = {
        "members": Rows(("a one", "b two", "b  TWO")),
        "holdout": Rows(("c three", "b two")),
    }
    return SplitFiles(**{**settings, **changes})


def test_copies_stay_and_ids_are_made_unique() -> None:
    made = assemble(reader())
    assert made.split is not None and made.split.roles == ("members",) * 3 + ("holdout",) * 2
    assert [record.id for record in made.records] == [
        "members:1",
        "members:2",
        "members:3",
        "holdout:1",
        "holdout:2",
    ]
    own = assemble(reader(members=Rows(tuple(ROWS)), holdout=Rows(({"id": "x", "text": "c"},) * 2)))
    assert [record.id for record in own.records][:2] == ["members:1", "members:2"]


def test_a_reference_that_repeats_others_loses_those() -> None:
    made = assemble(reader(reference=Rows(("new 1", "new 2", "NEW 2", "c three", "a one"))))
    assert made.split is not None and made.split.dropped == 3
    assert made.split.positions("reference") == [5, 6]


def test_the_declaration_is_part_of_what_the_corpus_is() -> None:
    prints = {
        assemble(reader(**changes)).fingerprint
        for changes in ({}, {"declared": "random"}, {"insist": True})
    }
    assert len(prints) == 3


@pytest.mark.parametrize(
    ("changes", "where", "said"),
    [
        ({"members": Path("none.jsonl")}, "none.jsonl", "corpus.members"),
        ({"holdout": Rows(({"body": "x"},) * 2)}, "corpus.holdout, record 1", "corpus.text"),
        ({"holdout": Rows(("one",))}, "holdout", "1 record"),
        ({"holdout": Rows((3, 4))}, "corpus.holdout, record 1", "int"),
        ({"members": Path("(from memory)")}, "corpus.members", "synthleak.check"),
        ({"reference": Rows(("a one", "x"))}, "reference", "1 of 2"),
    ],
)
def test_a_mistake_names_its_place(changes: dict[str, Any], where: str, said: str) -> None:
    with pytest.raises(CorpusError) as caught:
        assemble(reader(**changes))
    assert caught.value.where == where
    assert said in str(caught.value)


def test_the_fields_that_were_found_are_named() -> None:
    with pytest.raises(CorpusError, match="known: body, name"):
        assemble(reader(holdout=Rows(({"body": "x", "name": "y"},) * 2)))


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("She took the tablets in the morning and then slept on the couch.", False),
        ("Operating profit rose to EUR 13.1 mn from EUR 8.7 mn in the same period", False),
        ("Sie nahm die Tabletten am Morgen und schlief dann auf dem Sofa.", True),
        ("Elle a pris ses comprimés le matin, puis elle a dormi.", True),
        ("他早上吃了药然后睡着了", True),
        ("12 34", False),
    ],
)
def test_english_is_told_from_other_languages(text: str, foreign: bool) -> None:
    assert (looks_foreign([text]) is not None) == foreign
