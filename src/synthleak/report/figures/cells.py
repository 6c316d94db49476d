"""Figures of cells: what signals reach, and differences with intervals (docs/method.md §6–§10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np

from synthleak.analyses.analysis import CANARIES, EVERY
from synthleak.analyses.cells import CellRow, ProxyRow
from synthleak.analyses.gaps import GapRow, MergedRow, RemovalRow
from synthleak.analyses.overviews import ScalingRow, ScoreboardRow
from synthleak.analyses.prior import OURS, ComparisonRow, PriorRow
from synthleak.core.cell import Cell, format_epsilon
from synthleak.metrics.curves import GRID, LOWEST, Curves
from synthleak.metrics.membership import FPR_LIMIT
from synthleak.metrics.verdict_statistics import TAIL, by_column
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows

BAND, CURVE, POINT = "n", "b", "p"


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
    return [
        fig.figure(
            name,
            data,
            fig.drawn("roc", LOWEST, logarithmic, _guessing(logarithmic), allowed),
            cell=cell,
            heads={row.scenario: f"{row.scenario}: {row.proxy}" for row in rows},
            said="; ".join(map(_found, rows)),
            redraws=curves.redraws,
            allowed="; a dashed line shows the most that the claim allows" * bool(allowed),
        )
        for name, logarithmic in (("roc", False), ("roc_log", True))
    ]


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


def _found(row: CellRow) -> str:
    limit = "" if row.null_tpr95 is None else f", chance limit {row.null_tpr95:.0%}"
    rate = f"{row.tpr_at_fpr05:.0%} of members at 5% false alarms"
    return f"{row.scenario} ({row.proxy}) finds {rate}{limit}"


def _guessing(logarithmic: bool) -> Rows:
    """Return the diagonal, which a logarithmic axis bends."""
    rates = np.logspace(-3, 0, 25).round(5).tolist() if logarithmic else [0, 1]
    return [{"f": rate, "t": rate} for rate in rates]


CHOSEN = ["best in hindsight", "fixed in advance"]


def proxies_figure(cell: Cell, rows: Sequence[ProxyRow], statistics: Sequence[str]) -> Figure:
    """Show every proxy of a cell: its AUC and its chance limit; others that were tested on hover.

    `statistics` names those of the cell: which one the column `tail` holds depends on the design.
    """
    tail = by_column(statistics).get(TAIL.column, ())
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
    return fig.figure(
        "proxies",
        data,
        fig.drawn("proxies", order, tail[0].title if tail else ""),
        cell=cell,
        heads=scenarios,
        proxies=len(order),
        scenarios=len(scenarios),
        above=sum(row.auc_ceiling is not None and row.auc > row.auc_ceiling for row in rows),
        rows=len(rows),
    )


def scenarios_figure(cell: Cell, rows: Sequence[CellRow]) -> Figure:
    """Show the best proxy of each scenario beside the figure of an attacker who chose before."""
    data: Rows = []
    for row in rows:
        fitted = (row.crossfit_auc, row.crossfit_low, row.crossfit_high, row.null_crossfit95)
        for kind, what, figures in (
            (CHOSEN[0], row.proxy, (row.auc, None, None, row.null_auc95)),
            (CHOSEN[1], "cross-fitted", fitted),
        ):
            if figures[0] is not None:
                shown = zip(("auc", "low", "high", "ceiling"), map(fig.short, figures), strict=True)
                data.append({"scenario": row.scenario, "kind": kind, **dict(shown), "what": what})
    said = "; ".join(
        f"{row.scenario} {row.auc:.3f} in hindsight"
        + ("" if row.crossfit_auc is None else f", {row.crossfit_auc:.3f} fixed in advance")
        for row in rows
    )
    panel = fig.drawn("scenarios", [row.scenario for row in rows], CHOSEN)
    return fig.figure("scenarios", data, panel, cell=cell, said=said)


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
    return fig.figure(
        "prior",
        data,
        fig.drawn("prior", list(dict.fromkeys(arm[0] for arm in arms))),
        cell=cell,
        arms=len(rows),
        best=max(rows, key=lambda row: row.auc),
        ours=max(ours, key=lambda row: row.auc),
    )


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
    panel = fig.drawn("prior_attacks", low, high, data)
    return fig.figure("prior_attacks", None, panel, cells=len(data), wins=_wins(boards))


def _wins(boards: Sequence[ScoreboardRow]) -> str:
    """Say how often ours is higher, in selected pools and in controls apart."""
    counted = [board for board in boards if board.rival == "better"]
    whole = {board.generator for board in counted}
    counted = [board for board in counted if board.generator == EVERY or len(whole) == 1]
    apart = [board for board in counted if board.pools != EVERY] or counted
    said = " and ".join(f"{b.wins} of {b.cells} cells of {fig.GROUPS[b.pools]}" for b in apart)
    return f", which is higher in {said}" if said else ""


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
    panel = fig.drawn("budgets", order, sorted({r["p"] for r in data}))
    return fig.figure("budgets", data, panel, heads=heads, cells=len(data), above=above)


def sizes_figure(rows: Sequence[CellRow]) -> Figure | None:
    """Show the deployable figure of every pool over the number of texts that are published."""
    best: dict[tuple[Cell, int], CellRow] = {}
    for row in rows:
        key = (Cell.of(row), row.release_size or 0)
        if row.crossfit_auc is not None and (
            key not in best or row.crossfit_auc > (best[key].crossfit_auc or 0)
        ):
            best[key] = row
    if not best:
        return None
    data: Rows = [
        {
            "g": f"{cell.mechanism}, {cell.corpus}",
            "p": cell.pool,
            "k": size,
            "a": fig.short(row.crossfit_auc),
            "c": fig.short(row.null_crossfit95),
            "s": row.scenario,
            "w": row.verdict,
        }
        for (cell, size), row in sorted(best.items(), key=lambda item: item[0][1])
    ]
    heads = list(dict.fromkeys(f"{cell.mechanism}, {cell.corpus}" for cell, _ in best))
    sizes = sorted({size for _, size in best})
    panel = fig.drawn("sizes", sizes, sorted({cell.pool for cell, _ in best}))
    return fig.figure("sizes", data, panel, heads=heads, cells=len({cell for cell, _ in best}))


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
    return _differences(
        data,
        "control_gap",
        axis="difference of cross-fitted AUCs",
        kinds=["flagged (Holm)", "not flagged"],
        flagged=sum(row.flagged == "yes" for row in shown),
    )


def removal_figure(rows: Sequence[RemovalRow]) -> Figure | None:
    """Show how much leakage a budget removes from a selected pool, less its controls."""
    shown = _by_budget(row for row in rows if row.scenario == WHOLE and row.difference is not None)
    data: Rows = [
        _forest_row(row, row.difference, _significant(row.p_holm), row.p_holm) for row in shown
    ]
    return _differences(
        data,
        "dp_removal",
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
        "merged",
        axis="difference of AUCs by origin (grey: no leak)",
        kinds=["outside the no-leak band", "inside it"],
        pairs=pairs,
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
    data: Rows, name: str, *, axis: str, kinds: list[str], **words: Any
) -> Figure | None:
    """Return a forest of differences: one row each, filled where something is shown."""
    if not data:
        return None
    panel = fig.drawn("differences", axis, kinds, "n" in data[0])
    return fig.figure(name, data, panel, cells=len(data), **words)


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
    figures = [_changes(cells, shown), _steps(shown)]
    return [figure for figure in figures if figure is not None]


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
    panel = fig.drawn("changes", scenarios, groups, means)
    return fig.figure("scenario_scaling_a", data, panel, cells=len(by_cell), said=said)


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
    said = "; ".join(f"{row['t']}, {row['k']} {row['d']:+.3f}" for row in data)
    return fig.figure("scenario_scaling_b", data, fig.drawn("steps", kinds, steps), said=said)
