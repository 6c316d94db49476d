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


KINDS = ["best in hindsight", "fixed in advance"]


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
    panel = fig.drawn("scenarios", [row.scenario for row in rows], KINDS)
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
