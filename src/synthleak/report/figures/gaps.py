"""Differences with intervals: budgets, controls, what DP removes, merged pools (docs/method.md
§10)."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.cells import CellRow
from synthleak.analyses.control_gap import GapRow
from synthleak.analyses.dp_removal import RemovalRow
from synthleak.analyses.merged import MergedRow
from synthleak.core.cell import format_epsilon
from synthleak.report.figures.figure import Figure, Rows, Spec, panels, short, values

WHOLE = "all"


def budgets_figure(rows: Sequence[CellRow]) -> Figure | None:
    """Show the deployable figure of every pool over budgets, with its chance ceiling."""
    best: dict[tuple[str, str, str, float], CellRow] = {}
    for row in rows:
        key = (row.corpus, row.generator, row.pool, row.epsilon)
        if row.crossfit_auc is not None and (
            key not in best or row.crossfit_auc > (best[key].crossfit_auc or 0)
        ):
            best[key] = row
    if not best:
        return None
    data: Rows = [
        {
            "g": f"{row.generator}, {row.corpus}",
            "p": row.pool,
            "e": format_epsilon(row.epsilon),
            "a": short(row.crossfit_auc),
            "l": short(row.crossfit_low),
            "h": short(row.crossfit_high),
            "c": short(row.null_crossfit95),
            "s": row.scenario,
            "w": row.verdict,
        }
        for row in best.values()
    ]
    order = [
        format_epsilon(e) for e in sorted({row.epsilon for row in best.values()}, reverse=True)
    ]
    heads = list(dict.fromkeys(str(row["g"]) for row in data))
    above = sum(row["c"] is not None and row["a"] > row["c"] for row in data)
    return Figure(
        name="budgets",
        title="What an attacker reaches who chose beforehand, by privacy budget",
        alt=(
            f"Cross-fitted AUC of {len(data)} cells by privacy budget and pool, in the strongest"
            f" scenario, with 95% intervals and chance ceilings; {above} lie above their ceiling."
        ),
        spec={
            "usermeta": panels(len(heads), least=250, gutter=30, margin=48),
            "data": values(data),
            "facet": {"field": "g", "type": "nominal", "title": None, "sort": heads},
            "columns": len(heads),
            "spec": {"height": 230, "layer": _budget_layers(order, sorted({r["p"] for r in data}))},
        },
    )


def _budget_layers(order: list[str], pools: list[str]) -> list[Spec]:
    x: Spec = {
        "field": "e",
        "type": "ordinal",
        "sort": order,
        "title": "privacy budget ε",
        "axis": {"labelAngle": 0},
    }
    y: Spec = {
        "type": "quantitative",
        "title": "AUC (tick: chance stays below)",
        "scale": {"zero": False, "padding": 6},
    }
    offset: Spec = {"field": "p", "type": "nominal"}
    pool: Spec = {"field": "p", "type": "nominal", "title": "pool"}
    hues = ["$first", "$second", "$third", "$fourth"]
    # As many as share no divisor with the hues: twenty pools before two look alike.
    marks = ["circle", "square", "triangle-up", "diamond", "cross"]
    colour = pool | {"scale": {"domain": pools, "range": _cycled(hues, len(pools))}}
    shape = pool | {"scale": {"domain": pools, "range": _cycled(marks, len(pools))}}
    tooltip = [
        {"field": "p", "title": "pool"},
        {"field": "e", "title": "ε"},
        {"field": "s", "title": "scenario"},
        {"field": "a", "title": "AUC"},
        {"field": "l", "title": "from"},
        {"field": "h", "title": "to"},
        {"field": "c", "title": "chance stays below"},
        {"field": "w", "title": "verdict"},
    ]
    shared: Spec = {"x": x, "xOffset": offset}
    return [
        {
            "mark": {"type": "rule", "strokeWidth": 1.5},
            "encoding": shared | {"y": y | {"field": "l"}, "y2": {"field": "h"}, "color": colour},
        },
        {
            "mark": {"type": "tick", "color": "$muted", "thickness": 2, "size": 12},
            "encoding": shared | {"y": y | {"field": "c"}, "tooltip": tooltip},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": shared
            | {"y": y | {"field": "a"}, "color": colour, "shape": shape, "tooltip": tooltip},
        },
    ]


def _cycled(items: list[str], count: int) -> list[str]:
    return [items[place % len(items)] for place in range(count)]


def control_gap_figure(rows: Sequence[GapRow]) -> Figure | None:
    """Show how much worse off a selected pool is than its random controls, cell by cell."""
    shown = [row for row in rows if row.scenario == WHOLE and row.crossfit_gap is not None]
    data: Rows = [
        {
            "c": _cell(row.corpus, row.generator, row.pool, row.epsilon),
            "v": short(row.crossfit_gap),
            "l": short(row.low),
            "h": short(row.high),
            "k": "flagged (Holm)" if row.flagged == "yes" else "not flagged",
            "p": short(row.p_holm),
        }
        for row in shown
    ]
    flagged = sum(row.flagged == "yes" for row in shown)
    return _differences(
        data,
        name="control_gap",
        title="Selected pools minus their random controls",
        alt=(
            f"Difference of cross-fitted AUCs, selected pool minus random controls, in {len(data)}"
            f" cells with 95% bootstrap intervals; {flagged} exclude 0 after Holm's correction."
        ),
        axis="difference of cross-fitted AUCs",
        kinds=["flagged (Holm)", "not flagged"],
    )


def removal_figure(rows: Sequence[RemovalRow]) -> Figure | None:
    """Show how much leakage a budget removes from a selected pool, less its controls."""
    shown = [row for row in rows if row.scenario == WHOLE and row.difference is not None]
    data: Rows = [
        {
            "c": _cell(row.corpus, row.generator, row.pool, row.epsilon),
            "v": short(row.difference),
            "l": short(row.low),
            "h": short(row.high),
            "k": _significant(row.p_holm),
            "p": short(row.p_holm),
        }
        for row in shown
    ]
    return _differences(
        data,
        name="dp_removal",
        title="What a budget removes: selected pool minus its random controls",
        alt=(
            "AUC without privacy minus AUC at a budget, selected pool minus its controls, in"
            f" {len(data)} cells with 95% bootstrap intervals. Below 0, privacy removes less"
            " leakage from the selected records."
        ),
        axis="removed AUC, selected minus controls",
        kinds=["differs from 0 (Holm)", "does not"],
    )


def merged_figure(rows: Sequence[MergedRow]) -> Figure | None:
    """Show whose members stand out in merged pools, against the same non-members."""
    shown = [row for row in rows if row.measure == "auc"]
    data: Rows = [
        {
            "c": f"{_cell(row.corpus, row.generator, row.pool, row.epsilon)}, {row.scenario}",
            "v": short(row.delta),
            "l": short(row.low),
            "h": short(row.high),
            "k": "outside the no-leak band" if _outside(row) else "inside it",
            "p": short(row.p),
            "n": short(row.null_low),
            "m": short(row.null_high),
        }
        for row in shown
    ]
    pairs = ", ".join(dict.fromkeys(f"{row.first} minus {row.second}" for row in shown))
    return _differences(
        data,
        name="merged",
        title=f"Merged pools, against the same non-members: {pairs}",
        alt=(
            f"Difference of AUCs by origin ({pairs}) in {len(data)} merged cells and scenarios,"
            " with 95% bootstrap intervals over member records and the band of redraws without"
            " a leak."
        ),
        axis="difference of AUCs by origin (grey: no leak)",
        kinds=["outside the no-leak band", "inside it"],
    )


def _cell(corpus: str, generator: str, pool: str, epsilon: float) -> str:
    return f"{corpus}, {generator}, {pool}, ε = {format_epsilon(epsilon)}"


def _significant(p: float | None) -> str:
    return "differs from 0 (Holm)" if p is not None and p <= 0.05 else "does not"


def _outside(row: MergedRow) -> bool:
    if row.null_low is None or row.null_high is None:
        return False
    return not row.null_low <= row.delta <= row.null_high


def _differences(
    data: Rows, *, name: str, title: str, alt: str, axis: str, kinds: list[str]
) -> Figure | None:
    """Return a forest of differences: one row each, filled where something is shown."""
    if not data:
        return None
    x: Spec = {
        "type": "quantitative",
        "title": axis,
        "scale": {"zero": True, "padding": 8},
        "axis": {"tickCount": 7},
    }
    y: Spec = {
        "field": "c",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {"grid": False, "ticks": False, "labelLimit": 300},
    }
    kind: Spec = {"field": "k", "type": "nominal", "title": None}
    tooltip = [
        {"field": "c", "title": "cell"},
        {"field": "v", "title": "difference"},
        {"field": "l", "title": "from"},
        {"field": "h", "title": "to"},
        {"field": "p", "title": "p"},
        {"field": "k", "title": "reading"},
    ]
    layers: list[Spec] = []
    if "n" in data[0]:
        layers.append(
            {
                "mark": {"type": "bar", "color": "$band", "opacity": 0.35, "height": 11},
                "encoding": {"y": y, "x": x | {"field": "n"}, "x2": {"field": "m"}},
            }
        )
    layers += [
        {
            "data": values([{"zero": 0}]),
            "mark": {"type": "rule", "color": "$muted", "strokeDash": [2, 3]},
            "encoding": {"x": x | {"field": "zero"}},
        },
        {
            "mark": {"type": "rule", "strokeWidth": 1.5, "color": "$first"},
            "encoding": {"y": y, "x": x | {"field": "l"}, "x2": {"field": "h"}},
        },
        {
            "mark": {
                "type": "point",
                "size": 60,
                "opacity": 1,
                "strokeWidth": 1.5,
                "stroke": "$first",
            },
            "encoding": {
                "y": y,
                "x": x | {"field": "v"},
                "fill": kind | {"scale": {"domain": kinds, "range": ["$first", "$paper"]}},
                "shape": kind | {"scale": {"domain": kinds, "range": ["diamond", "circle"]}},
                "tooltip": tooltip,
            },
        },
    ]
    return Figure(
        name=name,
        title=title,
        alt=alt,
        spec={"data": values(data), "height": {"step": 18}, "layer": layers},
    )
