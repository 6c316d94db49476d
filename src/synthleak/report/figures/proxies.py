"""Every proxy of a cell with its chance ceiling, and the scenarios side by side (docs/method.md
§6, §8)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cells import CellRow, ProxyRow
from synthleak.core.cell import Cell
from synthleak.report.figures.figure import Figure, Rows, Spec, named, panels, short, values


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
        "facet": {"field": "s", "type": "nominal", "title": None, "sort": scenarios},
        "columns": len(scenarios),
        "spacing": 16,
        "spec": {"height": {"step": 13}, "layer": _proxy_layers(order)},
    }
    return Figure(
        name="proxies",
        title=f"All proxies against their chance ceilings: {named(cell)}",
        alt=(
            f"AUC of {len(order)} proxies in {len(scenarios)} scenarios, each with the ceiling that"
            f" the whole search stays below by chance in 95% of redraws; {above} of {len(rows)}"
            " lie above their ceiling."
        ),
        spec=spec,
        cell=cell,
    )


def _proxy_layers(order: list[str]) -> list[Spec]:
    y = {
        "field": "p",
        "type": "nominal",
        "sort": order,
        "title": None,
        "axis": {"grid": False, "labelFontSize": 10, "ticks": False},
    }
    x = {
        "field": "a",
        "type": "quantitative",
        "title": "AUC (tick: chance stays below)",
        "scale": {"zero": False, "nice": True, "padding": 6},
        "axis": {"tickCount": 4},
    }
    view = {
        "field": "v",
        "type": "nominal",
        "title": None,
        "legend": {"labelExpr": "datum.label == 'L' ? 'lexical' : 'embedding'"},
        "scale": {"domain": ["L", "E"]},
    }
    tooltip = [
        {"field": "p", "title": "proxy"},
        {"field": "v", "title": "view"},
        {"field": "s", "title": "scenario"},
        {"field": "a", "title": "AUC"},
        {"field": "c", "title": "chance stays below"},
        {"field": "t", "title": "tail (mean TPR to 5% FPR)"},
        {"field": "u", "title": "tail: chance stays below"},
    ]
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
                "color": view | _ranged(view, ["$first", "$second"]),
                "shape": view | _ranged(view, ["circle", "diamond"]),
                "tooltip": tooltip,
            },
        },
    ]


def _ranged(channel: Spec, wanted: list[str]) -> Spec:
    return {"scale": channel["scale"] | {"range": wanted}}


def scenarios_figure(cell: Cell, rows: Sequence[CellRow]) -> Figure:
    """Show the best proxy of each scenario beside the figure of an attacker who chose before."""
    data: Rows = []
    for row in rows:
        common = {"scenario": row.scenario}
        hindsight = {
            "kind": "best in hindsight",
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
                    "kind": "chosen beforehand",
                    "auc": short(row.crossfit_auc),
                    "low": short(row.crossfit_low),
                    "high": short(row.crossfit_high),
                    "ceiling": short(row.null_crossfit95),
                    "what": "cross-fitted",
                }
            )
    said = "; ".join(
        f"{row.scenario} {row.auc:.3f} in hindsight"
        + ("" if row.crossfit_auc is None else f", {row.crossfit_auc:.3f} chosen beforehand")
        for row in rows
    )
    return Figure(
        name="scenarios",
        title=f"What the attacker knows, side by side: {named(cell)}",
        alt=f"AUC by scenario: {said}. Ticks are chance ceilings, whiskers 95% intervals.",
        spec={
            "data": values(data),
            "height": {"step": 24},
            "encoding": {
                "y": {
                    "field": "scenario",
                    "type": "nominal",
                    "title": None,
                    "axis": {"ticks": False},
                },
                "yOffset": {"field": "kind", "type": "nominal"},
            },
            "layer": _scenario_layers(),
        },
        cell=cell,
    )


def _scenario_layers() -> list[Spec]:
    x: Spec = {
        "type": "quantitative",
        "title": "AUC (tick: chance stays below)",
        "scale": {"zero": False, "padding": 8},
        "axis": {"tickCount": 8},
    }
    kind: Spec = {
        "field": "kind",
        "type": "nominal",
        "title": None,
        "scale": {"domain": ["best in hindsight", "chosen beforehand"]},
    }
    tooltip = [
        {"field": "scenario", "title": "scenario"},
        {"field": "kind", "title": "figure"},
        {"field": "what", "title": "proxy"},
        {"field": "auc", "title": "AUC"},
        {"field": "low", "title": "from"},
        {"field": "high", "title": "to"},
        {"field": "ceiling", "title": "chance stays below"},
    ]
    return [
        {
            "mark": {"type": "rule", "strokeWidth": 2},
            "encoding": {
                "x": x | {"field": "low"},
                "x2": {"field": "high"},
                "color": kind | _ranged(kind, ["$second", "$first"]),
            },
        },
        {
            "mark": {"type": "tick", "color": "$muted", "thickness": 2, "size": 16},
            "encoding": {"x": x | {"field": "ceiling"}, "tooltip": tooltip},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 70, "opacity": 1},
            "encoding": {
                "x": x | {"field": "auc"},
                "color": kind | _ranged(kind, ["$second", "$first"]),
                "shape": kind | _ranged(kind, ["diamond", "circle"]),
                "tooltip": tooltip,
            },
        },
    ]
