"""Whether the same records leak under another generator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.consistency import ConsistencyRow
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import UNION, Source


def cross_generator(source: Source) -> lay.Table:
    """V of the same records under two generators, by the first one's proxy."""
    rows: list[ConsistencyRow] = [
        row
        for row in source.rows("consistency")
        if row.across == "generators" and row.block != UNION
    ]
    if not rows:
        raise Unavailable("needs two generators that were audited on the same pools")
    parts = [
        _part([row for row in rows if row.one == one], one)
        for one in dict.fromkeys(row.one for row in rows)
    ]
    caption = lay.words(
        "Consistency across generators: Spearman's ρ between V(x) of the same records under two"
        " generators, scored by the same proxy, the first one's; in brackets the records that"
        " qualify under both."
    )
    notes = (
        lay.words(
            lay.Piece("Grey", colour="gray"),
            ": inside the central 95% of redraws that give both sides the same coins. ",
            lay.Piece("Bold", bold=True),
            ": p ≤ 0.05 after Holm. A noisy V pulls every ρ towards 0: a small ρ need not mean that"
            " other records are hit.",
        ),
    )
    return lay.Table("cross_generator", caption, parts, notes, size="small")


def _part(rows: Sequence[ConsistencyRow], one: str) -> lay.Part:
    others = list(dict.fromkeys(row.other for row in rows))
    pools = list(dict.fromkeys((row.corpus, row.pool) for row in rows))
    found = {(row.corpus, row.pool, row.other): row for row in rows}
    lines = []
    for corpus, pool in pools:
        own = [found.get((corpus, pool, other)) for other in others]
        most = max(row.records for row in own if row is not None)
        entries = [lay.entry(str(most), records=most), *map(_entry, own)]
        lines.append(lay.Row((f"{corpus} {pool}",), entries))
    means = lay.Row(("mean",), [lay.entry(""), *(_mean(rows, other) for other in others)])
    columns = [lay.Column("n", align="r"), *(lay.Column(f"vs. {other}") for other in others)]
    blocks = [lay.Block(lines), lay.Block([means])]
    return lay.Part(("Pool",), columns, blocks, lay.words(f"{one} beside others."), name=one)


def _entry(row: ConsistencyRow | None) -> lay.Entry:
    if row is None or row.rho is None:
        return lay.NOTHING
    inside = lay.within(row.rho, row.null_low, row.null_high)
    entry = lay.entry(
        f"{lay.signed(row.rho, 2)} ({row.records})",
        rho=row.rho,
        records=row.records,
        null_low=row.null_low,
        null_high=row.null_high,
        p_holm=row.p_holm,
    )
    return replace(entry, faint=inside, bold=lay.significant(row.p_holm))


def _mean(rows: Sequence[ConsistencyRow], other: str) -> lay.Entry:
    known = [row.rho for row in rows if row.other == other and row.rho is not None]
    if not known:
        return lay.NOTHING
    mean = sum(known) / len(known)
    return lay.entry(lay.signed(mean, 2), rho=mean, pools=len(known))
