"""What signals reach: ROC, scenarios, every proxy, prior attacks (docs/method.md §6, §8, §9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from synthleak.analyses.analysis import EVERY
from synthleak.analyses.cells import CellRow, ProxyRow
from synthleak.analyses.overviews import ScoreboardRow
from synthleak.analyses.prior import OURS, ComparisonRow, PriorRow
from synthleak.core.cell import Cell, format_epsilon
from synthleak.metrics.curves import GRID, LOWEST, Curves
from synthleak.metrics.membership import FPR_LIMIT
from synthleak.metrics.verdict_statistics import TAIL, by_column
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, Spec

BAND, CURVE, POINT = "n", "b", "p"
SHOWN, CLAIMED, GUESSED = "best proxy", "most that the claim allows", "guessing"
LINES = {SHOWN: "$first", CLAIMED: "$claim", GUESSED: "$muted"}
DASHES = [[1, 0], [6, 3], [2, 3]]
TITLES = {"roc": "ROC", "roc_log": "ROC at low false-positive rates"}


def roc_figures(cell: Cell, curves: Curves, rows: Sequence[CellRow]) -> list[Figure]:
    """Show the ROC of each scenario's best proxy, once on a linear and once on a log axis."""
    by_scenario = {row.scenario: row for row in rows}
    data: Rows = []
    for curve in curves.roc:
        data += [
            {"s": curve.scenario, "k": CURVE, "f": fig.short(f), "t": fig.short(t)}
            for f, t in zip(curve.fpr, curve.tpr, strict=True)
        ]
        data += [
            {
                "s": curve.scenario,
                "k": BAND,
                "f": fig.short(f),
                "t": fig.short(low, 3),
                "u": fig.short(up, 3),
            }
            for f, low, up in zip(GRID.tolist(), curve.low, curve.high, strict=False)
        ]
        data.append(_point(by_scenario[curve.scenario]))
    allowed: Rows = [
        {"f": fig.short(f), "t": fig.short(t)}
        for f, t in zip(curves.allowed_fpr, curves.allowed_tpr, strict=True)
    ]
    alt = _roc_alt(rows, curves.redraws, bool(allowed))
    heads = {row.scenario: f"{row.scenario}: {row.proxy}" for row in rows}
    return [_roc_figure(name, cell, data, allowed, heads, alt) for name in TITLES]


def _point(row: CellRow) -> dict[str, Any]:
    """Return the operating point as the tables have it, and its chance limit."""
    return {
        "s": row.scenario,
        "k": POINT,
        "f": FPR_LIMIT,
        "t": fig.short(row.tpr_at_fpr05, 6),
        "c": fig.short(row.null_tpr95, 6),
        "p": row.proxy,
        "a": fig.short(row.pooled_auc if row.design == "cohort" else row.auc, 6),
    }


def _roc_alt(rows: Sequence[CellRow], redraws: int, claimed: bool) -> str:
    said = "; ".join(
        f"{row.scenario} ({row.proxy}) finds {row.tpr_at_fpr05:.0%} of members at 5% false alarms"
        + ("" if row.null_tpr95 is None else f", chance limit {row.null_tpr95:.0%}")
        for row in rows
    )
    allowed = "; a dashed line shows the most that the claim allows" if claimed else ""
    return (
        f"ROC curves of the best proxy of each scenario: {said}. The grey band holds 95% of"
        f" {redraws} redraws that choose their own best proxy, point by point{allowed}."
    )


def _roc_figure(
    name: str, cell: Cell, data: Rows, allowed: Rows, heads: dict[str, str], alt: str
) -> Figure:
    logarithmic = name == "roc_log"
    return Figure(
        name=name,
        title=f"{TITLES[name]}: {cell.name}",
        alt=alt,
        spec=fig.faceted(
            data,
            "s",
            list(heads),
            {"height": 240, "layer": _roc_layers(allowed, logarithmic)},
            header=fig.headed(heads),
            least=210,
            gutter=22,
            margin=56,
            spacing=22,
        ),
        cell=cell,
    )


def _roc_layers(allowed: Rows, logarithmic: bool) -> list[Spec]:
    x: Spec = fig.quantitative(
        "false-positive rate",
        field="x",
        axis={"tickCount": 5, "format": "~g"},
        scale={"domain": [0, 1], "nice": False},
    )
    if logarithmic:
        x |= {
            "scale": {"type": "log", "domain": [LOWEST, 1], "nice": False},
            "axis": {"values": [0.001, 0.01, 0.05, 0.1, 1], "format": "~g"},
        }
    y: Spec = fig.quantitative(
        "true-positive rate", field="t", scale={"domain": [0, 1]}, axis={"tickCount": 5}
    )
    place = {"calculate": f"max(datum.f, {LOWEST})" if logarithmic else "datum.f", "as": "x"}
    band = [{"filter": f"datum.k == '{BAND}'"}, place]
    between = {"x": x, "y": y, "y2": {"field": "u"}}
    return [
        fig.layer("area", between, transform=band, color="$band", opacity=0.3),
        *_roc_lines(x, y, place, allowed, logarithmic),
        *_operating(x, y, place),
    ]


def _roc_lines(x: Spec, y: Spec, place: Spec, allowed: Rows, logarithmic: bool) -> list[Spec]:
    """Return the lines, which share one legend; that of the claim where there is one."""
    names = [name for name in LINES if allowed or name != CLAIMED]
    dashes = [dash for name, dash in zip(LINES, DASHES, strict=True) if name in names]
    kind: Spec = fig.nominal(field="line")

    def line(what: str, *transform: Spec) -> Spec:
        encoding = {
            "x": x,
            "y": y,
            "order": {"field": "x", "type": "quantitative"},
            "color": fig.scaled(kind, names, [LINES[name] for name in names]),
            "strokeDash": kind | {"scale": {"domain": names, "range": dashes}},
        }
        named = [*transform, place, {"calculate": f"'{what}'", "as": "line"}]
        width = 1 if what == GUESSED else 2
        return fig.layer("line", encoding, transform=named, strokeWidth=width)

    lines = [line(GUESSED) | {"data": fig.values(_guessing(logarithmic))}]
    if allowed:
        lines.append(line(CLAIMED) | {"data": fig.values(allowed)})
    return [*lines, line(SHOWN, {"filter": f"datum.k == '{CURVE}'"})]


def _guessing(logarithmic: bool) -> Rows:
    """Return the diagonal, which a logarithmic axis bends."""
    rates = np.logspace(-3, 0, 25).round(5).tolist() if logarithmic else [0, 1]
    return [{"f": rate, "t": rate} for rate in rates]


def _operating(x: Spec, y: Spec, place: Spec) -> list[Spec]:
    only = [{"filter": f"datum.k == '{POINT}'"}, place]
    tooltip = [
        *fig.tooltips(s="scenario", p="best proxy"),
        {"field": "a", "title": "area (AUC)", "format": ".3f"},
        {"field": "t", "title": "TPR at 5% FPR", "format": ".3f"},
        {"field": "c", "title": "chance limit", "format": ".3f"},
    ]
    limit = {"x": x, "y": y | {"field": "c"}, "tooltip": tooltip}
    tick: Spec = {"color": "$ink", "thickness": 2, "size": 14, "orient": "horizontal"}
    point = {"x": x, "y": y, "tooltip": tooltip}
    dot: Spec = {"shape": "circle", "filled": True, "size": 80, "color": "$first"}
    edge: Spec = {"stroke": "$paper", "strokeWidth": 1.5, "opacity": 1}
    value = {"x": x, "y": y, "text": {"field": "t", "format": ".2f"}}
    beside: Spec = {"align": "left", "dx": 9, "dy": 9, "fontSize": 10}
    return [
        fig.layer("rule", {"x": x}, transform=only, color="$muted", strokeDash=[1, 3]),
        fig.layer("tick", limit, transform=only, **tick),
        fig.layer("point", point, transform=only, **dot, **edge),
        fig.layer("text", value, transform=only, **beside),
    ]


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
    layers = _proxy_layers(order, tail[0].title if tail else "")
    panel: Spec = {"height": {"step": 13}, "layer": layers}
    return Figure(
        name="proxies",
        title=f"All proxies against their chance limits: {cell.name}",
        alt=(
            f"AUC of {len(order)} proxies in {len(scenarios)} scenarios, each with the chance"
            f" limit of the whole search; {above} of {len(rows)}"
            " lie above their limit."
        ),
        spec=fig.faceted(data, "s", scenarios, panel, least=160, gutter=16, margin=150, spacing=16),
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
    limit = {"y": y, "x": x | {"field": "c"}, "tooltip": tooltip}
    guessing = {"x": x | {"field": "chance", "aggregate": "min"}}
    point = {
        "y": y,
        "x": x,
        "color": fig.scaled(view, ["L", "E"], ["$first", "$second"]),
        "shape": fig.scaled(view, ["L", "E"], ["circle", "diamond"]),
        "tooltip": tooltip,
    }
    half = [{"calculate": "0.5", "as": "chance"}]
    return [
        fig.layer("tick", limit, color="$muted", thickness=2, size=11),
        fig.layer("rule", guessing, transform=half, color="$muted", strokeDash=[2, 3]),
        fig.layer("point", point, filled=True, size=45, opacity=1),
    ]


def scenarios_figure(cell: Cell, rows: Sequence[CellRow]) -> Figure:
    """Show the best proxy of each scenario beside the figure of an attacker who chose before."""
    data: Rows = []
    for row in rows:
        fitted = (row.crossfit_auc, row.crossfit_low, row.crossfit_high, row.null_crossfit95)
        for kind, what, figures in (
            (KINDS[0], row.proxy, (row.auc, None, None, row.null_auc95)),
            (KINDS[1], "cross-fitted", fitted),
        ):
            if figures[0] is not None:
                shown = zip(("auc", "low", "high", "ceiling"), map(fig.short, figures), strict=True)
                data.append({"scenario": row.scenario, "kind": kind, **dict(shown), "what": what})
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


COLOURS = ["$first", "$second", "$third"]
SHAPES = ["circle", "square", "triangle-up"]


def prior_figure(cell: Cell, ours: Sequence[CellRow], rows: Sequence[PriorRow]) -> Figure | None:
    """Show every arm of the prior attacks with its chance limit, below the best of ours."""
    if not rows or not ours:
        return None
    arms = [(OURS, row.proxy, row.scenario, row.auc, row.null_auc95) for row in ours]
    arms += [(row.family, row.arm, row.scenario, row.auc, row.auc_ceiling) for row in rows]
    data: Rows = [
        {
            "a": f"{family}: {arm}, {scenario}",
            "f": family,
            "v": fig.short(value),
            "c": fig.short(limit),
        }
        for family, arm, scenario, value, limit in arms
    ]
    best = max(rows, key=lambda row: row.auc)
    top = max(ours, key=lambda row: row.auc)
    return Figure(
        name="prior",
        title=f"Prior attacks in the same game: {cell.name}",
        alt=(
            f"AUC of {len(rows)} arms of prior attacks with their chance limits; the best,"
            f" {best.family} {best.arm} in {best.scenario}, reaches {best.auc:.3f}, the best of"
            f" ours ({top.proxy}, {top.scenario}) {top.auc:.3f}."
        ),
        spec={
            "data": fig.values(data),
            "height": {"step": 17},
            "encoding": {
                "y": fig.nominal(
                    field="a", sort=None, axis={"grid": False, "ticks": False, "labelLimit": 240}
                )
            },
            "layer": _arms(list(dict.fromkeys(str(row["f"]) for row in data))),
        },
        cell=cell,
    )


def _arms(families: list[str]) -> list[Spec]:
    x: Spec = fig.quantitative(
        "AUC (tick: chance limit)",
        field="v",
        scale={"zero": False, "padding": 8},
        axis={"tickCount": 6},
    )
    kind: Spec = fig.nominal(field="f")
    tooltip = fig.tooltips(a="signal", v="AUC", c="chance limit")
    limit = {"x": x | {"field": "c"}, "tooltip": tooltip}
    point = {
        "x": x,
        "color": fig.scaled(kind, families, COLOURS),
        "shape": fig.scaled(kind, families, SHAPES),
        "tooltip": tooltip,
    }
    return [
        fig.layer("tick", limit, color="$muted", thickness=2, size=12),
        fig.layer("point", point, filled=True, size=60, opacity=1),
    ]


def prior_attacks_figure(
    rows: Sequence[ComparisonRow], boards: Sequence[ScoreboardRow]
) -> Figure | None:
    """Show ours against the better prior attack, a point per cell; `boards` counts the wins."""
    data: Rows = [
        {
            "x": fig.short(row.ours_auc - row.delta),
            "y": fig.short(row.ours_auc),
            "cell": Cell.of(row).name,
            "corpus": row.corpus,
            "found": "ours passes its null"
            if row.ours_p is not None and row.ours_p <= 0.05
            else "within chance",
            "arm": row.prior_arm,
            "e": format_epsilon(row.epsilon),
        }
        for row in rows
        if row.delta is not None
    ]
    if len(data) < 2:
        return None
    low = min(min(row["x"], row["y"]) for row in data)
    high = max(max(row["x"], row["y"]) for row in data)
    return Figure(
        name="prior_attacks",
        title="Ours against the better prior attack, cell by cell",
        alt=(
            f"A point for each of {len(data)} cells: the AUC of the better prior attack against"
            f" that of ours{_wins(boards)}. Ours is the best of many more signals, so"
            " that chance alone puts it ahead; filled points pass their own null."
        ),
        spec={"height": 340, "layer": [_diagonal(low, high), _cells(data)]},
    )


def _wins(boards: Sequence[ScoreboardRow]) -> str:
    """Say how often ours is higher, in selected pools and in controls apart."""
    counted = [board for board in boards if board.rival == "better"]
    whole = {board.generator for board in counted}
    counted = [board for board in counted if board.generator == EVERY or len(whole) == 1]
    apart = [board for board in counted if board.pools != EVERY] or counted
    said = " and ".join(f"{b.wins} of {b.cells} cells of {fig.GROUPS[b.pools]}" for b in apart)
    return f", which is higher in {said}" if said else ""


def _diagonal(low: float, high: float) -> Spec:
    ends = [{"x": low, "y": low}, {"x": high, "y": high}]
    encoding = {axis: {"field": axis, "type": "quantitative"} for axis in ("x", "y")}
    style: Spec = {"color": "$muted", "strokeDash": [2, 3], "strokeWidth": 1}
    return fig.layer("line", encoding, data=ends, **style)


def _cells(data: Rows) -> Spec:
    scale = {"zero": False, "padding": 10}
    names = ["ours passes its null", "within chance"]
    found: Spec = fig.nominal(field="found")
    encoding = {
        "x": fig.quantitative(
            "AUC of the better prior attack", field="x", scale=scale, axis={"tickCount": 6}
        ),
        "y": fig.quantitative("AUC of ours", field="y", scale=scale),
        "fill": fig.scaled(found, names, ["$first", "transparent"]),
        "stroke": fig.scaled(found, names, ["$first", "$muted"]),
        "tooltip": fig.tooltips(
            cell="cell", corpus="corpus", y="ours", x="prior", arm="its arm", found="ours"
        ),
    }
    return fig.layer("point", encoding, data=data, size=60, opacity=1, strokeWidth=1.5)
