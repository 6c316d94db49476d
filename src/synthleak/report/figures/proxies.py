"""Every proxy with its chance limit, and scenarios side by side (docs/method.md §6, §8)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cells import Cell, CellRow, ProxyRow
from synthleak.report.figures.figure import (
    Figure,
    Rows,
    Spec,
    estimates,
    named,
    nominal,
    panels,
    quantitative,
    scaled,
    short,
    tooltips,
    values,
)

KINDS = ["best in hindsight", "fixed in advance"]


def proxies_figure(cell: Cell, rows: Sequence[ProxyRow]) -> Figure:
    """Show every proxy of a cell: its AUC, and what the whole search stays below by chance."""
    above = sum(row.auc_ceiling is not None and row.auc > row.auc_ceiling for row in rows)
    scenarios = list(dict.fromkeys(row.scenario for row in rows))
    order = list(dict.fromkeys(row.proxy for row in rows))
    data: Rows = [
        {
            "p": row.proxy,
            "v": row.view[0].upper(),
            "s": row.scenario,
            "a": short(row.auc),
            "c": short(row.auc_ceiling),
            "t": short(row.tail),
            "u": short(row.tail_ceiling),
        }
        for row in rows
    ]
    spec: Spec = {
        "usermeta": panels(len(scenarios), least=160, gutter=16, margin=150),
        "data": values(data),
        "facet": nominal(field="s", sort=scenarios),
        "columns": len(scenarios),
        "spacing": 16,
        "spec": {"height": {"step": 13}, "layer": _proxy_layers(order)},
    }
    return Figure(
        name="proxies",
        title=f"All proxies against their chance limits: {named(cell)}",
        alt=(
            f"AUC of {len(order)} proxies in {len(scenarios)} scenarios, each with the limit that"
            f" the whole search stays below by chance in 95% of redraws; {above} of {len(rows)}"
            " lie above their limit."
        ),
        spec=spec,
        cell=cell,
    )


def _proxy_layers(order: list[str]) -> list[Spec]:
    y = nominal(field="p", sort=order, axis={"grid": False, "labelFontSize": 10, "ticks": False})
    x = quantitative(
        "AUC (tick: chance limit)",
        field="a",
        scale={"zero": False, "nice": True, "padding": 6},
        axis={"tickCount": 4},
    )
    view = nominal(field="v", legend={"labelExpr": "datum.label == 'L' ? 'lexical' : 'embedding'"})
    tooltip = tooltips(
        p="proxy",
        v="view",
        s="scenario",
        a="AUC",
        c="chance limit",
        t="tail (mean TPR to 5% FPR)",
        u="tail: chance limit",
    )
    return [
        {
            "mark": {"type": "tick", "color": "$muted", "thickness": 2, "size": 11},
            "encoding": {"y": y, "x": x | {"field": "c"}, "tooltip": tooltip},
        },
        {
            "transform": [{"calculate": "0.5", "as": "chance"}],
            "mark": {"type": "rule", "color": "$muted", "strokeDash": [2, 3]},
            "encoding": {"x": x | {"field": "chance", "aggregate": "min"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 45, "opacity": 1},
            "encoding": {
                "y": y,
                "x": x,
                "color": scaled(view, ["L", "E"], ["$first", "$second"]),
                "shape": scaled(view, ["L", "E"], ["circle", "diamond"]),
                "tooltip": tooltip,
            },
        },
    ]


def scenarios_figure(cell: Cell, rows: Sequence[CellRow]) -> Figure:
    """Show the best proxy of each scenario beside the figure of an attacker who chose before."""
    data: Rows = []
    for row in rows:
        common = {"scenario": row.scenario}
        hindsight = {
            "kind": KINDS[0],
            "auc": short(row.auc),
            "low": None,
            "high": None,
            "ceiling": short(row.null_auc95),
            "what": row.proxy,
        }
        data.append(common | hindsight)
        if row.crossfit_auc is not None:
            data.append(
                common
                | {
                    "kind": KINDS[1],
                    "auc": short(row.crossfit_auc),
                    "low": short(row.crossfit_low),
                    "high": short(row.crossfit_high),
                    "ceiling": short(row.null_crossfit95),
                    "what": "cross-fitted",
                }
            )
    said = "; ".join(
        f"{row.scenario} {row.auc:.3f} in hindsight"
        + ("" if row.crossfit_auc is None else f", {row.crossfit_auc:.3f} fixed in advance")
        for row in rows
    )
    return Figure(
        name="scenarios",
        title=f"What the attacker knows, side by side: {named(cell)}",
        alt=f"AUC by scenario: {said}. Ticks are chance limits, whiskers 95% intervals.",
        spec={
            "data": values(data),
            "height": {"step": 24},
            "encoding": {
                "y": nominal(
                    field="scenario",
                    axis={"ticks": False},
                    scale={"domain": [row.scenario for row in rows]},
                ),
                "yOffset": {"field": "kind", "type": "nominal", "scale": {"domain": KINDS}},
            },
            "layer": _scenario_layers(),
        },
        cell=cell,
    )


def _scenario_layers() -> list[Spec]:
    x = quantitative(
        "AUC (tick: chance limit)", scale={"zero": False, "padding": 8}, axis={"tickCount": 8}
    )
    kind = nominal(field="kind")
    titles = {"scenario": "scenario", "kind": "figure", "what": "proxy", "auc": "AUC"}
    return estimates(
        {},
        ("x", x),
        ("auc", "low", "high", "ceiling"),
        colour=scaled(kind, KINDS, ["$second", "$first"]),
        shape=scaled(kind, KINDS, ["diamond", "circle"]),
        tooltip=tooltips(**titles, low="from", high="to", ceiling="chance limit"),
        sizes=(2, 16, 70),
    )
