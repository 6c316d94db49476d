"""`report.html`: one self-contained page that works offline (docs/report.md).

The page computes nothing: its numbers are looked up in the tables. Everything from data is escaped
or packed, scripts and styles are named by their hashes in the content policy, and no request
leaves the page.

To add a section, write its template and name it in `SECTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from synthleak.calibration import KNOWLEDGE
from synthleak.core.cell import format_epsilon
from synthleak.report.environment import environment
from synthleak.report.figures.page import runtime_script, runtime_style
from synthleak.report.page.assets import packed, policy
from synthleak.report.page.cells import proxy_sheet, sections
from synthleak.report.page.maps import LEGEND, maps
from synthleak.report.page.material import Material, material_of
from synthleak.report.page.method import caveats, intervals, knowledge
from synthleak.report.page.names import MARKS, Said, verdicts
from synthleak.report.page.numbers import Numbers
from synthleak.report.page.sheets import MANY
from synthleak.report.page.top import top
from synthleak.report.page.topics import Answer, answers, long_sheets
from synthleak.report.page.who import named, record_sheet
from synthleak.report.results import Results


@dataclass(frozen=True)
class Page:
    """What every section of a page may look at."""

    material: Material

    @cached_property
    def numbers(self) -> Numbers:
        """Writes numbers, each with the place where it stands."""
        return Numbers(self.material)

    @cached_property
    def verdicts(self) -> list[Said]:
        """What is said of every cell."""
        return verdicts(self.material)

    @cached_property
    def answers(self) -> list[Answer]:
        """What the analyses say, topic by topic."""
        return answers(self.material)


@dataclass(frozen=True)
class Section:
    """A section of the page: its id and title, its template, and what the template shows."""

    id: str
    title: str
    template: str
    content: Callable[[Page], dict[str, Any]]


def _verdict(page: Page) -> dict[str, Any]:
    return {"top": top(page.material, page.verdicts), "generators": _budgets(page.material)}


def _map(page: Page) -> dict[str, Any]:
    return {"maps": maps(page.material, page.numbers, page.verdicts), "legend": LEGEND}


def _cells(page: Page) -> dict[str, Any]:
    return {"sections": sections(page.material, page.verdicts, _by_cell(page.material))}


def _who(page: Page) -> dict[str, Any]:
    rows = page.material.rows("records")
    return {
        "answers": page.answers,
        "records": bool(rows),
        "brief": len(rows) >= MANY,
        "named": named(page.material),
    }


def _method(page: Page) -> dict[str, Any]:
    return {
        "knowledge": knowledge(page.material),
        "intervals": intervals(page.material, page.numbers),
        "caveats": caveats(page.material, page.numbers),
    }


SECTIONS = (
    Section("verdict", "Verdict", "top.html", _verdict),
    Section("map", "Leakage map", "map.html", _map),
    Section("cells", "Cells", "cells.html", _cells),
    Section("who", "Who leaks", "who.html", _who),
    Section("method", "Method and limits", "method.html", _method),
)
"""The sections, in the order of the page and of its menu."""


def render(results: Results, *, include_text: bool = False) -> bytes:
    """Return the page of an audit. Texts of records are in it only if they are asked for."""
    return page(material_of(results, include_text=include_text))


def page(material: Material) -> bytes:
    """Return the page that shows this material."""
    return environment().get_template("page.html").render(**_content(Page(material))).encode()


def _content(page: Page) -> dict[str, Any]:
    material = page.material
    sheets = {"proxies": proxy_sheet(material)} | long_sheets(material, page.answers)
    records = record_sheet(material)
    if records is not None:
        sheets["records"] = records
    scripts = [runtime_script(), _asset("page.js")]
    style = runtime_style() + _asset("page.css")
    shown = {
        "m": material,
        "n": page.numbers,
        "marks": MARKS,
        "verdicts": page.verdicts,
        "known": KNOWLEDGE,
        "parts": SECTIONS,
        "sheets": {name: packed(content) for name, content in sheets.items()},
        "plots": [packed(figure.for_page()) for figure in material.figures],
        "scripts": [Markup(script) for script in scripts],
        "style": Markup(style),
        "policy": policy(scripts, [style]),
    }
    for section in SECTIONS:
        shown |= section.content(page)
    return shown


def _budgets(material: Material) -> dict[str, list[str]]:
    """Return the budgets of every generator, as they are written."""
    found: dict[str, list[str]] = {}
    for cell in material.cells:
        found.setdefault(cell.generator, []).append(format_epsilon(cell.epsilon))
    return {generator: list(dict.fromkeys(shown)) for generator, shown in found.items()}


def _by_cell(material: Material) -> dict[int, list[int]]:
    """Return the places of every cell's figures."""
    found: dict[int, list[int]] = {}
    for place, figure in enumerate(material.figures):
        if figure.cell is not None:
            found.setdefault(material.cells.index(figure.cell), []).append(place)
    return found


def _asset(name: str) -> str:
    return (files("synthleak.report") / "templates" / name).read_text(encoding="utf-8")
