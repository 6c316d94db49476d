"""Printed tables as CSV: the same rows and columns, with the numbers behind each entry in full."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Iterable

from synthleak.paper.tables.layout import Entry, Printed, Value
from synthleak.report.tables import guarded


def table(item: Printed) -> str:
    """Write one table. A column of entries becomes a column for each number that they hold."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    heads = _heads(item)
    writer.writerow(heads)
    for part in item.parts:
        for block in part.blocks:
            for row in block.rows:
                found = {"part": part.name, "block": block.title}
                found |= dict(zip(part.stubs, map(guarded, row.stubs), strict=True))
                for column, made in zip(part.columns, row.entries, strict=True):
                    found |= {_name(column.name, key): _value(v) for key, v in _values(made)}
                writer.writerow(found.get(head, "") for head in heads)
    return buffer.getvalue()


def _heads(item: Printed) -> list[str]:
    """Name every column once, in the order of the table: parts may have different ones."""
    heads = ["part"] if len(item.parts) > 1 else []
    if any(block.title for part in item.parts for block in part.blocks):
        heads.append("block")
    for part in item.parts:
        heads += [name for name in part.stubs if name not in heads]
    for part in item.parts:
        for place, column in enumerate(part.columns):
            for block in part.blocks:
                for row in block.rows:
                    for key, _ in _values(row.entries[place]):
                        if (head := _name(column.name, key)) not in heads:
                            heads.append(head)
    return heads


def _name(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _values(item: Entry) -> Iterable[tuple[str, Value]]:
    return item.values.items()


def _value(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "inf" if math.isinf(value) else repr(value)
    return guarded(value) if isinstance(value, str) else str(value)
