"""What more knowledge buys an attacker: the paper's two panels (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cell_data import CANARIES, EVERY
from synthleak.analyses.cells import CellRow
from synthleak.analyses.scenario_scaling import ScalingRow
from synthleak.core.cell import Cell
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, Spec

ANY, BEST = "any", "best"
KINDS = {
    (BEST, "lexical"): "best lexical",
    ("median", "lexical"): "median lexical",
    (BEST, "embedding"): "best embedding",
    ("median", "embedding"): "median embedding",
    (BEST, ANY): "best of all",
    ("crossfit", ANY): "fixed in advance",
}


def scaling_figures(rows: Sequence[ScalingRow], cells: Sequence[CellRow]) -> list[Figure]:
    """Show (a) each cell's change from S1, (b) the best and the median proxy of each view.

    Means are of selected pools and of controls apart; of all where no rule is known.
    """
    generators = {row.generator for row in rows}
    apart = {row.pools for row in rows} - {EVERY, CANARIES} or {row.pools for row in rows}
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
        by_cell.setdefault(Cell.of(row), {})[row.scenario] = row.auc
    given = any(row.design == "given" for row in cells)
    data: Rows = [
        {"s": scenario, "d": fig.short(auc - found["S1"]), "c": cell.title(given=given)}
        for cell, found in by_cell.items()
        if "S1" in found
        for scenario, auc in found.items()
    ]
    scenarios = sorted({str(row["s"]) for row in data})
    means: Rows = [
        {
            "s": row.step.split()[-1],
            "g": fig.GROUPS[row.pools],
            "d": fig.short(row.change),
            "l": fig.short(row.low),
            "h": fig.short(row.high),
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
    colour: Spec = fig.nominal(
        field="g", scale={"domain": groups, "range": ["$first", "$second"][: len(groups)]}
    )
    shape = colour | {"scale": {"domain": groups, "range": ["circle", "square"][: len(groups)]}}
    x: Spec = fig.nominal(
        "what the attacker knows",
        field="s",
        scale={"domain": scenarios},
        axis={"labelAngle": 0, "grid": False},
    )
    y: Spec = fig.quantitative("change of the best AUC from S1", field="d")
    return Figure(
        name="scenario_scaling_a",
        title="(a) What more knowledge changes: best proxy, every cell",
        alt=(
            f"Change of the best proxy's AUC from S1 in {len(by_cell)} cells (grey lines), and"
            f" means with 95% intervals over cells (coloured): {said} on average."
        ),
        spec={
            "data": fig.values(data),
            "height": 260,
            "layer": [
                {
                    "mark": {"type": "line", "color": "$band", "opacity": 0.55, "strokeWidth": 1},
                    "encoding": {"x": x, "y": y, "detail": {"field": "c"}},
                },
                {
                    "data": fig.values(means),
                    "mark": {"type": "rule", "strokeWidth": 2},
                    "encoding": {
                        "x": x,
                        "y": y | {"field": "l"},
                        "y2": {"field": "h"},
                        "color": colour,
                    },
                },
                {
                    "data": fig.values(means),
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
            "t": f"{row.step}, {fig.GROUPS[row.pools]}",
            "k": KINDS[row.proxy, row.view],
            "d": fig.short(row.change),
            "l": fig.short(row.low),
            "h": fig.short(row.high),
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
    kind: Spec = fig.nominal(field="k", legend={"columns": 3})
    y: Spec = fig.nominal(field="t", sort=steps)
    offset: Spec = {"field": "k", "type": "nominal", "sort": kinds}
    x: Spec = fig.quantitative("change of AUC at this step, mean over cells", axis={"tickCount": 6})
    shared: Spec = {"y": y, "yOffset": offset}
    colour = kind | {"scale": {"domain": kinds, "range": hues[: len(kinds)]}}
    tooltip = fig.tooltips(t="step", k="proxy", d="change", l="from", h="to", n="cells")
    return Figure(
        name="scenario_scaling_b",
        title="(b) Best and median proxy of each view, step by step",
        alt="Mean change of AUC with 95% intervals over cells: "
        + "; ".join(f"{row['t']}, {row['k']} {row['d']:+.3f}" for row in data)
        + ".",
        spec={
            "data": fig.values(data),
            "height": {"step": 14},
            "layer": [
                {
                    "data": fig.values([{"zero": 0}]),
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
