"""Readers of published corpora, on files of their true shape that the tests write."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from synthleak.core.errors import CorpusError, MissingExtra, SpecError
from synthleak.corpus.corpus import Record, assemble, readers


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


def test_psytar_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = psytar(tmp_path / "a.xlsx", [["id", "drug_id", "sentences", "ADR"]])
    with pytest.raises(CorpusError, match=r"sheet Sentence_Labeling: there is no column 'WD'"):
        read("psytar", path=str(path))
    path = psytar(tmp_path / "b.xlsx", [], sheet="Other")
    with pytest.raises(CorpusError, match=r"no sheet 'Sentence_Labeling'; it holds: Sample, Other"):
        read("psytar", path=str(path))
    (tmp_path / "c.xlsx").write_bytes(b"not a workbook")
    with pytest.raises(CorpusError, match=r"not a whole \.xlsx workbook; fetch it again"):
        read("psytar", path=str(tmp_path / "c.xlsx"))
    with pytest.raises(CorpusError, match="no such file"):
        read("psytar", path=str(tmp_path / "d.xlsx"))
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(
        MissingExtra, match=r"needs the package openpyxl; pip install 'synthleak\[xlsx"
    ):
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
    with pytest.raises(
        CorpusError, match="line 1: the first cell is not a sentiment; a row holds one"
    ):
        read("dmsafn", path=str(path))
    path.write_text('neutral,""\n')
    with pytest.raises(CorpusError, match="line 1: the second cell holds no text"):
        read("dmsafn", path=str(path))
    with pytest.raises(SpecError, match=r"corpus\.split: 1\.5: should be less than or equal to 1"):
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
    with pytest.raises(CorpusError, match="no such folder"):
        read("eurlex57k", path=str(tmp_path / "gone"))
    with pytest.raises(CorpusError, match=r"the folder holds no \.json file"):
        read("eurlex57k", path=str(tmp_path))
    (tmp_path / "x.json").write_text('{"title": "t", "concepts": "10"}')
    with pytest.raises(CorpusError, match=r"x\.json: 'concepts' is not a list of concepts"):
        read("eurlex57k", path=str(tmp_path))
    (tmp_path / "x.json").write_text('{"concepts": ["10"]}')
    with pytest.raises(CorpusError, match=r"x\.json: none of title, header, recitals, main_body"):
        read("eurlex57k", path=str(tmp_path))
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(CorpusError, match=r"x\.json: not a JSON object"):
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
    with pytest.raises(CorpusError, match="no textual judgment is there; sources there: intuitive"):
        read("n2c2", **{**files, "annotations": files["annotations"][1]}, source="textual")
    (tmp_path / "records.xml").write_text(RECORDS[:120])
    with pytest.raises(CorpusError, match=r"records\.xml, line \d+: not valid XML at column \d+"):
        read("n2c2", **files)
    (tmp_path / "records.xml").write_text('<root><docs><doc id="1"/></docs></root>')
    with pytest.raises(CorpusError, match="the document '1' has no text; a document is"):
        read("n2c2", **files)
    (tmp_path / "records.xml").unlink()
    with pytest.raises(CorpusError, match="no such file"):
        read("n2c2", **files)


def test_a_published_corpus_is_assembled_like_any_other(tmp_path: Path) -> None:
    path = dmsafn(tmp_path / "all-data.csv", rows=30)
    path.write_bytes(path.read_bytes() + b"\r\nneutral,profit before taxes")
    reader = readers.build("dmsafn", {"path": str(path)}, key="reader", where=("corpus",))
    corpus = assemble(reader)
    assert corpus.name == "dmsafn"
    assert len(corpus) == 31
    assert corpus.label_names == ("negative", "neutral", "positive")
