"""Readers of published corpora, on files of their true shape that the tests write."""

from __future__ import annotations

import json
import re
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from support.errors import raises_at
from synthleak.core.errors import CorpusError, MissingExtra, SpecError
from synthleak.corpus import Record, assemble, readers


def read(kind: str, **settings: Any) -> list[Record]:
    reader = readers.build(kind, settings, key="reader", where=("corpus",))
    return list(reader.read())


PSYTAR_HEADER = ["id", "drug_id", "sentence_index", "sentences"]
PSYTAR_HEADER += ["ADR", "WD", "EF", "INF", "SSI", "DI", "Others", "rating"]


def psytar_rows() -> list[list[Any]]:
    """Return rows as published: marks of all kinds, empty sentences, totals at the end."""
    n = None
    return [
        [1, "lexapro.1", 1, " I could not sleep. ", 1, n, n, n, "!", n, n, 4],
        [2, "lexapro.1", 2, "It works.", n, n, "* ", n, n, n, n, 4],
        [3, "lexapro.2", 1, "I am 42.", n, n, n, n, n, n, 1, 2],
        [4, "lexapro.2", 2, None, n, n, n, n, n, n, n, 2],
        [5, "lexapro.2", 3, "   ", 1, n, n, n, n, n, n, 2],
        [6, "zoloft.1", 1, "No idea.", 0, n, n, n, " ", n, n, 5],
        [n, n, n, "total", 2168, 438, 1087, 337, 789, 466, 1000, n],
    ]


def psytar(path: Path, rows: list[list[Any]], sheet: str = "Sentence_Labeling") -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.title = "Sample"
    page = book.create_sheet(sheet)
    for row in rows:
        page.append(row)
    book.save(path)
    return path


def test_psytar_accepts_any_mark_and_skips_blanks(tmp_path: Path) -> None:
    path = psytar(tmp_path / "PsyTAR_dataset.xlsx", [PSYTAR_HEADER, *psytar_rows()])
    records = read("psytar", path=str(path))
    assert [(r.id, r.text, r.labels, r.group) for r in records] == [
        ("psytar-2", "I could not sleep.", ("ADR", "SSI"), "lexapro.1"),
        ("psytar-3", "It works.", ("EF",), "lexapro.1"),
        ("psytar-4", "I am 42.", ("Others",), "lexapro.2"),
        ("psytar-7", "No idea.", (), "zoloft.1"),
    ]
    assert records[0].meta == {"drug_id": "lexapro.1", "sentence_index": 1, "rating": 4}


def test_psytar_fills_in_no_more_rows_than_a_sheet_has(tmp_path: Path) -> None:
    whole = psytar(tmp_path / "whole.xlsx", [PSYTAR_HEADER, *psytar_rows()])
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(whole) as one, zipfile.ZipFile(path, "w") as two:
        for name in one.namelist():
            data = one.read(name)
            if name.endswith("sheet2.xml"):
                assert b'r="8"' in data
                data = data.replace(b'r="8"', b'r="99999999999"').replace(b":L8", b":L99999999999")
            two.writestr(name, data)
    assert len(read("psytar", path=str(path))) == 4


def test_psytar_at_full_size_gives_the_studys_split(tmp_path: Path) -> None:
    rows = [[n, f"drug.{n // 7}", n, f"sentence {n}", 1, *[None] * 7] for n in range(6003)]
    path = psytar(tmp_path / "PsyTAR_dataset.xlsx", [PSYTAR_HEADER, *rows])
    whole = read("psytar", path=str(path))
    part = read("psytar", path=str(path), split=0.85)
    assert (len(whole), len(part)) == (6003, 5102)
    chosen = {record.id for record in part}
    assert part == [record for record in whole if record.id in chosen]
    assert part == read("psytar", path=str(path), split=0.85)
    assert part != read("psytar", path=str(path), split=0.85, split_seed=1)


def test_split_above_one_is_a_number_of_records(tmp_path: Path) -> None:
    path = dmsafn(tmp_path / "all-data.csv", rows=40)
    assert len(read("dmsafn", path=str(path), split=7)) == 7
    with raises_at(CorpusError, "corpus.split", "hold 40 records"):
        read("dmsafn", path=str(path), split=41)
    with pytest.raises(SpecError, match="a number of records is whole"):
        read("dmsafn", path=str(path), split=7.5)


def test_psytar_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = psytar(tmp_path / "a.xlsx", [["id", "drug_id", "sentences", "ADR"]])
    with raises_at(CorpusError, f"{path}, sheet Sentence_Labeling", "'WD'"):
        read("psytar", path=str(path))
    path = psytar(tmp_path / "b.xlsx", [], sheet="Other")
    with raises_at(CorpusError, path, "'Sentence_Labeling'", "Sample, Other"):
        read("psytar", path=str(path))
    (tmp_path / "c.xlsx").write_bytes(b"not a workbook")
    for name in ("c.xlsx", "gone.xlsx"):
        with raises_at(CorpusError, tmp_path / name):
            read("psytar", path=str(tmp_path / name))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"openpyxl.*pip install 'synthleak\[xlsx\]'"):
        read("psytar", path=str(path))


def dmsafn(path: Path, rows: int = 4846) -> Path:
    kinds = ("neutral", "positive", "negative")
    lines = [
        f'{kinds[n % 3]},"Profit, before taxes, was EUR {n} mn , up 5 % ."' for n in range(rows)
    ]
    lines[1] = 'positive,"The ""Pöyry"" café deal \x96 signed"'
    path.write_bytes("\r\n".join(lines).encode("latin-1"))
    return path


def test_dmsafn_is_latin_1_without_a_header(tmp_path: Path) -> None:
    path = str(dmsafn(tmp_path / "all-data.csv"))
    records = read("dmsafn", path=path)
    assert len(records) == 4846
    assert records[0] == Record(
        "dmsafn-1", "Profit, before taxes, was EUR 0 mn , up 5 % .", ("neutral",)
    )
    assert records[1].text == 'The "Pöyry" café deal \x96 signed'
    assert set(Counter(r.labels for r in records)) == {("neutral",), ("positive",), ("negative",)}
    assert len(read("dmsafn", path=path, split=0.8)) == 3876


def test_dmsafn_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "all-data.csv"
    path.write_text("label,text\nneutral,secret\n")
    with raises_at(CorpusError, f"{path}, line 1", "negative, neutral, positive") as caught:
        read("dmsafn", path=str(path))
    assert "label,text" not in str(caught.value)
    path.write_text('neutral,""\n')
    with raises_at(CorpusError, f"{path}, line 1"):
        read("dmsafn", path=str(path))
    with raises_at(SpecError, "corpus.split", "1.5"):
        read("dmsafn", path=str(path), split=1.5)


def law(number: int, concepts: list[str]) -> dict[str, Any]:
    return {
        "celex_id": f"3{number:04d}",
        "uri": f"http://publications.europa.eu/resource/cellar/{number}",
        "type": "Decision",
        "concepts": concepts,
        "title": f"Commission Decision {number}",
        "header": "THE COMMISSION,",
        "recitals": "Whereas:",
        "main_body": ["Article 1", "", "Article 2"],
        "attachments": "Done at Brussels",
    }


def eurlex(folder: Path) -> Path:
    laws = [["10", "20"], ["10"], ["30"], ["10", "40"], ["20"]]
    for number, concepts in enumerate(laws):
        place = folder / ("train" if number < 4 else "dev")
        place.mkdir(parents=True, exist_ok=True)
        (place / f"3{number:04d}.json").write_text(json.dumps(law(number, concepts)))
    return folder


def test_eurlex_reads_a_folder_of_laws(tmp_path: Path) -> None:
    records = read("eurlex57k", path=str(eurlex(tmp_path)))
    assert [r.id for r in records] == ["30004", "30000", "30001", "30002", "30003"]
    assert records[1].text == (
        "Commission Decision 0\nTHE COMMISSION,\nWhereas:\nArticle 1\nArticle 2"
    )
    assert records[1].labels == ("10", "20")
    assert records[1].meta == {"type": "Decision", "part": "train"}


def test_eurlex_keeps_the_most_frequent_labels(tmp_path: Path) -> None:
    records = read("eurlex57k", path=str(eurlex(tmp_path)), top=2)
    assert {r.id: r.labels for r in records} == {
        "30000": ("10", "20"),
        "30001": ("10",),
        "30003": ("10",),
        "30004": ("20",),
    }


@pytest.mark.parametrize("form", ["csv", "json"])
def test_eurlex_folds_concepts(tmp_path: Path, form: str) -> None:
    table = tmp_path / f"domains.{form}"
    if form == "csv":
        table.write_text("concept,label\n10,TRADE\n20,TRADE\n30,LAW\n30,FINANCE\n")
    else:
        table.write_text('{"10": "TRADE", "20": "TRADE", "30": ["LAW", "FINANCE"]}')
    records = read("eurlex57k", path=str(eurlex(tmp_path / "laws")), folding=str(table))
    labels = {r.id: r.labels for r in records}
    assert labels["30000"] == ("TRADE",)
    assert labels["30002"] == ("FINANCE", "LAW")
    assert labels["30003"] == ("TRADE",)


def test_eurlex_mistakes(tmp_path: Path) -> None:
    with raises_at(CorpusError, tmp_path / "gone", "corpus.path"):
        read("eurlex57k", path=str(tmp_path / "gone"))
    with raises_at(CorpusError, tmp_path, ".json", "corpus.path"):
        read("eurlex57k", path=str(tmp_path))
    for content, named in (
        ('{"title": "t", "concepts": "10"}', "'concepts'"),
        ('{"concepts": ["10"]}', "title, header, recitals, main_body"),
        ("{", "JSON"),
    ):
        (tmp_path / "x.json").write_text(content)
        with raises_at(CorpusError, tmp_path / "x.json", named):
            read("eurlex57k", path=str(tmp_path))


RECORDS = """<?xml version="1.0" encoding="UTF-8"?>
<root><docs>
<doc id="1"><text>Admitted with CHF &amp; obesity.
Discharged home.</text></doc>
<doc id="2"><text>Asthma, stable.</text></doc>
<doc id="3"><text>Never judged.</text></doc>
</docs></root>"""
ANNOTATIONS = """<?xml version="1.0" encoding="UTF-8"?>
<diseaseset>
<diseases source="intuitive">
<disease name="CHF"><doc id="1" judgment="Y"/><doc id="2" judgment="N"/></disease>
<disease name="Obesity"><doc id="1" judgment="Y"/><doc id="2" judgment="Q"/></disease>
<disease name="Venous Insufficiency"><doc id="9" judgment="Y"/></disease>
</diseases>
<diseases source="textual">
<disease name="CHF"><doc id="1" judgment="Y"/><doc id="2" judgment="U"/></disease>
</diseases>
</diseaseset>"""


def n2c2(folder: Path) -> dict[str, Any]:
    (folder / "records.xml").write_text(RECORDS)
    (folder / "more.xml").write_text(
        '<root><docs><doc id="4"><text>Asthma.</text></doc></docs></root>'
    )
    (folder / "judged.xml").write_text(ANNOTATIONS)
    (folder / "addendum.xml").write_text(
        '<diseaseset><diseases source="intuitive"><disease name="Asthma">'
        '<doc id="2" judgment="Y"/><doc id="4" judgment="N"/></disease></diseases></diseaseset>'
    )
    return {
        "records": [str(folder / "records.xml"), str(folder / "more.xml")],
        "annotations": [str(folder / "judged.xml"), str(folder / "addendum.xml")],
    }


def test_n2c2_joins_records_and_judgments(tmp_path: Path) -> None:
    records = read("n2c2", **n2c2(tmp_path))
    assert {r.id: r.labels for r in records} == {
        "1": ("CHF", "Obesity"),
        "2": ("Asthma",),
        "4": (),  # judged, and found to have none
    }
    assert records[0].text == "Admitted with CHF & obesity.\nDischarged home."


def test_n2c2_source_and_judgments_are_settings(tmp_path: Path) -> None:
    files = n2c2(tmp_path)
    textual = read("n2c2", **files, source="textual")
    assert {r.id: r.labels for r in textual} == {"1": ("CHF",), "2": ()}
    doubtful = read("n2c2", **files, judgments=["Y", "Q"])
    assert doubtful[1].labels == ("Asthma", "Obesity")


def test_n2c2_mistakes(tmp_path: Path) -> None:
    files = n2c2(tmp_path)
    annotations = files["annotations"][1]
    with raises_at(CorpusError, annotations, "textual", "intuitive", "corpus.source"):
        read("n2c2", **{**files, "annotations": annotations}, source="textual")
    records = tmp_path / "records.xml"
    records.write_text(RECORDS[:120])
    with pytest.raises(CorpusError) as caught:
        read("n2c2", **files)
    assert re.fullmatch(rf"{re.escape(str(records))}, line \d+", caught.value.where or "")
    records.write_text('<root><docs><doc id="1"/></docs></root>')
    with raises_at(CorpusError, records, "'1'"):
        read("n2c2", **files)
    records.unlink()
    with raises_at(CorpusError, records):
        read("n2c2", **files)


def test_a_published_corpus_is_assembled_like_any_other(tmp_path: Path) -> None:
    path = dmsafn(tmp_path / "all-data.csv", rows=30)
    path.write_bytes(path.read_bytes() + b"\r\nneutral,profit before taxes")
    reader = readers.build("dmsafn", {"path": str(path)}, key="reader", where=("corpus",))
    corpus = assemble(reader)
    assert corpus.name == "dmsafn"
    assert len(corpus) == 31
    assert corpus.label_names == ("negative", "neutral", "positive")
