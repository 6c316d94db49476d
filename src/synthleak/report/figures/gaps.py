"""Differences with intervals: budgets, controls, DP, merged pools (docs/method.md §10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from synthleak.analyses.cells import CellRow
from synthleak.analyses.control_gap import GapRow
from synthleak.analyses.dp_removal import RemovalRow
from synthleak.analyses.merged import MergedRow
from synthleak.core.cell import format_epsilon
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows, Spec

WHOLE = "all"
R = TypeVar("R", GapRow, RemovalRow, MergedRow)


def budgets_figure(rows: Sequence[CellRow]) -> Figure | None:
    """Show the deployable figure of every pool over budgets, with its chance limit."""
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
            "a": fig.short(row.crossfit_auc),
            "l": fig.short(row.crossfit_low),
            "h": fig.short(row.crossfit_high),
            "c": fig.short(row.null_crossfit95),
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
        title="What an attacker reaches who fixed the method in advance, by privacy budget",
        alt=(
            f"Cross-fitted AUC of {len(data)} cells by privacy budget and pool, in the strongest"
            f" scenario, with 95% intervals and chance limits; {above} lie above their limit."
        ),
        spec={
            "usermeta": fig.panels(len(heads), least=250, gutter=30, margin=48),
            "data": fig.values(data),
            "facet": fig.nominal(field="g", sort=heads),
            "columns": len(heads),
            "spec": {"height": 230, "layer": _budget_layers(order, sorted({r["p"] for r in data}))},
        },
    )


def _budget_layers(order: list[str], pools: list[str]) -> list[Spec]:
    x: Spec = {
        "field": "e",
        "type": "ordinal",
        "scale": {"domain": order},
        "title": "privacy budget ε",
        "axis": {"labelAngle": 0},
    }
    y = fig.quantitative("AUC (tick: chance limit)", scale={"zero": False, "padding": 6})
    pool = fig.nominal("pool", field="p")
    # As many shapes as share no divisor with the hues: twenty pools before two look alike.
    marks = ["circle", "square", "triangle-up", "diamond", "cross"]
    return fig.estimates(
        {"x": x, "xOffset": {"field": "p", "type": "nominal", "scale": {"domain": pools}}},
        ("y", y),
        ("a", "l", "h", "c"),
        colour=fig.scaled(pool, pools, fig.HUES),
        shape=fig.scaled(pool, pools, marks),
        tooltip=fig.tooltips(
            p="pool", e="ε", s="scenario", a="AUC", l="from", h="to", c="chance limit", w="verdict"
        ),
    )


def control_gap_figure(rows: Sequence[GapRow]) -> Figure | None:
    """Show how much worse off a selected pool is than its random controls, cell by cell."""
    shown = _by_budget(
        row for row in rows if row.scenario == WHOLE and row.crossfit_gap is not None
    )
    data: Rows = [
        _forest_row(
            row,
            row.crossfit_gap,
            "flagged (Holm)" if row.flagged == "yes" else "not flagged",
            row.p_holm,
        )
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
    shown = _by_budget(row for row in rows if row.scenario == WHOLE and row.difference is not None)
    data: Rows = [
        _forest_row(row, row.difference, _significant(row.p_holm), row.p_holm) for row in shown
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
    shown = _by_budget(row for row in rows if row.measure == "auc")
    data: Rows = [
        _forest_row(
            row, row.delta, "outside the no-leak band" if _outside(row) else "inside it", row.p
        )
        | {"n": fig.short(row.null_low), "m": fig.short(row.null_high)}
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


def _by_budget(rows: Iterable[R]) -> list[R]:
    """Keep pools in their order and sort their budgets: those of a study may lie in two folders."""
    rows = list(rows)
    pools = list(dict.fromkeys((row.corpus, row.generator, row.pool) for row in rows))
    return sorted(
        rows,
        key=lambda row: (pools.index((row.corpus, row.generator, row.pool)), -row.epsilon),
    )


def _forest_row(
    row: GapRow | RemovalRow | MergedRow, value: float | None, kind: str, p: float | None
) -> dict[str, Any]:
    cell = f"{row.corpus}, {row.generator}, {row.pool}, ε = {format_epsilon(row.epsilon)}"
    return {
        "c": f"{cell}, {row.scenario}" if isinstance(row, MergedRow) else cell,
        "v": fig.short(value),
        "l": fig.short(row.low),
        "h": fig.short(row.high),
        "k": kind,
        "p": fig.short(p),
    }


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
    x: Spec = fig.quantitative(axis, scale={"zero": True, "padding": 8}, axis={"tickCount": 7})
    y: Spec = fig.nominal(
        field="c", sort=None, axis={"grid": False, "ticks": False, "labelLimit": 300}
    )
    kind: Spec = fig.nominal(field="k")
    tooltip = fig.tooltips(c="cell", v="difference", l="from", h="to", p="p", k="reading")
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
            "data": fig.values([{"zero": 0}]),
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
        spec={"data": fig.values(data), "height": {"step": 18}, "layer": layers},
    )
