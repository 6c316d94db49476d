"""The page of a comparison: one file that works offline, figures and ids only."""

from __future__ import annotations

import json
from typing import Any

from markupsafe import Markup

import synthleak
from synthleak.core.cell import format_epsilon
from synthleak.report.compare.comparison import CellLine, Compared
from synthleak.report.environment import environment
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, Spec
from synthleak.report.figures.page import runtime_script, runtime_style
from synthleak.report.page.assets import asset, policy

MOUNT = """
for (const box of document.querySelectorAll("[data-figure]")) {
  const spec = JSON.parse(document.getElementById(box.dataset.figure).textContent);
  synthleakFigure(box, spec);
}
"""


def render_comparison(compared: Compared) -> bytes:
    """Return the page."""
    style = runtime_style() + asset("page.css")
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


def _embedded(spec: Any) -> Markup:
    """Return JSON that cannot end the script element it stands in."""
    text = json.dumps(spec, ensure_ascii=False, allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))


def compared_figure(compared: Compared) -> Figure | None:
    """Show every cell of every audit: figure, interval and chance limit, a panel per pool."""
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
            "a": fig.short(line.auc),
            "l": fig.short(line.low),
            "h": fig.short(line.high),
            "t": fig.short(line.ceiling),
            "w": line.verdict,
        }
        for line in known
    ]
    return Figure(
        name="compared",
        title="What an attacker reaches who fixed the method in advance, audit by audit",
        alt="Cross-fitted AUC with 95% interval and chance limit: "
        + "; ".join(map(_said, known))
        + ".",
        spec={
            "usermeta": fig.panels(len(pools), least=300, gutter=24, margin=130),
            "data": fig.values(data),
            "facet": fig.nominal(field="o", sort=pools),
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
    audit = fig.nominal("audit", field="n")
    x = fig.quantitative(
        "AUC (tick: chance limit)", scale={"zero": False, "padding": 8}, axis={"tickCount": 5}
    )
    shared: Spec = {
        "y": fig.nominal(field="c", sort=None),
        "yOffset": {"field": "n", "type": "nominal", "scale": {"domain": names}},
    }
    return fig.estimates(
        shared,
        ("x", x),
        ("a", "l", "h", "t"),
        colour=fig.scaled(audit, names, fig.HUES),
        shape=fig.scaled(audit, names, ["circle", "square", "triangle-up", "diamond"]),
        tooltip=fig.tooltips(
            n="audit", c="cell", a="AUC", l="from", h="to", t="chance limit", w="verdict"
        ),
        sizes=(1.5, 11, 60),
    )
