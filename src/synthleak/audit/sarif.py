"""SARIF 2.1.0: what a release gives away, at the rows of its file, for code hosts.

It holds no text and no id of a record: results/copies.csv and disclosures.csv name them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import synthleak
from synthleak.analyses.copies import exceeds_chance
from synthleak.audit.result import Audit
from synthleak.audit.setup import generator_of
from synthleak.core.cell import CANNOT_SAY, Cell
from synthleak.corpus.sources import Rows, numbered_rows
from synthleak.releases.generators.given import KEY, GivenRelease
from synthleak.report.results import CellResult
from synthleak.report.verdict import sentence

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
RULES = {
    "leak-found": "The release gives away who was used to make it.",
    "claim-broken": "The release contradicts the privacy claim that was stated for it.",
    "cannot-say": "The audit has too little data, or unfair data, for a verdict.",
    "copied-record": "A row of the release is a private record, word for word.",
    "nearly-copied-record": "A row of the release is almost a private record.",
    "disclosed": "A row of the release has a passage or an identifier of one private record alone.",
}
TEXT_FILES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".tab", ".txt")
"""Files whose lines can be shown."""


def sarif(audit: Audit) -> str:
    """Return one SARIF run: the verdict of each cell, and the rows that repeat a member.

    Args:
        audit: a finished audit.

    Returns:
        JSON. Copies and disclosures are errors where members have more of them than the holdout,
        else notes.
    """
    results = []
    for one in audit.results.cells:
        places = _Places(audit, one.cell)
        results += [*_verdicts(one, places), *_printed(audit, one, places)]
    driver = {
        "name": "synthleak",
        "semanticVersion": synthleak.__version__,
        "rules": [{"id": name, "shortDescription": {"text": RULES[name]}} for name in RULES],
    }
    content = {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


class _Places:
    """Where the rows of the release of a cell lie; nowhere if it came from memory, or is a game."""

    def __init__(self, audit: Audit, cell: Cell) -> None:
        generator = generator_of(audit.setup, cell)
        self._rows: list[tuple[Path, int]] = []
        self.file: Path | None = None
        if not isinstance(generator, GivenRelease):
            return
        for path in (generator.path, *generator.series):
            if not isinstance(path, Rows) and path.is_file():
                self.file = self.file or path
                numbered = numbered_rows(
                    path, text=generator.text, encoding=generator.encoding, key=KEY
                )
                self._rows += [(path, number) for number, _, _ in numbered]

    def of(self, row: int | None = None) -> list[dict[str, Any]]:
        """Return the location of a row, counted from 1, or of the file."""
        if row is None:
            return [] if self.file is None else [_location(self.file, {})]
        if row > len(self._rows):
            return []
        path, line = self._rows[row - 1]
        return [_location(path, {"startLine": line} if path.suffix in TEXT_FILES else {})]


def _location(path: Path, region: Mapping[str, int]) -> dict[str, Any]:
    """Name a file as a code host does: relative to where the command was run, if it lies there."""
    here = Path.cwd()
    inside = path.resolve().is_relative_to(here)
    uri = quote(path.resolve().relative_to(here).as_posix()) if inside else path.resolve().as_uri()
    placed = {"artifactLocation": {"uri": uri}, **({"region": {**region}} if region else {})}
    return {"physicalLocation": placed}


def _result(rule: str, level: str, text: str, locations: list[dict[str, Any]]) -> dict[str, Any]:
    message = {"text": text}
    return {"ruleId": rule, "level": level, "message": message, "locations": locations}


def _verdicts(one: CellResult, places: _Places) -> Iterator[dict[str, Any]]:
    if one.verdict.leaks:
        yield _result("leak-found", "error", sentence(one), places.of())
    if one.verdict.contradiction is not None:
        yield _result("claim-broken", "error", sentence(one), places.of())
    if one.verdict.kind == CANNOT_SAY:
        yield _result("cannot-say", "warning", sentence(one), places.of())


def _printed(audit: Audit, one: CellResult, places: _Places) -> Iterator[dict[str, Any]]:
    level = "error" if exceeds_chance(one.rows[0].copied_p) else "note"
    for copy in audit.copies:
        if Cell.of(copy) == one.cell and copy.side == "members":
            near = copy.kind != "verbatim"
            text = f"Row {copy.row:,} is {'almost ' * near}a private record: copies.csv names it."
            rule = "nearly-copied-record" if near else "copied-record"
            yield _result(rule, level, text, places.of(copy.row))
    level = "error" if exceeds_chance(one.rows[0].disclosed_p) else "note"
    for row in audit.disclosures:
        if Cell.of(row) == one.cell and row.side == "members":
            text = f"Row {row.row:,} has a {row.kind} of one record: disclosures.csv names it."
            yield _result("disclosed", level, text, places.of(row.row))
