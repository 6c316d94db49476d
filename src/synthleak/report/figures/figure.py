"""A figure: declared once as Vega-Lite, drawn in the page and on paper alike.

Colours are names of a palette (`$ink`, `$first`…): a page maps them to CSS variables, so that light
and dark are the style sheet's matter; a file gets the colours themselves. See docs/figures.md.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal

from jinja2 import Environment, PackageLoader, StrictUndefined

from synthleak.analyses.analysis import CANARIES, CONTROLS, EVERY, SELECTED
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

VEGA_LITE = "6.4"
"""The version of Vega-Lite that draws figures, in the page and in files."""
SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"


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
        legend = config()["legend"] | {"columns": legend_columns(width)}
        spec = {
            "$schema": SCHEMA,
            **sized(self.for_page(), width),
            "title": {"text": self.title, "offset": 12},
            "config": {**config(), "background": "$paper", "padding": 12, "legend": legend},
        }
        painted: Spec = paint(spec, palette()[theme])
        return painted


@cache
def config() -> Spec:
    """Return what all figures share.

    The page draws no marks for screen readers one by one: the figure has a label of its own, and
    its numbers stand in a table.
    """
    shared: Spec = json.loads(read("config.json"))
    return shared


@cache
def palette() -> Mapping[str, Mapping[str, str]]:
    """Return the colours of both themes by name."""
    colours: dict[str, dict[str, str]] = json.loads(read("palette.json"))
    return colours


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


def short(value: float | None, digits: int = 4) -> float | None:
    """Return a number as it is embedded: a few significant digits, None if it is not finite.

    >>> short(0.123456), short(float("inf")), short(1.0)
    (0.1235, None, 1)
    """
    if value is None or not math.isfinite(value):
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded == int(rounded) else rounded


def headed(names: Mapping[str, str]) -> Spec:
    """Return the header of a facet whose data hold codes: each is shown as its name.

    A name may have several lines.
    """
    made = "datum.value"
    for code, name in names.items():
        made = f"datum.value == {json.dumps(code)} ? {json.dumps(name)} : {made}"
    return {"labelExpr": f"split({made}, '\\n')"}


@cache
def _declared() -> Any:
    """Return the macros of figures.jinja, which write JSON."""
    templates = Environment(
        loader=PackageLoader("synthleak.report.figures", "runtime"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["json"] = partial(json.dumps, ensure_ascii=False)
    templates.filters["cycled"] = lambda names, shown: [
        shown[place % len(shown)] for place in range(len(names))
    ]
    return templates.get_template("figures.jinja").module


def drawn(name: str, *values: Any) -> Spec:
    """Return height and layers of a figure, as figures.jinja declares them with these values."""
    declared: Spec = json.loads(getattr(_declared(), name)(*values))
    return declared


@cache
def _texts() -> Mapping[str, Any]:
    """Return titles, descriptions and panels of the figures."""
    return tomllib.loads(read("figures.toml"))


def figure(
    name: str,
    data: Rows | None,
    panel: Spec,
    *,
    cell: Cell | None = None,
    heads: Sequence[str] | Mapping[str, str] = (),
    **words: object,
) -> Figure:
    """Return the figure of this name, whose title, description and panels are in figures.toml.

    Args:
        name: of the figure, there and as a file.
        data: what is drawn; None where each layer has its own.
        panel: how it is drawn, as `drawn` returns it.
        cell: the cell that the figure belongs to, if it is one's.
        heads: what stands above each panel, in their order; names of codes, if it is a mapping.
        words: what fills the holes of title and description.
    """
    about = _texts()[name]
    words["cell"] = cell and cell.name
    spec = panel if data is None else {"data": {"values": data}, **panel}
    if data is not None and "panels" in about:
        spec = _faceted(data, panel, heads, **about["panels"])
    return Figure(name, about["title"].format(**words), about["alt"].format(**words), spec, cell)


def _faceted(
    data: Rows,
    panel: Spec,
    heads: Sequence[str] | Mapping[str, str],
    *,
    field: str,
    least: int,
    gutter: int,
    margin: int,
    label_size: int | None = None,
    **more: Any,
) -> Spec:
    facet: Spec = {"type": "nominal", "title": None, "field": field, "sort": list(heads)}
    if isinstance(heads, Mapping):
        facet["header"] = headed(heads)
        if label_size is not None:
            facet["header"]["labelFontSize"] = label_size
    sizes = {"count": len(heads), "least": least, "gutter": gutter, "margin": margin}
    return {
        "usermeta": {"panels": sizes},
        "data": {"values": data},
        "facet": facet,
        "columns": len(heads),
        **more,
        "spec": panel,
    }


@cache
def runtime_script() -> str:
    """Return the script: Vega, Vega-Lite, Vega-Embed and `synthleakFigure(element, spec)`.

    It needs neither eval nor inline styles: Vega-Embed carries Vega's expression interpreter.
    Bundling takes a few seconds, so it is done once per process.
    """
    from vl_convert import javascript_bundle

    mount = read("mount.js").replace("CONFIG", json.dumps(config()), 1)
    script = javascript_bundle(mount, vl_version=VEGA_LITE)
    # Nothing in the script may end the script element that it stands in.
    return script.replace("</script", "<\\/script")


def runtime_style() -> str:
    """Return the style sheet: the palette of both themes as CSS variables, and the tooltip.

    A page may fix the theme with `data-theme` on its root; print is always light.
    """
    light, dark = (_variables(palette()[theme]) for theme in ("light", "dark"))
    return (
        f":root {{ {light} }}\n"
        "@media (prefers-color-scheme: dark) {"
        f' :root:not([data-theme="light"]) {{ {dark} }} }}\n'
        f':root[data-theme="dark"] {{ {dark} }}\n'
        f'@media print {{ :root, :root[data-theme="dark"],'
        f' :root:not([data-theme="light"]) {{ {light} }} }}\n'
    ) + read("figures.css")


def _variables(colours: Mapping[str, str]) -> str:
    return " ".join(f"--sl-{name}: {colour};" for name, colour in colours.items())
