"""How vulnerability is spread over the records of each cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.vulnerability import VulnerabilityRow
from synthleak.core.cell import format_epsilon
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import RANDOM, UNION, Source

FAINTEST, DEEPEST, FARTHEST = 8, 45, 0.40
CONCENTRATED = lay.Piece("†", form="sup")
"""Not bold: Markdown, which has no colours, sets shaded entries in bold."""


def distribution(source: Source) -> lay.Table:
    """Share of records with V above 0, and what the top tenth carries, in every cell."""
    every: Sequence[VulnerabilityRow] = source.rows("vulnerability")
    rows = [r for r in every if source.rule(r.corpus, r.pool) not in (RANDOM, UNION)] or list(every)
    if not rows:
        raise Unavailable("needs a cell with records that were both in and out")
    budgets = lay.budgets_of([row.epsilon for row in rows])
    pools = list(dict.fromkeys((row.corpus, row.pool) for row in rows))
    blocks = []
    for generator in dict.fromkeys(row.generator for row in rows):
        lines = []
        for pool in pools:
            found = {
                row.epsilon: row
                for row in rows
                if row.generator == generator and (row.corpus, row.pool) == pool
            }
            if found:
                entries = [_entry(found.get(e), found.get(budgets[0])) for e in budgets]
                name = source.label(*pool, pools)
                lines.append(lay.Row((generator, name), (_count(list(found.values())), *entries)))
        blocks.append(lay.Block(lines))
    columns = (
        lay.Column("n", align="r"),
        *(
            lay.Column(
                format_epsilon(e) if place else f"ε = {format_epsilon(e)}",
                plain=f"ε = {format_epsilon(e)}",
            )
            for place, e in enumerate(budgets)
        ),
    )
    caption = lay.words(
        "How per-record vulnerability V(x) is spread in every cell: share of qualifying records"
        " with V > 0 / share S10 of all positive V that the top tenth carries, in per cent, under"
        f" the cell's best proxy; n records qualify. Shaded: S10 above that of the same line at"
        f" ε = {format_epsilon(budgets[0])}, the deeper the larger the excess (up to 40 points)."
    )
    notes = (
        lay.words(
            "S10 of noise is far above 10, and so is S10 of a leak that is perfectly even. ",
            lay.Piece("Grey", colour="gray"),
            ": S10 is not above what redraws without a leak give (p > 0.05). ",
            CONCENTRATED,
            ": S10 lies above the band of an even leak; only this supports “concentrated”.",
        ),
    )
    part = lay.Part(("Generator", "Dataset"), columns, blocks)
    return lay.Table("distribution", caption, (part,), notes, size="small")


def _count(rows: Sequence[VulnerabilityRow]) -> lay.Entry:
    few, many = min(r.qualifying for r in rows), max(r.qualifying for r in rows)
    return lay.entry(str(few) if few == many else f"{few}–{many}", fewest=few, most=many)


def shade(s10: float, open_s10: float | None) -> tuple[lay.Colour, int] | None:
    """Return how deep an excess over the column without privacy is shaded.

    >>> shade(0.58, 0.31), shade(0.34, 0.31), shade(0.2, 0.31)
    (('topheavy', 30), ('topheavy', 8), None)
    """
    if open_s10 is None or s10 <= open_s10:
        return None
    excess = min(s10 - open_s10, FARTHEST)
    return "topheavy", max(FAINTEST, round(DEEPEST * excess / FARTHEST))


def _entry(row: VulnerabilityRow | None, without: VulnerabilityRow | None) -> lay.Entry:
    if row is None or row.positive_share is None:
        return lay.NOTHING
    if row.s10 is None:
        return lay.entry(
            f"{lay.percent(row.positive_share)} / –", positive_share=row.positive_share
        )
    mark = (CONCENTRATED,) if row.concentrated == "yes" else ()
    entry = lay.entry(
        f"{lay.percent(row.positive_share)} / {lay.percent(row.s10)}",
        *mark,
        positive_share=row.positive_share,
        s10=row.s10,
        null_s10_high=row.null_s10_high,
        even_s10_high=row.even_s10_high,
        p_null=row.s10_p_null,
        p_even=row.s10_p_even,
        concentrated=row.concentrated,
    )
    other = without is not None and without is not row
    return replace(
        entry,
        shade=shade(row.s10, without.s10) if other and without is not None else None,
        faint=not lay.significant(row.s10_p_null),
    )
