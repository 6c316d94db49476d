"""A figure: declared once as Vega-Lite, drawn in the page and on paper alike.

Colours are names of a palette (`$ink`, `$first`…): a page maps them to CSS variables, so that light
and dark are the style sheet's matter; a file gets the colours themselves. See docs/figures.md.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from synthleak.analyses.cell_data import CANARIES, CONTROLS, EVERY, SELECTED
from synthleak.core.cell import Cell

Theme = Literal["light", "dark"]
Spec = dict[str, Any]
Rows = list[dict[str, Any]]
GROUPS = {
    SELECTED: "selected pools",
    CONTROLS: "controls",
    EVERY: "all pools",
    CANARIES: "canaries",
}
"""How figures call the pools that an aggregate is over."""

HUES = ["$first", "$second", "$third", "$fourth"]
FONT = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
VEGA_LITE = "6.4"
"""The version of Vega-Lite that draws figures, in the page and in files."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
CONFIG: Spec = {
    "background": None,
    "font": FONT,
    "aria": False,
    "view": {"stroke": None},
    "axis": {
        "domainColor": "$muted",
        "gridColor": "$grid",
        "labelColor": "$ink",
        "labelFontSize": 11,
        "labelLimit": 220,
        "tickColor": "$muted",
        "titleColor": "$ink",
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "axisQuantitative": {"labelOverlap": True, "labelSeparation": 5},
    "header": {
        "labelColor": "$ink",
        "labelFontSize": 12,
        "labelFontWeight": "bold",
        "labelLimit": 400,
        "titleColor": "$ink",
    },
    "legend": {
        "labelColor": "$ink",
        "labelFontSize": 11,
        "labelLimit": 320,
        "orient": "bottom",
        "symbolStrokeWidth": 2,
        "titleColor": "$ink",
        "titleFontSize": 12,
        "titleFontWeight": "normal",
    },
    "text": {"color": "$ink", "fontSize": 11},
    "title": {"color": "$ink", "subtitleColor": "$muted", "anchor": "start", "fontSize": 13},
}
"""What all figures share. The page draws no marks for screen readers one by one: the figure has a
label of its own, and its numbers stand in a table."""


@dataclass(frozen=True)
class Figure:
    """One figure: `name` is a file's name, `title` a heading, `alt` what it shows, in words.

    `cell` is the cell it belongs to; None if to all of them.
    """

    name: str
    title: str
    alt: str
    spec: Spec
    cell: Cell | None = None

    def for_page(self) -> Spec:
        """Return the spec for `synthleakFigure`: headings and style are the page's matter."""
        return {"description": self.alt} | self.spec

    def for_file(self, theme: Theme = "light", width: int = 760) -> Spec:
        """Return the spec for a file: with its title, its colours and a width in pixels."""
        made: Spec = {"$schema": SCHEMA} | sized(self.for_page(), width)
        made["title"] = {"text": self.title, "offset": 12}
        legend = CONFIG["legend"] | {"columns": legend_columns(width)}
        made["config"] = CONFIG | {"background": "$paper", "padding": 12, "legend": legend}
        painted: Spec = paint(made, palette()[theme])
        return painted


@cache
def palette() -> Mapping[str, Mapping[str, str]]:
    """Return the colours of both themes by name."""
    found: dict[str, dict[str, str]] = json.loads(read("palette.json"))
    return found


def read(name: str) -> str:
    """Return a file of the runtime."""
    return (files(__package__) / "runtime" / name).read_text(encoding="utf-8")


def paint(value: Any, colours: Mapping[str, str]) -> Any:
    """Put colours where a spec names them; data are left alone.

    >>> paint({"color": "$ink", "data": {"values": ["$ink"]}}, {"ink": "#111"})
    {'color': '#111', 'data': {'values': ['$ink']}}
    """
    if isinstance(value, str):
        return colours.get(value[1:], value) if value.startswith("$") else value
    if isinstance(value, list):
        return [paint(item, colours) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key in ("values", "datasets") else paint(item, colours)
            for key, item in value.items()
        }
    return value


def sized(spec: Spec, width: int) -> Spec:
    """Give a spec its width in pixels, as `mount.js` does: panels get as many columns as fit."""
    panels = spec.get("usermeta", {}).get("panels")
    if panels is None:
        return spec | {"width": width, "autosize": {"type": "fit-x", "contains": "padding"}}
    room = width - panels["margin"]
    columns = max(1, min(panels["count"], room // panels["least"]))
    # Four panels where three fit stand two by two.
    columns = -(-panels["count"] // -(-panels["count"] // columns))
    inner = max(80, room // columns - panels["gutter"])
    return spec | {"columns": columns, "spec": spec["spec"] | {"width": inner}}


def legend_columns(width: int) -> int:
    """Return how many columns a legend has in `width` pixels; 0 is one row, as `mount.js` does.

    >>> [legend_columns(width) for width in (390, 600, 760)]
    [1, 2, 0]
    """
    return 1 if width < 480 else 2 if width < 700 else 0


def panels(count: int, *, least: int = 240, gutter: int = 24, margin: int = 48) -> Spec:
    """Return the `usermeta` of a figure of several panels.

    `least` is the width below which a panel moves to the next row, `gutter` what lies between two,
    `margin` what axes take.
    """
    return {"panels": {"count": count, "least": least, "gutter": gutter, "margin": margin}}


def short(value: float | None, digits: int = 4) -> float | None:
    """Return a number as it is embedded: a few significant digits, None if it is not finite.

    >>> short(0.123456), short(float("inf")), short(1.0)
    (0.1235, None, 1)
    """
    if value is None or not math.isfinite(value):
        return None
    made = float(f"{value:.{digits}g}")
    return int(made) if made == int(made) else made


def headed(names: Mapping[str, str]) -> Spec:
    """Return the header of a facet whose data hold codes: each is shown as its name.

    A name may have several lines.
    """
    made = "datum.value"
    for code, name in names.items():
        made = f"datum.value == {json.dumps(code)} ? {json.dumps(name)} : {made}"
    return {"labelExpr": f"split({made}, '\\n')"}


def nominal(title: str | None = None, **more: Any) -> Spec:
    """Return an encoding of names.

    >>> nominal("pool", field="p")
    {'type': 'nominal', 'title': 'pool', 'field': 'p'}
    """
    return {"type": "nominal", "title": title, **more}


def quantitative(title: str | None = None, **more: Any) -> Spec:
    """Return an encoding of numbers."""
    return {"type": "quantitative", "title": title, **more}


def scaled(channel: Spec, names: Sequence[str], shown: Sequence[str]) -> Spec:
    """Return an encoding in which each name has its colour or shape; these repeat if too few."""
    cycled = [shown[place % len(shown)] for place in range(len(names))]
    return channel | {"scale": {"domain": list(names), "range": cycled}}


def estimates(
    shared: Spec,
    axis: tuple[str, Spec],
    fields: tuple[str, str, str, str],
    *,
    colour: Spec,
    shape: Spec,
    tooltip: list[Spec],
    sizes: tuple[float, int, int] = (1.5, 12, 60),
) -> list[Spec]:
    """Return the layers of estimates: interval as a line, chance limit as a tick, value as a point.

    `fields` are those of the value, of both ends of its interval and of its chance limit; `sizes`
    those of line, tick and point.
    """
    name, along = axis
    value, low, _, limit = ({name: along | {"field": field}} for field in fields)
    seen = {"tooltip": tooltip}
    return [
        {
            "mark": {"type": "rule", "strokeWidth": sizes[0]},
            "encoding": shared | low | {f"{name}2": {"field": fields[2]}, "color": colour},
        },
        {
            "mark": {"type": "tick", "color": "$muted", "thickness": 2, "size": sizes[1]},
            "encoding": shared | limit | seen,
        },
        {
            "mark": {"type": "point", "filled": True, "size": sizes[2], "opacity": 1},
            "encoding": shared | value | {"color": colour, "shape": shape} | seen,
        },
    ]


def tooltips(**titles: str) -> list[Spec]:
    """Return what a pointed-at mark shows: fields by their titles."""
    return [{"field": field, "title": title} for field, title in titles.items()]


def values(rows: Sequence[Mapping[str, Any]]) -> Spec:
    """Return rows as embedded data."""
    return {"values": list(rows)}
