"""Prior attacks beside ours: every arm of a cell, and the study as a scatter (docs/method.md
§9)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cell_data import EVERY
from synthleak.analyses.cells import CellRow
from synthleak.analyses.prior import OURS, ComparisonRow, PriorRow
from synthleak.analyses.prior_attacks import ScoreboardRow
from synthleak.core.cell import Cell, format_epsilon
from synthleak.report.figures.figure import GROUPS, Figure, Rows, Spec, named, short, values

COLOURS = ["$first", "$second", "$third"]
SHAPES = ["circle", "square", "triangle-up"]


def prior_figure(cell: Cell, ours: Sequence[CellRow], rows: Sequence[PriorRow]) -> Figure | None:
    """Show every arm of the prior attacks with its ceiling, below the best of ours."""
    if not rows or not ours:
        return None
    data: Rows = [
        {
            "a": f"{OURS}: {row.proxy}, {row.scenario}",
            "f": OURS,
            "v": short(row.auc),
            "c": short(row.null_auc95),
        }
        for row in ours
    ]
    data += [
        {
            "a": f"{row.family}: {row.arm}, {row.scenario}",
            "f": row.family,
            "v": short(row.auc),
            "c": short(row.auc_ceiling),
        }
        for row in rows
    ]
    best = max(rows, key=lambda row: row.auc)
    top = max(ours, key=lambda row: row.auc)
    return Figure(
        name="prior",
        title=f"Prior attacks in the same game: {named(cell)}",
        alt=(
            f"AUC of {len(rows)} arms of prior attacks with their chance ceilings; the best,"
            f" {best.family} {best.arm} in {best.scenario}, reaches {best.auc:.3f}, the best of"
            f" ours ({top.proxy}, {top.scenario}) {top.auc:.3f}."
        ),
        spec={
            "data": values(data),
            "height": {"step": 17},
            "encoding": {
                "y": {
                    "field": "a",
                    "type": "nominal",
                    "sort": None,
                    "title": None,
                    "axis": {"grid": False, "ticks": False, "labelLimit": 240},
                }
            },
            "layer": _arms(list(dict.fromkeys(str(row["f"]) for row in data))),
        },
        cell=cell,
    )


def _arms(families: list[str]) -> list[Spec]:
    x: Spec = {
        "field": "v",
        "type": "quantitative",
        "title": "AUC (tick: chance stays below)",
        "scale": {"zero": False, "padding": 8},
        "axis": {"tickCount": 6},
    }
    kind: Spec = {"field": "f", "type": "nominal", "title": None}
    colours = [COLOURS[place % 3] for place in range(len(families))]
    shapes = [SHAPES[place % 3] for place in range(len(families))]
    tooltip = [
        {"field": "a", "title": "signal"},
        {"field": "v", "title": "AUC"},
        {"field": "c", "title": "chance stays below"},
    ]
    return [
        {
            "mark": {"type": "tick", "color": "$muted", "thickness": 2, "size": 12},
            "encoding": {"x": x | {"field": "c"}, "tooltip": tooltip},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {
                "x": x,
                "color": kind | {"scale": {"domain": families, "range": colours}},
                "shape": kind | {"scale": {"domain": families, "range": shapes}},
                "tooltip": tooltip,
            },
        },
    ]


def rivals_figure(rows: Sequence[ComparisonRow], boards: Sequence[ScoreboardRow]) -> Figure | None:
    """Show ours against the better prior attack, a point per cell; `boards` counts the wins."""
    data: Rows = [
        {
            "x": short(row.ours_auc - row.delta),
            "y": short(row.ours_auc),
            "cell": named(Cell.of(row)),
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
    found = [board for board in boards if board.rival == "better"]
    whole = {board.generator for board in found}
    found = [board for board in found if board.generator == EVERY or len(whole) == 1]
    apart = [board for board in found if board.pools != EVERY] or found
    said = " and ".join(f"{b.wins} of {b.cells} cells of {GROUPS[b.pools]}" for b in apart)
    return f", which is higher in {said}" if said else ""


def _diagonal(low: float, high: float) -> Spec:
    return {
        "data": values([{"x": low, "y": low}, {"x": high, "y": high}]),
        "mark": {"type": "line", "color": "$muted", "strokeDash": [2, 3], "strokeWidth": 1},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "y", "type": "quantitative"},
        },
    }


def _cells(data: Rows) -> Spec:
    scale = {"zero": False, "padding": 10}
    names = ["ours passes its null", "within chance"]
    found: Spec = {"field": "found", "type": "nominal", "title": None}
    return {
        "data": values(data),
        "mark": {"type": "point", "size": 60, "opacity": 1, "strokeWidth": 1.5},
        "encoding": {
            "x": {
                "field": "x",
                "type": "quantitative",
                "title": "AUC of the better prior attack",
                "scale": scale,
                "axis": {"tickCount": 6},
            },
            "y": {"field": "y", "type": "quantitative", "title": "AUC of ours", "scale": scale},
            "fill": found | {"scale": {"domain": names, "range": ["$first", "transparent"]}},
            "stroke": found | {"scale": {"domain": names, "range": ["$first", "$muted"]}},
            "tooltip": [
                {"field": "cell", "title": "cell"},
                {"field": "corpus", "title": "corpus"},
                {"field": "y", "title": "ours"},
                {"field": "x", "title": "prior"},
                {"field": "arm", "title": "its arm"},
                {"field": "found", "title": "ours"},
            ],
        },
    }
