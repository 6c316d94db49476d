"""SARIF: what a release gives away, at the lines of its file."""

from __future__ import annotations

import contextlib
import csv
import json
from pathlib import Path
from typing import Any

import pytest

import synthleak
from synthleak.audit.sarif import RULES, sarif
from synthleak.corpus.readers.demo import Demo

SCHEMA = Path(__file__).parents[1] / "support" / "sarif-2.1.0.json"
TEXTS = [record.text for record in Demo(size=200, seed=5).read()]
MEMBERS, HOLDOUT, OTHERS = TEXTS[:60], TEXTS[60:120], TEXTS[120:180]
COPIED = 12


@pytest.fixture(scope="module")
def leaking(tmp_path_factory: pytest.TempPathFactory) -> tuple[synthleak.Audit, Path]:
    """A check of a CSV file, where a row is not a line."""
    folder = tmp_path_factory.mktemp("sarif")
    with (folder / "made here.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text"])
        writer.writerow(["a text\nof two lines"])
        writer.writerows([text] for text in [*OTHERS[COPIED:], *MEMBERS[:COPIED]])
    audit = synthleak.check(
        MEMBERS,
        HOLDOUT,
        folder / "made here.csv",
        random_split=True,
        encoder="hashing",
        out=folder / "run",
        progress=False,
        runtime=synthleak.Runtime(workers=1),
    )
    return audit, folder


def written(audit: synthleak.Audit, folder: Path) -> dict[str, Any]:
    with contextlib.chdir(folder):
        content: dict[str, Any] = json.loads(sarif(audit))
    return content


def test_sarif_is_valid(leaking: tuple[synthleak.Audit, Path]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    content = written(*leaking)
    valid = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text(encoding="utf-8")))
    valid.validate(content)
    (run,) = content["runs"]
    assert {"leak-found", "copied-record"} <= {one["ruleId"] for one in run["results"]} <= {*RULES}
    region = {"startLine": 0}
    for wrong in ({"version": "2.0.0"}, {"runs": [{"results": []}]}, {"rows": []}):
        assert not valid.is_valid({**content, **wrong})
    place = run["results"][-1]["locations"][0]["physicalLocation"]
    assert "region" in place and place["region"] != region
    place["region"] = region
    assert not valid.is_valid(content)


def test_copies_are_shown_at_their_lines(leaking: tuple[synthleak.Audit, Path]) -> None:
    audit, folder = leaking
    results = written(audit, folder)["runs"][0]["results"]
    copied = [one for one in results if one["ruleId"] == "copied-record"]
    assert len(copied) == COPIED and {one["level"] for one in copied} == {"error"}
    places = [one["locations"][0]["physicalLocation"] for one in copied]
    assert {place["artifactLocation"]["uri"] for place in places} == {"made%20here.csv"}
    lines = (folder / "made here.csv").read_text(encoding="utf-8").splitlines()
    shown = [lines[place["region"]["startLine"] - 1].strip('"') for place in places]
    assert sorted(text.replace('""', '"') for text in shown) == sorted(MEMBERS[:COPIED])


def test_sarif_holds_no_text_and_no_id(leaking: tuple[synthleak.Audit, Path]) -> None:
    audit, _ = leaking
    content = sarif(audit)
    assert not [text for text in TEXTS if text in content]
    assert not [row.record for row in audit.copies if row.record in content]
