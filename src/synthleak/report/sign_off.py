"""The sign-off: one page that a privacy officer can file, as HTML or Markdown (docs/sign-off.md).

It says nothing of its own about an audit: the headline, the row of each decision, what was audited
and the limits are those of the report, in the same words and with the same numbers.
"""

from __future__ import annotations

import re
from typing import Any

from markupsafe import Markup

from synthleak.core.errors import UserError
from synthleak.report.environment import environment
from synthleak.report.html import first_screen, title_of
from synthleak.report.markdown import plain
from synthleak.report.page.assets import asset, policy
from synthleak.report.page.material import material_of
from synthleak.report.page.method import knowledge, limits
from synthleak.report.page.names import MARKS, verdicts
from synthleak.report.page.numbers import Numbers
from synthleak.report.results import Provenance, Results

FORMATS = (".html", ".md")
LISTED = (
    "manifest.json",
    "spec.toml",
    "results/summary.json",
    "results/cells.csv",
    "results/records.csv",
    "report.html",
)
"""Files whose hashes stand on the page; the manifest holds those of all others."""
_CODE, _TICK = re.compile("</?code>"), "\ue000"


def check_sign_off_format(name: str) -> str:
    """Return the format that a file name asks for: `.html` or `.md`."""
    ending = next((form for form in FORMATS if name.lower().endswith(form)), None)
    if ending is None:
        raise UserError(
            f"unknown format: {name!r}", "--sign-off", f"end the name in {' or '.join(FORMATS)}"
        )
    return ending


def render_sign_off(
    results: Results, provenance: Provenance, form: str, *, by: str | None = None
) -> bytes:
    """Return the sign-off of an audit in a format; `by` is who signs, blank if nobody is named."""
    shown = _content(results, provenance) | {"by": " ".join((by or "").split())}
    templates = environment()
    if form == ".html":
        return templates.get_template("sign_off.html").render(**shown).encode()
    templates.filters["plain"] = _plain
    return templates.get_template("sign_off.md").render(**shown).encode() + b"\n"


def signed_hashes(page: str) -> dict[str, str]:
    """Return the hashes that stand on a sign-off, by file; none if it is another page."""
    rows = {
        name: re.search(rf"{re.escape(name)}\b.*?\b([0-9a-f]{{64}})\b", page) for name in LISTED
    }
    return {name: row.group(1) for name, row in rows.items() if row}


def _content(results: Results, provenance: Provenance) -> dict[str, Any]:
    material = material_of(results, figures=False)
    numbers = Numbers(material)
    style = asset("sign_off.css")
    return {
        "m": material,
        "n": numbers,
        "title": title_of(material),
        "given": "check" in material.summary,
        "marks": MARKS,
        **first_screen(material, verdicts(material)),
        "knowledge": knowledge(material),
        "limits": limits(material, numbers),
        "fingerprint": results.fingerprint,
        "provenance": provenance,
        "listed": {name: provenance.hashes[name] for name in LISTED if name in provenance.hashes},
        "style": Markup(style),
        "scripts": (),
        "policy": policy((), (style,)),
    }


def _plain(value: str) -> Markup:
    """Return the words of a piece of the page, or any text, as Markdown that shows them."""
    if isinstance(value, Markup):
        value = Markup(_CODE.sub(_TICK, value)).striptags()
    return Markup(plain(value).replace(_TICK, "`"))
