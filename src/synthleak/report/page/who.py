"""Who leaks: the table of records by id."""

from __future__ import annotations

from typing import Any

from synthleak.report.page.material import Material
from synthleak.report.page.sheets import Column, sheet

NAMED = 0.1
"""A record is named where its q-value is at most this (docs/metrics.md)."""

COLUMNS = (
    Column("record", "Record"),
    Column("pool", "Pool"),
    Column("generator", "Generator"),
    Column("epsilon", "ε", "budget"),
    Column("v", "V", "signed", "higher means that releases tell of it more"),
    Column("v_rank", "Rank", "count", "within its cell, 1 is the most exposed"),
    Column("top_tenth", "Top tenth"),
    Column("auc", "AUC", "figure", "of the record against itself (design cohort)"),
    Column("p_value", "p", "chance"),
    Column("q_value", "q", "chance", "false-discovery rate at which it would be named"),
    Column("joined", "In", "count", "releases that held it"),
    Column("absent", "Out", "count", "releases that did not"),
    Column("scenario", "Attacker"),
    Column("proxy", "Proxy"),
)


def record_sheet(material: Material) -> dict[str, Any] | None:
    """Return the table of records for the page to draw; None where nothing compares records.

    A column that is empty throughout is left out.
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
    if material.texts:
        ids = made["columns"][0]["words"]
        made["texts"] = [material.texts.get(word, "") for word in ids]
    return made


def named(material: Material) -> int:
    """Count the different records that some cell names at the false-discovery rate `NAMED`."""
    return len(
        {
            row.record
            for row in material.rows("records")
            if row.q_value is not None and row.q_value <= NAMED
        }
    )
