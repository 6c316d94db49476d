"""How numbers, long tables, pages and Markdown are written.

`<data value="0.8044169999999999" data-from="cells/0/crossfit_auc">0.804</data>` says what is shown
and where it stands, so that a test (or a reader) can hold every number to its table.

Long tables are packed by columns for the browser to draw: five thousand records in sixty cells
would be hundreds of thousands of rows of HTML; as columns they are a few megabytes, sorted and
searched in the page.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from synthleak.core.cell import format_epsilon
from synthleak.core.errors import one_line

NOTHING = "–"
MANY = 100_000
"""From this number of rows on, numbers are packed as they are shown, to keep the file small."""
PLACES = {"figure": (3,), "signed": (3,), "chance": (2, 3, 4)}
FINER = (0.1, 0.01)
"""Below each of these a p-value gets one place more."""


def fixed(value: float, places: int) -> str:
    """Return a number to `places` decimals, halves away from zero, as a browser rounds it.

    >>> fixed(0.8125, 3), fixed(-0.5, 0), fixed(-0.0004, 3)
    ('0.813', '−1', '0.000')
    """
    if not abs(value) < 1e15:  # no figure of an audit: shown as it is
        return f"{value:g}".replace("-", "−")
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-places), rounding=ROUND_HALF_UP)
    return f"{abs(rounded) if rounded == 0 else rounded:f}".replace("-", "−")


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(0.2311), signed(-0.0123), signed(0.0)
    ('+0.231', '−0.012', '0.000')
    """
    shown = fixed(value, 3)
    return f"+{shown}" if value > 0 and shown != "0.000" else shown


def chance(value: float) -> str:
    """Return a p-value, finer where it is small.

    >>> chance(0.00049975), chance(0.0323), chance(1.0)
    ('0.0005', '0.032', '1.00')
    """
    return fixed(value, PLACES["chance"][sum(value < bound for bound in FINER)])


HOW: Mapping[str, Callable[[Any], str]] = {
    "figure": lambda value: fixed(value, 3),
    "signed": signed,
    "beyond": lambda value: "+" * (value > 0) + fixed(value, 2),
    "chance": chance,
    "budget": format_epsilon,
    "tiny": lambda value: f"{value:.2g}",
    "per_hundred": lambda value: fixed(100 * value, 0),
    "percent": lambda value: fixed(100 * value, 0) + "%",
    "count": lambda value: f"{value:,.0f}",
    "words": str,
}
"""How a value is written."""


def tagged(value: Any, source: str, how: str) -> Markup:
    """Return a value as the page shows it, with the whole of it and where it stands.

    >>> [HOW[how](0.46125) for how in ("figure", "beyond", "tiny", "per_hundred", "percent")]
    ['0.461', '+0.46', '0.46', '46', '46%']
    >>> HOW["beyond"](-0.042), HOW["budget"](math.inf), HOW["tiny"](2.5e-05), HOW["count"](5000)
    ('−0.04', '∞', '2.5e-05', '5,000')
    """
    whole = "" if value is None else float.__repr__(value) if isinstance(value, float) else value
    shown = NOTHING if value is None else HOW[how](value)
    return Markup('<data value="{}" data-from="{}" data-how="{}">{}</data>').format(
        whole, source, how, shown
    )


@dataclass(frozen=True)
class Column:
    """One column: the field that it shows, its heading, and how its values are written."""

    field: str
    title: str
    how: str = "words"
    note: str = ""


def telling(rows: Sequence[Any], columns: Sequence[Column]) -> list[Column]:
    """Return the columns that tell rows apart: those neither empty nor constant, and the record.

    Figures stay even if they are equal: that they are is a result.
    """
    kept = []
    for column in columns:
        values = {getattr(row, column.field) for row in rows}
        told = len(values) > 1 or column.how in PLACES or column.field == "record"
        if told and values - {None, ""}:
            kept.append(column)
    return kept


def sheet(table: str, rows: Sequence[Any], columns: Sequence[Column]) -> dict[str, Any]:
    """Return rows as columns for the page; words are numbered, since most of them repeat."""
    packed = []
    for column in columns:
        values = [getattr(row, column.field) for row in rows]
        content: dict[str, Any] = {
            "field": column.field,
            "title": column.title,
            "how": column.how,
            "note": column.note,
        }
        if column.how == "words":
            words = list(dict.fromkeys(values))
            number = {word: place for place, word in enumerate(words)}
            content |= {"words": words, "values": [number[value] for value in values]}
        else:
            shown = len(rows) >= MANY and column.how in PLACES
            content["values"] = [
                value if value is None or math.isfinite(value) else "inf" if value > 0 else None
                for value in (as_shown(values, column.how) if shown else values)
            ]  # JSON has no ∞, and no NaN
        packed.append(content)
    return {"table": table, "rows": len(rows), "columns": packed}


def as_shown(values: Sequence[float | None], how: str) -> list[float | None]:
    """Round numbers to the places at which the page shows them.

    >>> as_shown([0.8044169, None, -1.23456, 0.8125], "signed")
    [0.804, None, -1.235, 0.813]
    >>> as_shown([0.00049975, 0.0323456, 0.51299], "chance")
    [0.0005, 0.032, 0.51]
    """
    known: dict[float | None, float | None] = {None: None}
    for value in values:
        if value is not None and value not in known:
            known[value] = _kept(value, how)
    return [known[value] for value in values]


def _kept(value: float, how: str) -> float:
    """Return what is kept of a number; all of it where rounding would change its places."""
    coarse, *finer = PLACES[how]
    places = coarse + sum(value < bound for bound, _ in zip(FINER, finer, strict=False))
    rounded = _rounded(value, places)
    return value if rounded in FINER and finer else rounded


def _rounded(value: float, places: int) -> float:
    """Round as `fixed` does, which takes long: it is asked only where halves are near."""
    scaled = abs(value) * 10**places
    if abs(scaled % 1 - 0.5) > 1e-6:
        return round(value, places)
    return float(fixed(value, places).replace("−", "-"))


_CODE, _TICK = re.compile("</?code>"), "\ue000"


@cache
def environment() -> Environment:
    """Return the environment that every page and fragment is rendered in.

    Everything is escaped and nothing may be undefined. It is made once: it keeps the compiled
    templates, which take longer than filling them.
    """
    templates = Environment(
        loader=PackageLoader("synthleak.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["budget"] = HOW["budget"]
    templates.filters["chance"] = _chance
    templates.filters["figure"] = lambda value: NOTHING if value is None else f"{value:.3f}"
    templates.filters["number"] = "{:,}".format
    templates.filters["plain"] = _plain
    return templates


def filled(template: str, **content: Any) -> bytes:
    return environment().get_template(template).render(**content).encode()


def words_in(template: str) -> Any:
    """Return the names that a template sets, and its macros, as attributes."""
    return environment().get_template(template).module


def _chance(p: float | None) -> str:
    return NOTHING if p is None else "< 0.0001" if p < 0.0001 else HOW["chance"](p)


def asset(name: str) -> str:
    """Return a script or style of the pages, by its name in `templates/`."""
    return (files("synthleak.report") / "templates" / name).read_text(encoding="utf-8")


def packed(content: Any) -> Markup:
    """Return content as gzipped JSON in base64: small, and free of any sign that HTML knows.

    >>> packed({"id": "</script>"}) == Markup(str(packed({"id": "</script>"})))
    True
    >>> any(sign in packed({"id": "</script>"}) for sign in "<>&'")
    False
    """
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode())


def embedded(scripts: Sequence[str], style: str) -> dict[str, Any]:
    """Return scripts and style for `base.html`, with the policy under which they run."""
    return {
        "scripts": [Markup(script) for script in scripts],
        "style": Markup(style),
        "policy": policy(scripts, [style]),
    }


def policy(scripts: Sequence[str], styles: Sequence[str]) -> str:
    """Return a content policy under which these scripts and styles run, and nothing else does."""
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src {' '.join(map(_hash, scripts)) or chr(39) + 'none' + chr(39)}",
            f"style-src {' '.join(map(_hash, styles))}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def plain(text: str) -> str:
    """Escape what Markdown or HTML would read as markup; one line, without control characters.

    >>> print(plain("a_b | <b>"))
    a\\_b \\| &lt;b>
    """
    text = one_line(text).replace("\\", "\\\\").replace("<", "&lt;")
    return re.sub(r"([|*_`\[\]])", r"\\\1", " ".join(text.split()))


def _plain(value: str) -> Markup:
    """Return the words of a piece of a page, or any text, as Markdown that shows them."""
    if isinstance(value, Markup):
        value = Markup(_CODE.sub(_TICK, value)).striptags()
    return Markup(plain(value).replace(_TICK, "`"))


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows that share their keys as a table of pipes."""
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[plain(_figure(value)) for value in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figure(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
