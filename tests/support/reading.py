"""Reading a page back: its packed data, and every number with the place that it names."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

from synthleak.core.cell import Verdict
from synthleak.report.results import Results as AuditResults
from synthleak.report.writing import HOW, NOTHING

PACKED = re.compile(r'<script type="text/plain" id="([^"]+)">([^<]*)</script>')
NUMBER = re.compile(r'<data value="([^"]*)" data-from="([^"]+)" data-how="(\w+)">([^<]*)</data>')


def judged(results: AuditResults, *verdicts: Verdict) -> AuditResults:
    """Return results with other verdicts, one for each cell."""
    cells = zip(results.cells, verdicts, strict=True)
    changed = (replace(one, judged=replace(one.judged, verdict=said)) for one, said in cells)
    return replace(results, cells=tuple(changed))


def unpacked(page: str) -> dict[str, Any]:
    """Return the packed data of a page by id."""
    return {
        name: json.loads(gzip.decompress(base64.b64decode(data)))
        for name, data in PACKED.findall(page)
    }


def numbers(page: str) -> list[tuple[str, str, str, str]]:
    """Return value, source, way of writing and text of every number that stands in the page."""
    return [tuple(map(unescape, found)) for found in NUMBER.findall(page)]  # type: ignore[misc]


class Results:
    """The results of a run folder, read from its files."""

    def __init__(self, folder: Path) -> None:
        self.summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        self.tables: Mapping[str, list[dict[str, str]]] = {
            path.stem: list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))
            for path in folder.glob("*.csv")
        }

    def number(self, source: str) -> float | None:
        """Return the number at an address; a difference of two where it names two."""
        if " - " in source:
            one, other = (self.number(part) for part in source.split(" - "))
            assert one is not None and other is not None
            return one - other
        table, *path = source.split("/")
        found: Any = self.summary
        if table != "summary":
            found = self.tables[table][int(path[0])][path[1]]
        else:
            for part in path:
                found = found and (found[int(part)] if isinstance(found, list) else found[part])
        return None if found in (None, "") else float(found)


def holds(results: Results, value: str, source: str, how: str, text: str) -> bool:
    """Say whether a number of the page is the one that stands at its source, rightly written."""
    there = results.number(source)
    if there is None:
        return value == "" and text == NOTHING
    shown = float(value)
    same = shown == there or (math.isinf(shown) and math.isinf(there))
    return same and text == HOW[how](there)
