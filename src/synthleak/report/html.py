"""`report.html`: one self-contained page that works offline (docs/report.md).

The page computes nothing: its numbers are looked up in the tables. Everything from data is escaped
or packed, scripts and styles are named by their hashes in the content policy, and no request
leaves the page.

To add a section, write its template, whose outer element has the section's id, and name it in
`SECTIONS`. The keys of every `content` share one namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from synthleak.calibration import KNOWLEDGE
from synthleak.core.cell import format_epsilon
from synthleak.report.environment import environment
from synthleak.report.figures.page import runtime_script, runtime_style
from synthleak.report.page.assets import asset, packed, policy
from synthleak.report.page.canaries import canaries
from synthleak.report.page.cells import proxy_sheet, sections
from synthleak.report.page.maps import LEGEND, maps
from synthleak.report.page.material import Material, material_of
from synthleak.report.page.method import caveats, intervals, knowledge
from synthleak.report.page.names import KINDS, MARKS, Said, verdicts
from synthleak.report.page.numbers import Numbers
from synthleak.report.page.sheets import MANY
from synthleak.report.page.top import top
from synthleak.report.page.topics import answers, long_sheets, shown_table
from synthleak.report.page.who import named, record_sheet
from synthleak.report.results import Results


class Page:
    """What every section of a page may look at."""

    def __init__(self, material: Material) -> None:
        self.material, self.numbers = material, Numbers(material)
        self.verdicts, self.answers = verdicts(material), answers(material)
        self.given = "check" in material.summary
        self.copies = shown_table(material, "copies") if material.rows("copies") else None


@dataclass(frozen=True)
class Section:
    """A section of the page: its id and title, its template, and what the template shows.

    A section without data is left out: its `content` is None.
    """

    id: str
    title: str
    template: str
    content: Callable[[Page], dict[str, Any] | None]


def _verdict(page: Page) -> dict[str, Any]:
    return first_screen(page.material, page.verdicts)


def first_screen(material: Material, said: Sequence[Said]) -> dict[str, Any]:
    """Return what the sentences of `decision.html` are filled from."""
    return {
        "top": top(material, said),
        "generators": _budgets(material),
        "kinds": KINDS,
    }


def _who(page: Page) -> dict[str, Any]:
    rows = page.material.rows("records")
    return {
        "records": bool(rows),
        "brief": len(rows) >= MANY,
        "named": named(page.material),
        "copies": page.copies,
    }


def _canaries(page: Page) -> dict[str, Any] | None:
    found = canaries(page.material)
    return {"canaries": found} if found else None


def _map(page: Page) -> dict[str, Any] | None:
    """Return the map; one cell needs none."""
    if len(page.verdicts) == 1:
        return None
    return {"maps": maps(page.material, page.numbers, page.verdicts), "legend": LEGEND}


def _cells(page: Page) -> dict[str, Any]:
    return {"sections": sections(page.material, page.verdicts, _by_cell(page.material))}


def _research(page: Page) -> dict[str, Any] | None:
    return {"answers": page.answers} if page.answers else None


def _method(page: Page) -> dict[str, Any]:
    material, numbers = page.material, page.numbers
    return {
        "knowledge": knowledge(material),
        "intervals": intervals(material, numbers),
        "caveats": caveats(material, numbers),
    }


SECTIONS = (
    Section("verdict", "Verdict", "top.html", _verdict),
    Section("who", "Who leaks", "who.html", _who),
    Section("canaries", "Canaries", "canaries.html", _canaries),
    Section("map", "Leakage map", "map.html", _map),
    Section("cells", "Cells", "cells.html", _cells),
    Section("research", "Research", "research.html", _research),
    Section("method", "Method and limits", "method.html", _method),
    Section("glossary", "Glossary", "glossary_section.html", lambda page: {}),
)
"""The sections, in the order of the page and of its index: a reader's questions first."""


def render(results: Results, *, include_text: bool = False) -> bytes:
    """Return the page of an audit. Texts of records are in it only if they are asked for."""
    return page(material_of(results, include_text=include_text))


def page(material: Material) -> bytes:
    """Return the page that shows this material."""
    return environment().get_template("page.html").render(**_content(Page(material))).encode()


def _content(page: Page) -> dict[str, Any]:
    material = page.material
    tables = [table for answer in page.answers for table in answer.tables]
    tables += [page.copies] if page.copies else []
    sheets = {"proxies": proxy_sheet(material)} | long_sheets(material, tables)
    records = record_sheet(material)
    if records is not None:
        sheets["records"] = records
    scripts = [runtime_script(), asset("page.js")]
    style = runtime_style() + asset("page.css")
    shown: dict[str, Any] = {
        "m": material,
        "n": page.numbers,
        "marks": MARKS,
        "verdicts": page.verdicts,
        "known": KNOWLEDGE,
        "given": page.given,
        "title": title_of(material),
        "sheets": {name: packed(content) for name, content in sheets.items()},
        "plots": [packed(figure.for_page()) for figure in material.figures],
        "scripts": [Markup(script) for script in scripts],
        "style": Markup(style),
        "policy": policy(scripts, [style]),
    }
    contents = [(section, section.content(page)) for section in SECTIONS]
    shown["parts"] = [section for section, content in contents if content is not None]
    for section, content in contents:
        if content is None:
            continue
        if taken := sorted(content.keys() & shown.keys()):
            raise ValueError(f"the section {section.id!r} gives {taken[0]!r}, a key in use")
        shown |= content
    return shown


def title_of(material: Material) -> str:
    """Return what a page is of: the corpus, or the releases that were checked."""
    if "check" not in material.summary:
        return f"Membership audit of {material.summary['corpus']['name']}"
    names = dict.fromkeys(cell.generator for cell in material.cells)
    return f"Membership check of {', '.join(names)}"


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
