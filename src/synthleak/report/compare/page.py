"""The page of a comparison: one file that works offline, figures and ids only."""

from __future__ import annotations

import json
from importlib.resources import files
from typing import Any

from markupsafe import Markup

import synthleak
from synthleak.core.cell import format_epsilon
from synthleak.report.compare.comparison import CellLine, Compared
from synthleak.report.environment import environment
from synthleak.report.figures.figure import Figure, Rows, Spec, panels, short, values
from synthleak.report.figures.page import runtime_script, runtime_style
from synthleak.report.page.assets import policy

MOUNT = """
for (const box of document.querySelectorAll("[data-figure]")) {
  const spec = JSON.parse(document.getElementById(box.dataset.figure).textContent);
  synthleakFigure(box, spec);
}
"""


def render_comparison(compared: Compared) -> bytes:
    """Return the page."""
    style = runtime_style() + _asset("page.css")
    scripts = [runtime_script(), MOUNT]
    figure = compared_figure(compared)
    page = (
        environment()
        .get_template("compare.html")
        .render(
            c=compared,
            version=synthleak.__version__,
            figure=figure,
            spec=None if figure is None else _embedded(figure.for_page()),
            style=Markup(style),
            scripts=[Markup(script) for script in scripts],
            policy=policy(scripts, [style]),
        )
    )
    return page.encode()


def _asset(name: str) -> str:
    return (files("synthleak.report") / "templates" / name).read_text(encoding="utf-8")


def _embedded(spec: Any) -> Markup:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))


def compared_figure(compared: Compared) -> Figure | None:
    """Show every cell of every audit: figure, interval and chance ceiling, a panel per pool."""
    known = [line for line in compared.cells if line.auc is not None]
    if not known:
        return None
    names = [line.audit for line in compared.audits]
    pools = list(dict.fromkeys(line.pool for line in known))
    data: Rows = [
        {
            "o": line.pool,
            "n": line.audit,
            "c": f"{line.generator}, ε = {format_epsilon(line.epsilon)}",
            "a": short(line.auc),
            "l": short(line.low),
            "h": short(line.high),
            "t": short(line.ceiling),
            "w": line.verdict,
        }
        for line in known
    ]
    return Figure(
        name="compared",
        title="What an attacker reaches who chose beforehand, audit by audit",
        alt="Cross-fitted AUC with 95% interval and chance ceiling: "
        + "; ".join(map(_said, known))
        + ".",
        spec={
            "usermeta": panels(len(pools), least=300, gutter=24, margin=130),
            "data": values(data),
            "facet": {"field": "o", "type": "nominal", "title": None, "sort": pools},
            "columns": len(pools),
            "spec": {"height": {"step": 16}, "layer": _layers(names)},
        },
    )


def _said(line: CellLine) -> str:
    return (
        f"{line.audit}, pool {line.pool}, {line.generator} at ε = {format_epsilon(line.epsilon)}"
        f" {line.auc:.3f}"
    )


def _layers(names: list[str]) -> list[Spec]:
    hues = ["$first", "$second", "$third", "$fourth"]
    marks = ["circle", "square", "triangle-up", "diamond"]
    audit: Spec = {"field": "n", "type": "nominal", "title": "audit"}
    colours = [hues[k % 4] for k in range(len(names))]
    shapes = [marks[k % 4] for k in range(len(names))]
    shared: Spec = {
        "y": {"field": "c", "type": "nominal", "sort": None, "title": None},
        "yOffset": {"field": "n", "type": "nominal", "sort": names},
    }
    x: Spec = {
        "type": "quantitative",
        "title": "AUC (tick: chance stays below)",
        "scale": {"zero": False, "padding": 8},
        "axis": {"tickCount": 5},
    }
    colour = audit | {"scale": {"domain": names, "range": colours}}
    tooltip = [
        {"field": field, "title": title}
        for field, title in {
            "n": "audit",
            "c": "cell",
            "a": "AUC",
            "l": "from",
            "h": "to",
            "t": "chance stays below",
            "w": "verdict",
        }.items()
    ]
    return [
        {
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": shared | {"x": x | {"field": "l"}, "x2": {"field": "h"}, "color": colour},
        },
        {
            "mark": {"type": "tick", "color": "$muted", "thickness": 2, "size": 11},
            "encoding": shared | {"x": x | {"field": "t"}, "tooltip": tooltip},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": shared
            | {
                "x": x | {"field": "a"},
                "color": colour,
                "shape": audit | {"scale": {"domain": names, "range": shapes}},
                "tooltip": tooltip,
            },
        },
    ]
