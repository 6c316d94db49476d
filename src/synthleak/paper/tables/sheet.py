"""Paper tables as CSV: the same rows and columns, with the numbers behind each entry in full."""

from __future__ import annotations

import csv
import io
import math

from synthleak.paper.tables.layout import Table, Value
from synthleak.report.tables import guarded


def table(item: Table) -> str:
    """Write one table. A column of entries becomes a column for each number that they hold."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    heads = _heads(item)
    writer.writerow(heads)
    for part, block, row in item.rows:
        cells = {"part": part.name, "block": block.title}
        cells |= dict(zip(part.stubs, map(guarded, row.stubs), strict=True))
        for column, entry in zip(part.columns, row.entries, strict=True):
            cells |= {_name(column.name, key): _value(v) for key, v in entry.values.items()}
        writer.writerow(cells.get(head, "") for head in heads)
    return buffer.getvalue()


def _heads(item: Table) -> list[str]:
    """Name every column once, in the order of the table: parts may have different ones."""
    heads = ["part"] if len(item.parts) > 1 else []
    if any(block.title for part in item.parts for block in part.blocks):
        heads.append("block")
    heads += [name for part in item.parts for name in part.stubs]
    heads += [
        _name(column.name, key)
        for part in item.parts
        for place, column in enumerate(part.columns)
        for block in part.blocks
        for row in block.rows
        for key in row.entries[place].values
    ]
    return list(dict.fromkeys(heads))


def _name(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _value(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return "inf" if math.isinf(value) else repr(value)
    return guarded(value) if isinstance(value, str) else str(value)
