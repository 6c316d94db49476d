"""Merged pools: whose members stand out more against the same non-members."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.merged import MergedRow
from synthleak.paper.tables.layout import (
    NOTHING,
    Block,
    Column,
    Entry,
    Part,
    Piece,
    Printed,
    Row,
    budget,
    chance,
    entry,
    signed,
    words,
)
from synthleak.paper.tables.source import Source

MEASURES = {"auc": "AUC", "tpr_at_fpr05": "TPR"}


def merged(source: Source) -> Printed:
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
        name = f"{corpus}, {generator}, ε = {budget(epsilon)}: {first.first} − {first.second}"
        made += [
            Row((name, title), _entries(shown[measure]))
            for measure, title in MEASURES.items()
            if measure in shown
        ]
    columns = (
        Column("First"),
        Column("Second"),
        Column("Δ", align="l"),
        Column("without a leak", align="l"),
        Column("p", align="r"),
        Column("Δ, each to its own", align="l"),
    )
    caption = words(
        "Games in which two kinds of records share a pool and face the same non-members. Δ is the"
        " first kind minus the second, with a 95% bootstrap over member records; ",
        Piece("bold", bold=True),
        " where that excludes 0. Absolute values are against the merged pool's non-members and"
        " compare with no other table. The scenario is the best for the whole pool; TPR at 5% FPR.",
    )
    notes = (
        words(
            "Records of one kind may score higher whether they are in or out. So Δ need not be 0"
            " where nothing leaks: ",
            Piece("without a leak", italic=True),
            " is the central 95% of redraws of the coins that choose their own proxy, and Δ is ",
            Piece("grey", colour="gray"),
            " inside it. Last column: Δ with each kind against its own non-members, which is 0"
            " where nothing leaks and where both leak alike.",
        ),
    )
    part = Part(("Cell", "Measure"), columns, (Block(tuple(made)),))
    return Printed("merged", caption, (part,), notes)


def _planned(source: Source) -> Sequence[MergedRow]:
    """Return the rows of merged pools that a spec names; none where it names none."""
    try:
        return list(source.rows("merged"))
    except Unavailable:
        return []


def _entries(row: MergedRow) -> tuple[Entry, ...]:
    inside = (
        row.null_low is not None
        and row.null_high is not None
        and row.null_low <= row.delta <= row.null_high
    )
    delta = Entry(
        (
            words(
                Piece(signed(row.delta), bold=row.low > 0 or row.high < 0),
                Piece(f" [{signed(row.low, 2)},{signed(row.high, 2)}]", form="small"),
            ),
        ),
        {"delta": row.delta, "low": row.low, "high": row.high},
        faint=inside,
    )
    return (
        entry(f"{row.first_value:.2f}", kind=row.first, value=row.first_value),
        entry(f"{row.second_value:.2f}", kind=row.second, value=row.second_value),
        delta,
        _band(row.null_low, row.null_high),
        entry(chance(row.p), p=row.p),
        _own(row),
    )


def _band(low: float | None, high: float | None) -> Entry:
    if low is None or high is None:
        return NOTHING
    return entry(Piece(f"[{signed(low, 2)},{signed(high, 2)}]", form="small"), low=low, high=high)


def _own(row: MergedRow) -> Entry:
    if row.own_delta is None:
        return NOTHING
    values = {"delta": row.own_delta, "low": row.own_low, "high": row.own_high}
    if row.own_low is None or row.own_high is None:
        return entry(signed(row.own_delta), **values)
    certain = row.own_low > 0 or row.own_high < 0
    return entry(
        Piece(signed(row.own_delta), bold=certain),
        Piece(f" [{signed(row.own_low, 2)},{signed(row.own_high, 2)}]", form="small"),
        **values,
    )
