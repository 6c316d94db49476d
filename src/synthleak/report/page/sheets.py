"""Long tables: packed into the page by columns, drawn by the browser a leaf at a time.

Five thousand records in sixty cells would be hundreds of thousands of rows of HTML; as columns they
are a few megabytes, sorted and searched in the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Column:
    """One column: the field that it shows, its heading, and how its values are written."""

    field: str
    title: str
    how: str = "words"
    note: str = ""


def sheet(table: str, rows: Sequence[Any], columns: Sequence[Column]) -> dict[str, Any]:
    """Return rows as columns for the page; words are numbered, since most of them repeat."""
    made = []
    for column in columns:
        values = [getattr(row, column.field) for row in rows]
        content: dict[str, Any] = {
            "field": column.field,
            "title": column.title,
            "how": column.how,
            "note": column.note,
        }
        if column.how == "words":
            words = list(dict.fromkeys(values))
            number = {word: place for place, word in enumerate(words)}
            content |= {"words": words, "values": [number[value] for value in values]}
        else:
            content["values"] = [_number(value) for value in values]
        made.append(content)
    return {"table": table, "rows": len(rows), "columns": made}


def _number(value: float | None) -> float | str | None:
    """Return a number as JSON knows it; ∞ as a word."""
    return "inf" if value is not None and math.isinf(value) else value
