"""Merged pools: whose members stand out more against the same non-members."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.merged import MergedRow
from synthleak.core.cell import format_epsilon
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import Source

MEASURES = {"auc": "AUC", "tpr_at_fpr05": "TPR"}


def merged(source: Source) -> lay.Printed:
    """The difference between two kinds of records that were played in one game."""
    rows = [*_planned(source), *source.adjudicated]
    if not rows:
        raise Unavailable(
            'needs a pool of the rule "union", or flagged cells that `synthleak adjudicate` played'
        )
    games = dict.fromkeys((r.corpus, r.pool, r.generator, r.epsilon) for r in rows)
    made = []
    for game in games:
        own = [r for r in rows if (r.corpus, r.pool, r.generator, r.epsilon) == game]
        top = max(own, key=lambda row: row.pool_auc).scenario
        shown = {row.measure: row for row in own if row.scenario == top}
        corpus, _, generator, epsilon = game
        first = next(iter(shown.values()))
        name = (
            f"{corpus}, {generator}, ε = {format_epsilon(epsilon)}: {first.first} − {first.second}"
        )
        made += [
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
    part = lay.Part(("Cell", "Measure"), columns, (lay.Block(tuple(made)),))
    return lay.Printed("merged", caption, (part,), notes)


def _planned(source: Source) -> Sequence[MergedRow]:
    """Return the rows of merged pools that a spec names; none where it names none."""
    try:
        return list(source.rows("merged"))
    except Unavailable:
        return []


def _entries(row: MergedRow) -> tuple[lay.Entry, ...]:
    inside = (
        row.null_low is not None
        and row.null_high is not None
        and row.null_low <= row.delta <= row.null_high
    )
    delta = lay.Entry(
        (
            lay.words(
                lay.Piece(lay.signed(row.delta), bold=row.low > 0 or row.high < 0),
                lay.Piece(f" [{lay.signed(row.low, 2)},{lay.signed(row.high, 2)}]", form="small"),
            ),
        ),
        {"delta": row.delta, "low": row.low, "high": row.high},
        faint=inside,
    )
    return (
        lay.entry(f"{row.first_value:.2f}", kind=row.first, value=row.first_value),
        lay.entry(f"{row.second_value:.2f}", kind=row.second, value=row.second_value),
        delta,
        _band(row.null_low, row.null_high),
        lay.entry(lay.chance(row.p), p=row.p),
        _own(row),
    )


def _band(low: float | None, high: float | None) -> lay.Entry:
    if low is None or high is None:
        return lay.NOTHING
    return lay.entry(
        lay.Piece(f"[{lay.signed(low, 2)},{lay.signed(high, 2)}]", form="small"), low=low, high=high
    )


def _own(row: MergedRow) -> lay.Entry:
    if row.own_delta is None:
        return lay.NOTHING
    values = {"delta": row.own_delta, "low": row.own_low, "high": row.own_high}
    if row.own_low is None or row.own_high is None:
        return lay.entry(lay.signed(row.own_delta), **values)
    certain = row.own_low > 0 or row.own_high < 0
    return lay.entry(
        lay.Piece(lay.signed(row.own_delta), bold=certain),
        lay.Piece(f" [{lay.signed(row.own_low, 2)},{lay.signed(row.own_high, 2)}]", form="small"),
        **values,
    )
