"""Who leaks: the table of records by id."""

from __future__ import annotations

from typing import Any

from synthleak.core.cell import Cell
from synthleak.core.verdict import FOUND, WORDS
from synthleak.report.page.material import Material
from synthleak.report.page.names import verdicts
from synthleak.report.page.sheets import Column, sheet, telling

VERDICT = "verdict of the cell"

COLUMNS = (
    Column("record", "Record"),
    Column("v_rank", "Rank", "count", "within its cell, 1 is the most exposed"),
    Column("v", "V", "signed", "higher means that releases reveal it more"),
    Column("auc", "AUC", "figure", "of releases with it against those without; check: of holdout"),
    Column("p_value", "p", "chance"),
    Column("q_value", "q", "chance", "false-discovery rate at which it would be named"),
    Column("named", "Named", "words", "q ≤ 0.1; in a check also by a copy, word for word"),
    Column("pool", "Pool"),
    Column("generator", "Generator"),
    Column("epsilon", "ε", "budget"),
    Column("top_tenth", "Top tenth"),
    Column("joined", "In", "count", "releases that held it"),
    Column("absent", "Out", "count", "releases that did not"),
    Column("scenario", "Attacker"),
    Column("proxy", "Proxy"),
    Column("nearest_row", "Nearest row", "count", "of the release, from 1"),
    Column("similarity", "Similarity", "figure", "of that row: Jaccard, character 5-grams"),
)

OF_GAMES = ("v_rank", "top_tenth")
"""Columns that say less than q in a check."""

NEAREST = (
    Column("release", "Release"),
    Column("row", "Synthetic row", "count", "of the release, from 1"),
    Column("similarity", "Similarity", "figure", "Jaccard, character 5-grams"),
)


def record_sheet(material: Material) -> dict[str, Any] | None:
    """Return the table of records for the page to draw; None where nothing compares records.

    Columns that tell no rows apart are left out. Records that are named are shown at first, else
    those of cells with a leak: ranks in the others are noise.
    """
    rows = material.rows("records")
    if not rows:
        return None
    given = "check" in material.summary
    columns = [column for column in COLUMNS if not given or column.field not in OF_GAMES]
    made = sheet("records", rows, telling(rows, columns))
    said = _verdicts(material)
    if len(said["words"]) > 1:
        made["columns"].append(said)
        if WORDS[FOUND] in said["words"]:
            made["chosen"] = {VERDICT: WORDS[FOUND]}
    if named(material):
        made.setdefault("chosen", {})["named"] = "yes"
    if material.texts:
        ids = made["columns"][0]["words"]
        made["texts"] = [material.texts.get(word, "") for word in ids]
    return made | {"nearest": _nearest(material)}


def _nearest(material: Material) -> dict[str, Any]:
    """Return the synthetic rows most like each named record: by its row of `records`."""
    places: dict[tuple[Cell, str], list[int]] = {}
    for place, row in enumerate(material.rows("nearest")):
        places.setdefault((Cell.of(row), row.record), []).append(place)
    of_record = {
        number: places[key]
        for number, row in enumerate(material.rows("records"))
        if (key := (Cell.of(row), row.record)) in places
    }
    rows = material.rows("nearest")
    shown = NEAREST if len({row.release for row in rows}) > 1 else NEAREST[1:]
    return sheet("nearest", rows, shown) | {
        "of": of_record,
        "texts": list(material.nearest_texts),
    }


def _verdicts(material: Material) -> dict[str, Any]:
    """Return the verdict on every row's cell: "leak found", whether or not a claim is broken."""
    words = {one.cell: WORDS[FOUND] if one.leaks else one.words for one in verdicts(material)}
    said = list(dict.fromkeys(words.values()))
    return {
        "field": VERDICT,
        "title": "Its cell",
        "how": "words",
        "note": "the verdict on the cell as a whole",
        "words": said,
        "values": [said.index(words[Cell.of(row)]) for row in material.rows("records")],
    }


def named(material: Material) -> int | None:
    """Count the different records that some cell names; None if no record was tested by itself."""
    tested = [row for row in material.rows("records") if row.q_value is not None]
    return len({row.record for row in tested if row.named}) if tested else None
