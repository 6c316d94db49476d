"""`report.html`: one self-contained page that works offline (docs/report.md).

The page computes nothing: its numbers are looked up in the tables. Everything from data is escaped
or packed, scripts and styles are named by their hashes in the content policy, and no request
leaves the page.
"""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from synthleak.calibration import KNOWLEDGE
from synthleak.report.environment import environment
from synthleak.report.figures.page import runtime_script, runtime_style
from synthleak.report.page.assets import packed, policy
from synthleak.report.page.cells import proxy_sheet, sections
from synthleak.report.page.maps import LEGEND, maps
from synthleak.report.page.material import Material, material_of
from synthleak.report.page.method import caveats, intervals, knowledge
from synthleak.report.page.names import MARKS, verdicts
from synthleak.report.page.numbers import Numbers, budget
from synthleak.report.page.sheets import MANY
from synthleak.report.page.top import top
from synthleak.report.page.topics import answers, long_sheets
from synthleak.report.page.who import named, record_sheet

if TYPE_CHECKING:
    from synthleak.audit.result import Audit


def render(audit: Audit, *, include_text: bool = False) -> bytes:
    """Return the page of an audit. Texts of records are in it only if they are asked for."""
    return page(material_of(audit, include_text=include_text))


def page(material: Material) -> bytes:
    """Return the page that shows this material."""
    return environment().get_template("page.html").render(**_content(material)).encode()


def _content(material: Material) -> dict[str, Any]:
    numbers, said = Numbers(material), verdicts(material)
    found = answers(material)
    records = record_sheet(material)
    long = {"proxies": proxy_sheet(material)} | long_sheets(material, found)
    if records is not None:
        long["records"] = records
    scripts = [runtime_script(), _asset("page.js")]
    style = runtime_style() + _asset("page.css")
    return {
        "m": material,
        "n": numbers,
        "marks": MARKS,
        "verdicts": said,
        "top": top(material, said),
        "generators": _budgets(material),
        "maps": maps(material, numbers, said),
        "legend": LEGEND,
        "known": KNOWLEDGE,
        "sections": sections(material, said, _by_cell(material)),
        "answers": found,
        "records": records is not None,
        "brief": len(material.rows("records")) >= MANY,
        "named": named(material),
        "knowledge": knowledge(material),
        "intervals": intervals(material, numbers),
        "caveats": caveats(material, numbers),
        "sheets": {name: packed(content) for name, content in long.items()},
        "plots": [packed(figure.for_page()) for figure in material.figures],
        "scripts": [Markup(script) for script in scripts],
        "style": Markup(style),
        "policy": policy(scripts, [style]),
    }


def _budgets(material: Material) -> dict[str, list[str]]:
    """Return the budgets of every generator, as they are written."""
    found: dict[str, list[str]] = {}
    for _, generator, epsilon in material.cells:
        shown = found.setdefault(generator, [])
        if budget(epsilon) not in shown:
            shown.append(budget(epsilon))
    return found


def _by_cell(material: Material) -> dict[int, list[int]]:
    """Return the places of every cell's figures."""
    found: dict[int, list[int]] = {}
    place_of = {cell: place for place, cell in enumerate(material.cells)}
    for place, figure in enumerate(material.figures):
        if figure.cell is not None:
            cell = (figure.cell.pool, figure.cell.generator, figure.cell.epsilon)
            found.setdefault(place_of[cell], []).append(place)
    return found


def _asset(name: str) -> str:
    return (files("synthleak.report") / "templates" / name).read_text(encoding="utf-8")
