"""Differences with intervals: budgets, controls, DP, merged pools, knowledge (method.md §10)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from synthleak.analyses.analysis import CANARIES, EVERY
from synthleak.analyses.cells import CellRow
from synthleak.analyses.gaps import GapRow, MergedRow, RemovalRow
from synthleak.analyses.overviews import ScalingRow
from synthleak.core.cell import Cell, format_epsilon
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows

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
