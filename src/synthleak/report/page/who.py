"""Who leaks: the table of records by id."""

from __future__ import annotations

from typing import Any

from synthleak.core.cell import Cell
from synthleak.core.verdict import FOUND, NAMED, WORDS
from synthleak.report.page.material import Material
from synthleak.report.page.names import verdicts
from synthleak.report.page.sheets import Column, sheet

VERDICT = "verdict of the cell"

COLUMNS = (
    Column("record", "Record"),
    Column("v_rank", "Rank", "count", "within its cell, 1 is the most exposed"),
    Column("v", "V", "signed", "higher means that releases tell of it more"),
    Column("auc", "AUC", "figure", "of the record against itself (design cohort)"),
    Column("p_value", "p", "chance"),
    Column("q_value", "q", "chance", "false-discovery rate at which it would be named"),
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


def record_sheet(material: Material) -> dict[str, Any] | None:
    """Return the table of records for the page to draw; None where nothing compares records.

    A column that is empty throughout is left out. Only cells with a leak are shown at first:
    ranks in the others are noise.
    """
    rows = material.rows("records")
    if not rows:
        return None
    there = [
        column
        for column in COLUMNS
        if any(getattr(row, column.field, None) not in (None, "") for row in rows)
    ]
    made = sheet("records", rows, there)
    said = _verdicts(material)
    made["columns"].insert([column.field for column in there].index("epsilon") + 1, said)
    if WORDS[FOUND] in said["words"]:
        made["chosen"] = {VERDICT: WORDS[FOUND]}
    if material.texts:
        ids = made["columns"][0]["words"]
        made["texts"] = [material.texts.get(word, "") for word in ids]
    return made


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
    """Count the different records that some cell names at the false-discovery rate `NAMED`.

    None where no record was tested by itself.
    """
    tested = [row for row in material.rows("records") if row.q_value is not None]
    return len({row.record for row in tested if row.q_value <= NAMED}) if tested else None
