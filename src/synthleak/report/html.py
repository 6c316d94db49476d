"""`report.html`: one self-contained page that works offline (docs/report.md).

The page computes nothing: its numbers are looked up in the tables. Everything from data is escaped
or packed, scripts and styles are named by their hashes in the content policy, and no request
leaves the page.

To add a section, write its template, whose outer element has the section's id, and name it in
`SECTIONS`. The keys of every `content` share one namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from markupsafe import Markup

from synthleak.calibration import KNOWLEDGE
from synthleak.core.cell import format_epsilon
from synthleak.report.environment import environment
from synthleak.report.figures.page import runtime_script, runtime_style
from synthleak.report.page.assets import packed, policy
from synthleak.report.page.canaries import canaries
from synthleak.report.page.cells import proxy_sheet, sections
from synthleak.report.page.maps import LEGEND, maps
from synthleak.report.page.material import Material, material_of
from synthleak.report.page.method import caveats, intervals, knowledge
from synthleak.report.page.names import MARKS, verdicts
from synthleak.report.page.numbers import Numbers
from synthleak.report.page.sheets import MANY
from synthleak.report.page.top import top
from synthleak.report.page.topics import answers, long_sheets
from synthleak.report.page.who import named, record_sheet
from synthleak.report.results import Results


class Page:
    """What every section of a page may look at."""

    def __init__(self, material: Material) -> None:
        self.material, self.numbers = material, Numbers(material)
        self.verdicts, self.answers = verdicts(material), answers(material)


@dataclass(frozen=True)
class Section:
    """A section of the page: its id and title, its template, and what the template shows.

    One that is not `shown` is left out of the page and of its menu.
    """

    id: str
    title: str
    template: str
    content: Callable[[Page], dict[str, Any]]
    shown: Callable[[Page], bool] = lambda page: True


SECTIONS = (
    Section(
        "verdict",
        "Verdict",
        "top.html",
        lambda p: {"top": top(p.material, p.verdicts), "generators": _budgets(p.material)},
    ),
    Section(
        "map",
        "Leakage map",
        "map.html",
        lambda p: {"maps": maps(p.material, p.numbers, p.verdicts), "legend": LEGEND},
    ),
    Section(
        "cells",
        "Cells",
        "cells.html",
        lambda p: {"sections": sections(p.material, p.verdicts, _by_cell(p.material))},
    ),
    Section(
        "who",
        "Who leaks",
        "who.html",
        lambda p: {
            "answers": p.answers,
            "records": bool(p.material.rows("records")),
            "brief": len(p.material.rows("records")) >= MANY,
            "named": named(p.material),
        },
    ),
    Section(
        "canaries",
        "Canaries",
        "canaries.html",
        lambda p: {"canaries": canaries(p.material)},
        lambda p: bool(canaries(p.material)),
    ),
    Section(
        "method",
        "Method and limits",
        "method.html",
        lambda p: {
            "knowledge": knowledge(p.material),
            "intervals": intervals(p.material, p.numbers),
            "caveats": caveats(p.material, p.numbers),
        },
    ),
    Section("glossary", "Glossary", "glossary_section.html", lambda p: {}),
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
        "parts": [section for section in SECTIONS if section.shown(page)],
        "sheets": {name: packed(content) for name, content in sheets.items()},
        "plots": [packed(figure.for_page()) for figure in material.figures],
        "scripts": [Markup(script) for script in scripts],
        "style": Markup(style),
        "policy": policy(scripts, [style]),
    }
    for section in SECTIONS:
        content = section.content(page)
        if taken := sorted(content.keys() & shown.keys()):
            raise ValueError(f"the section {section.id!r} gives {taken[0]!r}, a key in use")
        shown |= content
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
