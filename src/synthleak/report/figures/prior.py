"""Prior attacks beside ours: every arm of a cell, and all cells (docs/method.md §9)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cell_data import EVERY
from synthleak.analyses.cells import CellRow
from synthleak.analyses.prior import OURS, ComparisonRow, PriorRow
from synthleak.analyses.prior_attacks import ScoreboardRow
from synthleak.core.cell import Cell, format_epsilon
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, Spec

COLOURS = ["$first", "$second", "$third"]
SHAPES = ["circle", "square", "triangle-up"]


def prior_figure(cell: Cell, ours: Sequence[CellRow], rows: Sequence[PriorRow]) -> Figure | None:
    """Show every arm of the prior attacks with its chance limit, below the best of ours."""
    if not rows or not ours:
        return None
    data: Rows = [
        {
            "a": f"{OURS}: {row.proxy}, {row.scenario}",
            "f": OURS,
            "v": fig.short(row.auc),
            "c": fig.short(row.null_auc95),
        }
        for row in ours
    ]
    data += [
        {
            "a": f"{row.family}: {row.arm}, {row.scenario}",
            "f": row.family,
            "v": fig.short(row.auc),
            "c": fig.short(row.auc_ceiling),
        }
        for row in rows
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
    return [
        {
            "mark": {"type": "tick", "color": "$muted", "thickness": 2, "size": 12},
            "encoding": {"x": x | {"field": "c"}, "tooltip": tooltip},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {
                "x": x,
                "color": fig.scaled(kind, families, COLOURS),
                "shape": fig.scaled(kind, families, SHAPES),
                "tooltip": tooltip,
            },
        },
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
    found = [board for board in boards if board.rival == "better"]
    whole = {board.generator for board in found}
    found = [board for board in found if board.generator == EVERY or len(whole) == 1]
    apart = [board for board in found if board.pools != EVERY] or found
    said = " and ".join(f"{b.wins} of {b.cells} cells of {fig.GROUPS[b.pools]}" for b in apart)
    return f", which is higher in {said}" if said else ""


def _diagonal(low: float, high: float) -> Spec:
    return {
        "data": fig.values([{"x": low, "y": low}, {"x": high, "y": high}]),
        "mark": {"type": "line", "color": "$muted", "strokeDash": [2, 3], "strokeWidth": 1},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "y", "type": "quantitative"},
        },
    }


def _cells(data: Rows) -> Spec:
    scale = {"zero": False, "padding": 10}
    names = ["ours passes its null", "within chance"]
    found: Spec = fig.nominal(field="found")
    return {
        "data": fig.values(data),
        "mark": {"type": "point", "size": 60, "opacity": 1, "strokeWidth": 1.5},
        "encoding": {
            "x": fig.quantitative(
                "AUC of the better prior attack", field="x", scale=scale, axis={"tickCount": 6}
            ),
            "y": fig.quantitative("AUC of ours", field="y", scale=scale),
            "fill": found | {"scale": {"domain": names, "range": ["$first", "transparent"]}},
            "stroke": found | {"scale": {"domain": names, "range": ["$first", "$muted"]}},
            "tooltip": fig.tooltips(
                cell="cell", corpus="corpus", y="ours", x="prior", arm="its arm", found="ours"
            ),
        },
    }
