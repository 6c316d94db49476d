"""Long tables: packed into the page by columns, drawn by the browser page by page.

Five thousand records in sixty cells would be hundreds of thousands of rows of HTML; as columns they
are a few megabytes, sorted and searched in the page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from synthleak.report.page.numbers import fixed

MANY = 100_000
"""From this number of rows on, numbers are packed as they are shown, to keep the file small."""


@dataclass(frozen=True)
class Column:
    """One column: the field that it shows, its heading, and how its values are written."""

    field: str
    title: str
    how: str = "words"
    note: str = ""


def telling(rows: Sequence[Any], columns: Sequence[Column]) -> list[Column]:
    """Return the columns that tell rows apart: those neither empty nor constant, and the record.

    Figures stay even if they are equal: that they are is a result.
    """
    kept = []
    for column in columns:
        values = {getattr(row, column.field) for row in rows}
        told = len(values) > 1 or column.how in PLACES or column.field == "record"
        if told and values - {None, ""}:
            kept.append(column)
    return kept


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
            if len(rows) >= MANY and column.how in PLACES:
                content["values"] = as_shown(values, column.how)
        made.append(content)
    return {"table": table, "rows": len(rows), "columns": made}


PLACES = {"figure": (3,), "signed": (3,), "chance": (2, 3, 4)}
FINER = (0.1, 0.01)
"""Below each of these a p-value gets one place more."""


def as_shown(values: Sequence[float | None], how: str) -> list[float | None]:
    """Round numbers to the places at which the page shows them.

    >>> as_shown([0.8044169, None, -1.23456, 0.8125], "signed")
    [0.804, None, -1.235, 0.813]
    >>> as_shown([0.00049975, 0.0323456, 0.51299], "chance")
    [0.0005, 0.032, 0.51]
    """
    known: dict[float, float] = {}
    made: list[float | None] = []
    for value in values:
        if value is None:
            made.append(None)
            continue
        if value not in known:
            known[value] = _kept(value, how)
        made.append(known[value])
    return made


def _kept(value: float, how: str) -> float:
    """Return what is kept of a number; all of it where rounding would change its places."""
    coarse, *finer = PLACES[how]
    places = coarse + sum(value < bound for bound, _ in zip(FINER, finer, strict=False))
    rounded = _rounded(value, places)
    return value if rounded in FINER and finer else rounded


def _rounded(value: float, places: int) -> float:
    """Round as `fixed` does, which takes long: it is asked only where halves are near."""
    scaled = abs(value) * 10**places
    if abs(scaled % 1 - 0.5) > 1e-6:
        return round(value, places)
    return float(fixed(value, places).replace("−", "-"))


def _number(value: float | None) -> float | str | None:
    """Return a number as JSON knows it; ∞ as a word."""
    return "inf" if value is not None and math.isinf(value) else value
