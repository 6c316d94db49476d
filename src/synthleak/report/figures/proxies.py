"""Every proxy with its chance limit, and scenarios side by side (docs/method.md §6, §8)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cells import CellRow, ProxyRow
from synthleak.core.cell import Cell
from synthleak.metrics.statistics.table import TAIL, by_column
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, Spec

KINDS = ["best in hindsight", "fixed in advance"]


def proxies_figure(cell: Cell, rows: Sequence[ProxyRow], statistics: Sequence[str]) -> Figure:
    """Show every proxy of a cell: its AUC and its chance limit; others that were tested on hover.

    `statistics` names those of the cell: which one the column `tail` holds depends on the design.
    """
    tail = by_column(statistics).get(TAIL.column, ())
    above = sum(row.auc_ceiling is not None and row.auc > row.auc_ceiling for row in rows)
    scenarios = list(dict.fromkeys(row.scenario for row in rows))
    order = list(dict.fromkeys(row.proxy for row in rows))
    data: Rows = [
        {
            "p": row.proxy,
            "v": row.view[0].upper(),
            "s": row.scenario,
            "a": fig.short(row.auc),
            "c": fig.short(row.auc_ceiling),
            "t": fig.short(row.tail),
            "u": fig.short(row.tail_ceiling),
        }
        for row in rows
    ]
    spec: Spec = {
        "usermeta": fig.panels(len(scenarios), least=160, gutter=16, margin=150),
        "data": fig.values(data),
        "facet": fig.nominal(field="s", sort=scenarios),
        "columns": len(scenarios),
        "spacing": 16,
        "spec": {
            "height": {"step": 13},
            "layer": _proxy_layers(order, tail[0].title if tail else ""),
        },
    }
    return Figure(
        name="proxies",
        title=f"All proxies against their chance limits: {cell.name}",
        alt=(
            f"AUC of {len(order)} proxies in {len(scenarios)} scenarios, each with the chance"
            f" limit of the whole search; {above} of {len(rows)}"
            " lie above their limit."
        ),
        spec=spec,
        cell=cell,
    )


def _proxy_layers(order: list[str], tail: str) -> list[Spec]:
    y = fig.nominal(
        field="p", sort=order, axis={"grid": False, "labelFontSize": 10, "ticks": False}
    )
    x = fig.quantitative(
        "AUC (tick: chance limit)",
        field="a",
        scale={"zero": False, "nice": True, "padding": 6},
        axis={"tickCount": 4},
    )
    view = fig.nominal(
        field="v", legend={"labelExpr": "datum.label == 'L' ? 'lexical' : 'embedding'"}
    )
    titles = {"p": "proxy", "v": "view", "s": "scenario", "a": "AUC", "c": "chance limit"}
    if tail:
        titles |= {"t": tail, "u": f"{tail}: chance limit"}
    tooltip = fig.tooltips(**titles)
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
                "color": fig.scaled(view, ["L", "E"], ["$first", "$second"]),
                "shape": fig.scaled(view, ["L", "E"], ["circle", "diamond"]),
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
            "auc": fig.short(row.auc),
            "low": None,
            "high": None,
            "ceiling": fig.short(row.null_auc95),
            "what": row.proxy,
        }
        data.append(common | hindsight)
        if row.crossfit_auc is not None:
            data.append(
                common
                | {
                    "kind": KINDS[1],
                    "auc": fig.short(row.crossfit_auc),
                    "low": fig.short(row.crossfit_low),
                    "high": fig.short(row.crossfit_high),
                    "ceiling": fig.short(row.null_crossfit95),
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
        title=f"What the attacker knows, side by side: {cell.name}",
        alt=f"AUC by scenario: {said}. Ticks are chance limits, whiskers 95% intervals.",
        spec={
            "data": fig.values(data),
            "height": {"step": 24},
            "encoding": {
                "y": fig.nominal(
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
    x = fig.quantitative(
        "AUC (tick: chance limit)", scale={"zero": False, "padding": 8}, axis={"tickCount": 8}
    )
    kind = fig.nominal(field="kind")
    titles = {"scenario": "scenario", "kind": "figure", "what": "proxy", "auc": "AUC"}
    return fig.estimates(
        {},
        ("x", x),
        ("auc", "low", "high", "ceiling"),
        colour=fig.scaled(kind, KINDS, ["$second", "$first"]),
        shape=fig.scaled(kind, KINDS, ["diamond", "circle"]),
        tooltip=fig.tooltips(**titles, low="from", high="to", ceiling="chance limit"),
        sizes=(2, 16, 70),
    )
