"""Published files of the public corpora become the study's data."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from support.scripts import script


def made(to: Path, *words: object) -> tuple[list[dict[str, Any]], int]:
    """Return the records that a step writes, and its exit status."""
    with pytest.raises(SystemExit) as end:
        script("data").main(["--to", str(to), *map(str, words)])
    status = end.value.code
    assert isinstance(status, int)
    path = to / f"{words[0]}.jsonl.gz"
    lines = gzip.decompress(path.read_bytes()).decode().splitlines() if path.is_file() else []
    return [json.loads(line) for line in lines], status


def test_dmsafn_takes_the_training_part_in_its_drawn_order(tmp_path: Path) -> None:
    source = tmp_path / "all-data.csv"
    rows = [f'neutral,"Profit of {n} m, says É"\n' for n in range(11)]
    source.write_text("".join(rows), encoding="latin-1")
    records, _ = made(tmp_path / "data", "dmsafn", source)
    # sklearn.model_selection.train_test_split(range(11), test_size=0.2, random_state=42)[0]
    places = [10, 2, 1, 8, 4, 7, 3, 6]
    assert [r["id"] for r in records] == [f"fpb-{place:04d}" for place in places]
    assert records[0] == {"id": "fpb-0010", "text": "Profit of 10 m, says É", "labels": ["neutral"]}


def test_goemotions_gets_emotions_by_name_in_their_order(tmp_path: Path) -> None:
    (tmp_path / "emotions.txt").write_text("admiration\nneutral\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("So “good”\t0,1\ted1\nOk\t1\ted2\n", encoding="utf-8")
    records, _ = made(tmp_path / "data", "goemotions", tmp_path)
    assert records == [
        {"id": "ed1", "text": "So “good”", "labels": ["admiration", "neutral"]},
        {"id": "ed2", "text": "Ok", "labels": ["neutral"]},
    ]


def test_malformed_goemotions_line_is_named_by_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "emotions.txt").write_text("admiration\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("fine\t0\ted1\nsecret words\t7\ted2\n", encoding="utf-8")
    _, status = made(tmp_path / "data", "goemotions", tmp_path)
    told = capsys.readouterr().err
    assert status == 2 and "line 2" in told and "secret" not in told


def test_mts_dialog_joins_its_four_parts(tmp_path: Path) -> None:
    for part in ("TrainingSet", "ValidationSet", "TestSet-1", "TestSet-2"):
        text = f'ID,section_header,dialogue\n0,GENHX,"Doctor: {part}?\r\nPatient: no. "\n'
        (tmp_path / f"MTS-Dialog-{part}.csv").write_text(text, encoding="utf-8", newline="")
    records, _ = made(tmp_path / "data", "mts_dialog", tmp_path)
    assert [r["id"] for r in records] == ["mtsd-tr-0", "mtsd-va-0", "mtsd-t1-0", "mtsd-t2-0"]
    assert records[0]["text"] == "Doctor: TrainingSet?\r\nPatient: no."
    assert records[0]["labels"] == ["genhx"]


@pytest.fixture
def laws(tmp_path: Path) -> Path:
    folder = tmp_path / "EURLEX57K"
    for part, name in (("train", "31998D0283"), ("dev", "31975R0897")):
        (folder / part).mkdir(parents=True)
        law = {"celex_id": name, "title": "left out", "header": f"No {name}", "recitals": ",\nwe"}
        law |= {"main_body": ["Article 1", "End."], "concepts": ["7", "9", "8"]}
        (folder / part / f"{name}.json").write_text(json.dumps(law), encoding="utf-8")
    rows = 'concept,label\n7,TRADE\n8,"AGRICULTURE, FORESTRY AND FISHERIES"\n9,LAW\n'
    (tmp_path / "domains.csv").write_text(rows, encoding="utf-8")
    return folder


def test_laws_are_those_of_the_study_folded_to_eight_domains(laws: Path, tmp_path: Path) -> None:
    ids = tmp_path / "ids.txt"
    ids.write_text("31975R0897\n31998D0283\n", encoding="utf-8")
    folding = ("--folding", tmp_path / "domains.csv", "--ids", ids)
    records, _ = made(tmp_path / "data", "eurlex", laws, *folding)
    assert [r["id"] for r in records] == ["31975R0897", "31998D0283"]
    assert records[0]["text"] == "No 31975R0897\n,\nwe\nArticle 1\nEnd."
    assert records[0]["labels"] == ["AGRICULTURE, FORESTRY AND FISHERIES", "TRADE"]


def test_laws_that_are_missing_are_counted(
    laws: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folding = ("--folding", tmp_path / "domains.csv")
    _, status = made(tmp_path / "data", "eurlex", laws, *folding)
    assert status == 2 and "4940 laws of the study are not there" in capsys.readouterr().err


def test_exit_status_says_whether_the_checksum_agrees(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "emotions.txt").write_text("neutral\n", encoding="utf-8")
    (tmp_path / "dev.tsv").write_text("Ok\t0\ted2\n", encoding="utf-8")
    to = tmp_path / "data"
    assert made(to, "goemotions", tmp_path)[1] == 1
    assert "NOT the study's file" in capsys.readouterr().out
    lines = gzip.decompress((to / "goemotions.jsonl.gz").read_bytes())
    monkeypatch.setitem(script("data").SHA256, "goemotions", hashlib.sha256(lines).hexdigest())
    assert made(to, "goemotions", tmp_path)[1] == 0
    assert made(to, "check")[1] == 1  # the three others are not there


def test_laws_that_differ_in_digits_alone_are_kept_once(tmp_path: Path) -> None:
    texts = ("Rate of 3.5 % on 1.2.1990", "Rate of 7.1 % on 9.9.1991", "Rate of 3 % on 1 May")
    rows = [{"id": f"{n}", "text": text, "labels": ["TRADE"]} for n, text in enumerate(texts)]
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    (tmp_path / "eurlex.jsonl.gz").write_bytes(gzip.compress(lines))
    with pytest.raises(SystemExit) as end:
        script("data").main(["--to", str(tmp_path), "single"])
    kept = gzip.decompress((tmp_path / "eurlex-single.jsonl.gz").read_bytes()).decode()
    assert end.value.code == 0 and [json.loads(x)["id"] for x in kept.split("\n")[:-1]] == [
        "0",
        "2",
    ]
