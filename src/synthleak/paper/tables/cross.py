"""Whether the same records are hit by another generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.consistency import ConsistencyRow
from synthleak.paper.tables.layout import (
    NOTHING,
    Block,
    Column,
    Entry,
    Part,
    Piece,
    Printed,
    Row,
    bold,
    entry,
    signed,
    words,
)
from synthleak.paper.tables.source import UNION, Source

FOUND = 0.05


def cross_generator(source: Source) -> Printed:
    """V of the same records under two generators, by the first one's proxy."""
    rows: list[ConsistencyRow] = [
        row
        for row in source.rows("consistency")
        if row.across == "generators" and row.block != UNION
    ]
    if not rows:
        raise Unavailable("needs two generators that were audited on the same pools")
    parts = tuple(
        _part([row for row in rows if row.one == one], one)
        for one in dict.fromkeys(row.one for row in rows)
    )
    caption = words(
        "Consistency across generators: Spearman's ρ between V(x) of the same records under two"
        " generators, scored by the same proxy, the first one's; in brackets the records that"
        " qualify under both.",
    )
    notes = (
        words(
            Piece("Grey", colour="gray"),
            ": inside the central 95% of redraws that give both sides the same coins. ",
            Piece("Bold", bold=True),
            ": p ≤ 0.05 after Holm. A noisy V pulls every ρ towards 0: a small ρ need not mean that"
            " other records are hit.",
        ),
    )
    return Printed("cross_generator", caption, parts, notes, size="small")


def _part(rows: Sequence[ConsistencyRow], one: str) -> Part:
    others = list(dict.fromkeys(row.other for row in rows))
    pools = list(dict.fromkeys((row.corpus, row.pool) for row in rows))
    found = {(row.corpus, row.pool, row.other): row for row in rows}
    made = []
    for corpus, pool in pools:
        own = [found.get((corpus, pool, other)) for other in others]
        most = max(row.records for row in own if row is not None)
        entries = [_entry(row) for row in own]
        made.append(Row((f"{corpus} {pool}",), (entry(str(most), records=most), *entries)))
    means = Row(("mean",), (entry(""), *(_mean(rows, other) for other in others)))
    columns = (Column("n", align="r"), *(Column(f"vs. {other}") for other in others))
    blocks = (Block(tuple(made)), Block((means,)))
    return Part(("Pool",), columns, blocks, words(f"{one} beside others."), name=one)


def _entry(row: ConsistencyRow | None) -> Entry:
    if row is None or row.rho is None:
        return NOTHING
    inside = (
        row.null_low is not None
        and row.null_high is not None
        and row.null_low <= row.rho <= row.null_high
    )
    made = entry(
        f"{signed(row.rho, 2)} ({row.records})",
        rho=row.rho,
        records=row.records,
        null_low=row.null_low,
        null_high=row.null_high,
        p_holm=row.p_holm,
    )
    return bold(replace(made, faint=inside), row.p_holm is not None and row.p_holm <= FOUND)


def _mean(rows: Sequence[ConsistencyRow], other: str) -> Entry:
    known = [row.rho for row in rows if row.other == other and row.rho is not None]
    if not known:
        return NOTHING
    mean = sum(known) / len(known)
    return entry(signed(mean, 2), rho=mean, pools=len(known))
