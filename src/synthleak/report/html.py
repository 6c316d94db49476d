"""`report.html`: one self-contained page that works offline (docs/report.md).

The page computes nothing: its numbers are looked up in the tables. Everything from data is escaped
or packed, scripts and styles are named by their hashes in the content policy, and no request
leaves the page.
"""

from __future__ import annotations

from typing import Any

from synthleak.calibration import KNOWLEDGE
from synthleak.report.figures.figure import runtime_script, runtime_style
from synthleak.report.first_screen import first_screen
from synthleak.report.page import Page
from synthleak.report.results import Results
from synthleak.report.sections import (
    answers,
    canaries,
    cell_sections,
    count_named,
    maps,
    proxy_sheet,
    record_sheet,
    shown_table,
)
from synthleak.report.writing import MANY, asset, embedded, filled, packed, sheet


def render(results: Results, *, include_text: bool = False) -> bytes:
    """Return the page of an audit.

    Args:
        results: What the audit found (`Audit.results`).
        include_text: Whether the page holds the texts of the pools' records, and says so.

    Returns:
        The page, as the bytes of one HTML file.
    """
    page = Page(results, include_text=include_text)
    content = {
        "page": page,
        "known": KNOWLEDGE,
        **first_screen(page),
        **_who(page),
        "canaries": canaries(page),
        "maps": maps(page) if len(page.cells) > 1 else (),  # one cell needs no map
        "sections": cell_sections(page),
        "answers": answers(page),
    }
    return filled(
        "page.html",
        **content,
        sheets={name: packed(data) for name, data in _sheets(page, content).items()},
        plots=[packed(figure.for_page()) for figure in page.figures],
        **embedded([runtime_script(), asset("page.js")], runtime_style() + asset("page.css")),
    )


def _who(page: Page) -> dict[str, Any]:
    rows = page.rows("records")
    return {
        "records": bool(rows),
        "brief": len(rows) >= MANY,
        "named": count_named(page),
        "read": [shown_table(page, n) for n in ("copies", "disclosures") if page.rows(n)],
    }


def _sheets(page: Page, content: dict[str, Any]) -> dict[str, Any]:
    """Return the tables that the browser draws, by name."""
    sheets = {"proxies": proxy_sheet(page)}
    tables = [table for answer in content["answers"] for table in answer.tables]
    for table in [*tables, *content["read"]]:
        if table.long:
            sheets[table.name] = sheet(table.name, page.rows(table.name), table.columns)
    if records := record_sheet(page):
        sheets["records"] = records
    return sheets
