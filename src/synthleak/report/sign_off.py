"""The sign-off: one page that a privacy officer can file, as HTML or Markdown (docs/sign-off.md).

It says nothing of its own about an audit: the headline, the row of each decision, what was audited
and the limits are those of the report, in the same words and with the same numbers.
"""

from __future__ import annotations

import re

from synthleak.core.errors import UserError
from synthleak.report.first_screen import first_screen
from synthleak.report.page import Page
from synthleak.report.results import Provenance, Results
from synthleak.report.writing import asset, embedded, filled

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
    page = Page(results)
    content = {
        "page": page,
        **first_screen(page),
        "fingerprint": results.fingerprint,
        "provenance": provenance,
        "listed": {name: provenance.hashes[name] for name in LISTED if name in provenance.hashes},
        "by": " ".join((by or "").split()),
    }
    if form == ".html":
        return filled("sign_off.html", **content, **embedded((), asset("sign_off.css")))
    return filled("sign_off.md", **content) + b"\n"


def signed_hashes(page: str) -> dict[str, str]:
    """Return the hashes that stand on a sign-off, by file; none if it is another page."""
    rows = {
        name: re.search(rf"{re.escape(name)}\b.*?\b([0-9a-f]{{64}})\b", page) for name in LISTED
    }
    return {name: row.group(1) for name, row in rows.items() if row}
