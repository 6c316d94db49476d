"""Merged pools: whose members stand out more against the same non-members."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.merged import MergedRow
from synthleak.core.cell import Cell, format_epsilon, is_of
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import Source

MEASURES = {"auc": "AUC", "tpr_at_fpr05": "TPR"}


def merged(source: Source) -> lay.Table:
    """The difference between two kinds of records in one game."""
    rows = list(source.adjudicated)
    with suppress(Unavailable):
        rows = [*source.rows("merged"), *rows]
    if not rows:
        raise Unavailable(
            'needs a pool of the rule "union", or flagged cells that `synthleak adjudicate` played'
        )
    lines = []
    for cell in dict.fromkeys(Cell.of(row) for row in rows):
        own = [row for row in rows if is_of(row, cell)]
        top = max(own, key=lambda row: row.pool_auc)
        shown = {row.measure: row for row in own if row.scenario == top.scenario}
        name = (
            f"{cell.corpus}, {cell.generator}, ε = {format_epsilon(cell.epsilon)}:"
            f" {top.first} − {top.second}"
        )
        lines += [
            lay.Row((name, title), _entries(shown[measure]))
            for measure, title in MEASURES.items()
            if measure in shown
        ]
    columns = (
        lay.Column("First"),
        lay.Column("Second"),
        lay.Column("Δ", align="l"),
        lay.Column("without a leak", align="l"),
        lay.Column("p", align="r"),
        lay.Column("Δ, each to its own", align="l"),
    )
    caption = lay.words(
        "Games in which two kinds of records share a pool and face the same non-members. Δ is the"
        " first kind minus the second, with a 95% bootstrap over member records; ",
        lay.Piece("bold", bold=True),
        " where that excludes 0. Absolute values are against the merged pool's non-members and"
        " compare with no other table. The scenario is the best for the whole pool; TPR at 5% FPR.",
    )
    notes = (
        lay.words(
            "Records of one kind may score higher whether they are in or out. So Δ need not be 0"
            " where nothing leaks: ",
            lay.Piece("without a leak", italic=True),
            " is the central 95% of redraws of the coins that choose their own proxy, and Δ is ",
            lay.Piece("grey", colour="gray"),
            " inside it. Last column: Δ with each kind against its own non-members, which is 0"
            " where nothing leaks and where both leak alike.",
        ),
    )
    part = lay.Part(("Cell", "Measure"), columns, [lay.Block(lines)])
    return lay.Table("merged", caption, (part,), notes)


def _entries(row: MergedRow) -> tuple[lay.Entry, ...]:
    return (
        lay.entry(f"{row.first_value:.2f}", kind=row.first, value=row.first_value),
        lay.entry(f"{row.second_value:.2f}", kind=row.second, value=row.second_value),
        replace(
            _delta(row.delta, row.low, row.high),
            faint=lay.within(row.delta, row.null_low, row.null_high),
        ),
        _band(row.null_low, row.null_high),
        lay.entry(lay.chance(row.p), p=row.p),
        _delta(row.own_delta, row.own_low, row.own_high),
    )


def _band(low: float | None, high: float | None) -> lay.Entry:
    if low is None or high is None:
        return lay.NOTHING
    return lay.entry(lay.Piece(lay.interval(low, high), form="small"), low=low, high=high)


def _delta(delta: float | None, low: float | None, high: float | None) -> lay.Entry:
    """Write a difference with its interval, bold where that excludes 0."""
    if delta is None:
        return lay.NOTHING
    values = {"delta": delta, "low": low, "high": high}
    if low is None or high is None:
        return lay.entry(lay.signed(delta), **values)
    return lay.entry(
        lay.Piece(lay.signed(delta), bold=low > 0 or high < 0),
        lay.Piece(f" {lay.interval(low, high)}", form="small"),
        **values,
    )
