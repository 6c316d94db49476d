"""ROC of a cell, linear and logarithmic: null band, claim, operating point (docs/method.md §8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from synthleak.analyses.cells import CellRow
from synthleak.core.cell import Cell
from synthleak.metrics.curves import GRID, LOWEST, Curves
from synthleak.metrics.roc import FPR_LIMIT
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
    alt = _alt(rows, curves.redraws, bool(allowed))
    heads = {row.scenario: f"{row.scenario}: {row.proxy}" for row in rows}
    return [_figure(name, cell, data, allowed, heads, alt) for name in TITLES]


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


def _alt(rows: Sequence[CellRow], redraws: int, claimed: bool) -> str:
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


def _figure(
    name: str, cell: Cell, data: Rows, allowed: Rows, heads: dict[str, str], alt: str
) -> Figure:
    logarithmic = name == "roc_log"
    return Figure(
        name=name,
        title=f"{TITLES[name]}: {cell.name}",
        alt=alt,
        spec={
            "usermeta": fig.panels(len(heads), least=210, gutter=22, margin=56),
            "data": fig.values(data),
            "facet": fig.nominal(field="s", sort=list(heads), header=fig.headed(heads)),
            "columns": len(heads),
            "spacing": 22,
            "spec": {"height": 240, "layer": _layers(allowed, logarithmic)},
        },
        cell=cell,
    )


def _layers(allowed: Rows, logarithmic: bool) -> list[Spec]:
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
    return [
        {
            "transform": [{"filter": f"datum.k == '{BAND}'"}, place],
            "mark": {"type": "area", "color": "$band", "opacity": 0.3},
            "encoding": {"x": x, "y": y, "y2": {"field": "u"}},
        },
        *_lines(x, y, place, allowed, logarithmic),
        *_operating(x, y, place),
    ]


def _lines(x: Spec, y: Spec, place: Spec, allowed: Rows, logarithmic: bool) -> list[Spec]:
    """Return the lines, which share one legend; that of the claim where there is one."""
    names = [name for name in LINES if allowed or name != CLAIMED]
    dashes = [dash for name, dash in zip(LINES, DASHES, strict=True) if name in names]
    kind: Spec = fig.nominal(field="line")

    def line(what: str, *transform: Spec) -> Spec:
        return {
            "transform": [*transform, place, {"calculate": f"'{what}'", "as": "line"}],
            "mark": {"type": "line", "strokeWidth": 1 if what == GUESSED else 2},
            "encoding": {
                "x": x,
                "y": y,
                "order": {"field": "x", "type": "quantitative"},
                "color": kind | {"scale": {"domain": names, "range": [LINES[n] for n in names]}},
                "strokeDash": kind | {"scale": {"domain": names, "range": dashes}},
            },
        }

    made = [line(GUESSED) | {"data": fig.values(_diagonal(logarithmic))}]
    if allowed:
        made.append(line(CLAIMED) | {"data": fig.values(allowed)})
    return [*made, line(SHOWN, {"filter": f"datum.k == '{CURVE}'"})]


def _diagonal(logarithmic: bool) -> Rows:
    """Return the diagonal, which a logarithmic axis bends."""
    rates = np.logspace(-3, 0, 25).round(5).tolist() if logarithmic else [0, 1]
    return [{"f": rate, "t": rate} for rate in rates]


def _operating(x: Spec, y: Spec, place: Spec) -> list[Spec]:
    keep = {"filter": f"datum.k == '{POINT}'"}
    tooltip = [
        {"field": "s", "title": "scenario"},
        {"field": "p", "title": "best proxy"},
        {"field": "a", "title": "area (AUC)", "format": ".3f"},
        {"field": "t", "title": "TPR at 5% FPR", "format": ".3f"},
        {"field": "c", "title": "chance limit", "format": ".3f"},
    ]
    return [
        {
            "transform": [keep, place],
            "mark": {"type": "rule", "color": "$muted", "strokeDash": [1, 3]},
            "encoding": {"x": x},
        },
        {
            "transform": [keep, place],
            "mark": {
                "type": "tick",
                "color": "$ink",
                "thickness": 2,
                "size": 14,
                "orient": "horizontal",
            },
            "encoding": {"x": x, "y": y | {"field": "c"}, "tooltip": tooltip},
        },
        {
            "transform": [keep, place],
            "mark": {
                "type": "point",
                "shape": "circle",
                "filled": True,
                "size": 80,
                "color": "$first",
                "stroke": "$paper",
                "strokeWidth": 1.5,
                "opacity": 1,
            },
            "encoding": {"x": x, "y": y, "tooltip": tooltip},
        },
        {
            "transform": [keep, place],
            "mark": {"type": "text", "align": "left", "dx": 9, "dy": 9, "fontSize": 10},
            "encoding": {"x": x, "y": y, "text": {"field": "t", "format": ".2f"}},
        },
    ]
