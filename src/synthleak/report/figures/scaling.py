"""What more knowledge buys an attacker: the paper's two panels (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cell_data import EVERY
from synthleak.analyses.cells import CellRow
from synthleak.analyses.scenario_scaling import ScalingRow
from synthleak.core.cell import Cell
from synthleak.report.figures.figure import GROUPS, Figure, Rows, Spec, named, short, values

ANY, BEST = "any", "best"
KINDS = {
    (BEST, "lexical"): "best lexical",
    ("median", "lexical"): "median lexical",
    (BEST, "embedding"): "best embedding",
    ("median", "embedding"): "median embedding",
    (BEST, ANY): "best of all",
    ("crossfit", ANY): "chosen beforehand",
}


def scaling_figures(rows: Sequence[ScalingRow], cells: Sequence[CellRow]) -> list[Figure]:
    """Show (a) each cell's change from S1, (b) the best and the median proxy of each view.

    Means are of selected pools and of controls apart; of all where no rule is known.
    """
    generators = {row.generator for row in rows}
    apart = {row.pools for row in rows} - {EVERY} or {EVERY}
    shown = [
        row
        for row in rows
        if row.pools in apart and (row.generator == EVERY or len(generators) == 1)
    ]
    made = [_changes(cells, shown), _steps(shown)]
    return [figure for figure in made if figure is not None]


def _changes(cells: Sequence[CellRow], rows: Sequence[ScalingRow]) -> Figure | None:
    by_cell: dict[Cell, dict[str, float]] = {}
    for row in cells:
        cell = Cell.of(row)
        by_cell.setdefault(cell, {})[row.scenario] = row.auc
    data: Rows = [
        {"s": scenario, "d": short(auc - found["S1"]), "c": named(cell)}
        for cell, found in by_cell.items()
        if "S1" in found
        for scenario, auc in found.items()
    ]
    scenarios = sorted({str(row["s"]) for row in data})
    means: Rows = [
        {
            "s": row.step.split()[-1],
            "g": GROUPS[row.pools],
            "d": short(row.change),
            "l": short(row.low),
            "h": short(row.high),
        }
        for row in rows
        if (row.view, row.proxy) == (ANY, BEST) and row.step.startswith("S1 ")
    ]
    if len(scenarios) < 2 or not means:
        return None
    groups = list(dict.fromkeys(str(row["g"]) for row in means))
    said = "; ".join(
        f"{group} " + ", ".join(f"{row['s']} {row['d']:+.3f}" for row in means if row["g"] == group)
        for group in groups
    )
    colour: Spec = {
        "field": "g",
        "type": "nominal",
        "title": None,
        "scale": {"domain": groups, "range": ["$first", "$second"][: len(groups)]},
    }
    shape = colour | {"scale": {"domain": groups, "range": ["circle", "square"][: len(groups)]}}
    x: Spec = {
        "field": "s",
        "type": "nominal",
        "sort": scenarios,
        "title": "what the attacker knows",
        "axis": {"labelAngle": 0, "grid": False},
    }
    y: Spec = {"field": "d", "type": "quantitative", "title": "change of the best AUC from S1"}
    return Figure(
        name="scenario_scaling_a",
        title="(a) What more knowledge changes: best proxy, every cell",
        alt=(
            f"Change of the best proxy's AUC from S1 in {len(by_cell)} cells (grey lines), and"
            f" means with 95% intervals over cells (coloured): {said} on average."
        ),
        spec={
            "data": values(data),
            "height": 260,
            "layer": [
                {
                    "mark": {"type": "line", "color": "$band", "opacity": 0.55, "strokeWidth": 1},
                    "encoding": {"x": x, "y": y, "detail": {"field": "c"}},
                },
                {
                    "data": values(means),
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {
                        "x": x,
                        "y": y | {"field": "l"},
                        "y2": {"field": "h"},
                        "color": colour,
                    },
                },
                {
                    "data": values(means),
                    "mark": {"type": "point", "filled": True, "size": 80, "opacity": 1},
                    "encoding": {
                        "x": x,
                        "y": y,
                        "color": colour,
                        "shape": shape,
                        "tooltip": _tooltip(),
                    },
                },
            ],
        },
    )


def _tooltip() -> list[Spec]:
    names = {"s": "scenario", "g": "pools", "d": "mean change", "l": "from", "h": "to"}
    return [{"field": field, "title": title} for field, title in names.items()]


def _steps(rows: Sequence[ScalingRow]) -> Figure | None:
    data: Rows = [
        {
            "t": f"{row.step}, {GROUPS[row.pools]}",
            "k": KINDS[row.proxy, row.view],
            "d": short(row.change),
            "l": short(row.low),
            "h": short(row.high),
            "n": row.cells,
        }
        for row in rows
        if (row.proxy, row.view) in KINDS
    ]
    if not data:
        return None
    kinds = [kind for kind in KINDS.values() if any(row["k"] == kind for row in data)]
    steps = sorted(dict.fromkeys(str(row["t"]) for row in data), key=lambda t: t.split(",")[0])
    hues = ["$first", "$second", "$third", "$fourth", "$ink", "$muted"]
    marks = ["circle", "square", "triangle-up", "diamond", "cross", "triangle-down"]
    kind: Spec = {"field": "k", "type": "nominal", "title": None, "legend": {"columns": 3}}
    y: Spec = {"field": "t", "type": "nominal", "sort": steps, "title": None}
    offset: Spec = {"field": "k", "type": "nominal", "sort": kinds}
    x: Spec = {
        "type": "quantitative",
        "title": "change of AUC at this step, mean over cells",
        "axis": {"tickCount": 6},
    }
    shared: Spec = {"y": y, "yOffset": offset}
    colour = kind | {"scale": {"domain": kinds, "range": hues[: len(kinds)]}}
    tooltip = [
        {"field": "t", "title": "step"},
        {"field": "k", "title": "proxy"},
        {"field": "d", "title": "change"},
        {"field": "l", "title": "from"},
        {"field": "h", "title": "to"},
        {"field": "n", "title": "cells"},
    ]
    return Figure(
        name="scenario_scaling_b",
        title="(b) Best and median proxy of each view, step by step",
        alt="Mean change of AUC with 95% intervals over cells: "
        + "; ".join(f"{row['t']}, {row['k']} {row['d']:+.3f}" for row in data)
        + ".",
        spec={
            "data": values(data),
            "height": {"step": 14},
            "layer": [
                {
                    "data": values([{"zero": 0}]),
                    "mark": {"type": "rule", "color": "$muted", "strokeDash": [2, 3]},
                    "encoding": {"x": x | {"field": "zero"}},
                },
                {
                    "mark": {"type": "rule", "strokeWidth": 1.5},
                    "encoding": shared
                    | {"x": x | {"field": "l"}, "x2": {"field": "h"}, "color": colour},
                },
                {
                    "mark": {"type": "point", "filled": True, "size": 55, "opacity": 1},
                    "encoding": shared
                    | {
                        "x": x | {"field": "d"},
                        "color": colour,
                        "shape": kind | {"scale": {"domain": kinds, "range": marks[: len(kinds)]}},
                        "tooltip": tooltip,
                    },
                },
            ],
        },
    )
