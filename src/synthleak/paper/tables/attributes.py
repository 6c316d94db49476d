"""Attributes of records against their vulnerability: by pool, by rule of selection, combined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.attributes import AttributeTest
from synthleak.analyses.attributes_combined import CombinedRow
from synthleak.analyses.cell_data import ATTRIBUTES
from synthleak.analyses.selection_rules import SelectionRow
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import OUTLIER, RANDOM, RARE, UNION, Source

SPLIT = "split80"
ALL = "all"
NAMES = {
    "length": "length",
    "outlierness": "outlierness",
    "near_duplication": "near-duplication",
    "rare_bigrams": "rare n-gram density",
    "entities": "entity/numeral density",
}
SHORT = {
    "length": "length",
    "outlierness": "outlierness",
    "near_duplication": "near-dup.",
    "rare_bigrams": "rare n-gram",
    "entities": "entity/num.",
}
SELECTIONS = {SPLIT: "80% split", "all": "all episodes"}
BLOCKS = {OUTLIER: "Outlier pools", RARE: "Rare-label pools"}


def attributes(source: Source) -> lay.Table:
    """Spearman's ρ of each attribute with V, per pool, and combined over the random pools."""
    rows: Sequence[AttributeTest] = source.rows("attributes")
    shown = [row for row in rows if row.block not in (RANDOM, UNION)]
    combined = _combined(source, SPLIT)
    pools = list(dict.fromkeys((row.block, row.corpus, row.pool) for row in shown))
    pools.sort(key=lambda pool: list(BLOCKS).index(pool[0]) if pool[0] in BLOCKS else len(BLOCKS))
    generators = list(dict.fromkeys([row.generator for row in rows]))
    named = [(corpus, pool) for _, corpus, pool in pools]
    columns = []
    for block, corpus, pool in pools:
        beside = [(owner, name) for other, owner, name in pools if other == block]
        title = BLOCKS.get(block, f"{block} pools")
        columns.append(lay.Column(source.label(corpus, pool, beside), title, upright=True))
    columns.append(lay.Column("combined ρ", "Random pools", upright=True))
    blocks = []
    for generator in generators:
        lines = []
        for attribute in ATTRIBUTES:
            own = {
                (row.corpus, row.pool): row
                for row in rows
                if (row.generator, row.attribute) == (generator, attribute)
            }
            entries = [_test(own.get(pool)) for pool in named]
            last = _fisher(combined.get((generator, attribute)))
            lines.append(lay.Row((NAMES[attribute],), (*entries, last)))
        blocks.append(lay.Block(lines, title=generator))
    caption = lay.words(
        "Spearman's ρ between an attribute of a record and the rank of its vulnerability in its"
        " pool, V pooled over budgets under one proxy that was chosen on 80% of the instances."
        " Right: the disjoint random pools, combined by Fisher's z."
    )
    floors = [row.floor for row in rows if row.floor is not None]
    reach = f" ({min(floors):.2f} to {max(floors):.2f} here)" if floors else ""
    notes = (
        lay.words(
            lay.Piece("Grey", colour="gray"),
            f": |ρ| below the detection floor of the pool{reach}; in the last column, p > 0.05"
            " after Holm. * p ≤ 0.05 after Holm, over all attribute–pool tests, or over the five"
            " attributes in the last column. † The pool was selected on this attribute, which"
            " restricts its range.",
        ),
    )
    part = lay.Part(("Attribute",), columns, blocks)
    return lay.Table("attributes", caption, (part,), notes)


def _test(row: AttributeTest | None) -> lay.Entry:
    if row is None or row.rho is None:
        return lay.NOTHING
    mark = "*" if lay.significant(row.p_holm) else ""
    entry = lay.entry(
        _rho(row.rho),
        lay.Piece(row.selected_on + mark, form="sup"),
        rho=row.rho,
        records=row.records,
        p_value=row.p_value,
        p_holm=row.p_holm,
        floor=row.floor,
    )
    return replace(entry, faint=row.floor is None or abs(row.rho) < row.floor)


def _rho(rho: float) -> str:
    """Write a correlation as narrow columns want it.

    >>> _rho(0.29), _rho(-0.004)
    ('+.29', '+.00')
    """
    text = lay.short(rho)
    return text if text.startswith("−") else f"+{text}"


def _fisher(row: CombinedRow | None) -> lay.Entry:
    if row is None or row.rho is None:
        return lay.NOTHING
    found = lay.significant(row.p_holm)
    entry = lay.entry(
        _rho(row.rho),
        *([lay.Piece("*", form="sup")] if found else []),
        rho=row.rho,
        low=row.low,
        high=row.high,
        pools=row.pools,
        records=row.records,
        p_holm=row.p_holm,
    )
    return replace(entry, faint=not found)


def _combined(source: Source, selection: str) -> dict[tuple[str, str], CombinedRow]:
    """Return the random pools' combinations under a rule, by generator and attribute."""
    try:
        rows: Sequence[CombinedRow] = source.rows("attributes_combined")
    except Unavailable:
        return {}
    return {
        (row.generator, row.attribute): row
        for row in rows
        if (row.selection, row.block, row.corpus) == (selection, RANDOM, ALL)
    }


def _selections(rows: Sequence[CombinedRow] | Sequence[SelectionRow]) -> list[str]:
    return list(dict.fromkeys(row.selection for row in rows))


def selection(source: Source) -> lay.Table:
    """How many tests are significant, and how far ρ moves, under each rule of selection."""
    rows: Sequence[SelectionRow] = source.rows("selection_rules")
    combined = {name: _combined(source, name) for name in _selections(rows)}
    blocks = []
    for generator in dict.fromkeys(row.generator for row in rows):
        lines = []
        for row in rows:
            if row.generator != generator:
                continue
            rhos = [combined[row.selection].get((generator, name)) for name in ATTRIBUTES]
            count = lay.entry(
                f"{row.significant}/{row.tests}", significant=row.significant, tests=row.tests
            )
            title = SELECTIONS.get(row.selection, f"fixed {row.selection}")
            lines.append(lay.Row((title,), (count, *map(_plain_rho, rhos), _move(row))))
        blocks.append(lay.Block(lines, title=generator))
    columns = (
        lay.Column("sig./N"),
        *(lay.Column(SHORT[name]) for name in ATTRIBUTES),
        lay.Column("max |Δρ|"),
    )
    caption = lay.words(
        "The attribute correlations under four rules that choose the proxy: tests that stay"
        " significant after Holm, of all; ρ combined over the random pools by Fisher's z; and the"
        " largest change of any pool's ρ against the 80% split. Fixed rules choose nothing."
    )
    part = lay.Part(("Selection rule",), columns, blocks)
    return lay.Table("selection", caption, (part,), (_significant(),), size="small")


def _significant() -> tuple[lay.Piece, ...]:
    return lay.words(
        lay.Piece("Bold", bold=True),
        ": p ≤ 0.05 after Holm over the five attributes. The rule that chooses on all episodes"
        " chooses on those that it tests, so its p-values are optimistic.",
    )


def _plain_rho(row: CombinedRow | None) -> lay.Entry:
    if row is None or row.rho is None:
        return lay.NOTHING
    entry = lay.entry(lay.signed(row.rho, 2), rho=row.rho, p_holm=row.p_holm)
    return replace(entry, bold=lay.significant(row.p_holm))


def _move(row: SelectionRow) -> lay.Entry:
    if row.selection == SPLIT or row.largest_move is None:
        return lay.NOTHING
    return lay.entry(f"{row.largest_move:.2f}", largest=row.largest_move, median=row.median_move)


def combined(source: Source) -> lay.Table:
    """The random pools' combined ρ with its p, under each rule of selection."""
    rows: Sequence[CombinedRow] = source.rows("attributes_combined")
    names = _selections(rows)
    tables = {name: _combined(source, name) for name in names}
    generators = list(dict.fromkeys(key[0] for found in tables.values() for key in found))
    if not generators:
        raise Unavailable("needs random pools")
    blocks = [
        lay.Block(
            tuple(
                lay.Row(
                    (NAMES[attribute],),
                    tuple(_with_p(tables[name].get((generator, attribute))) for name in names),
                )
                for attribute in ATTRIBUTES
            ),
            title=generator,
        )
        for generator in generators
    ]
    columns = tuple(lay.Column(SELECTIONS.get(name, f"fixed {name}")) for name in names)
    counts = {row.pools for found in tables.values() for row in found.values()}
    caption = lay.words(
        "Correlation of each attribute with vulnerability over the random pools, combined by"
        f" Fisher's z ({' or '.join(str(n) for n in sorted(counts))} pools), under each rule that"
        " chooses the proxy; in brackets p after Holm over the five attributes."
    )
    part = lay.Part(("Attribute",), columns, blocks)
    return lay.Table("combined", caption, (part,), (_significant(),), size="small")


def _with_p(row: CombinedRow | None) -> lay.Entry:
    if row is None or row.rho is None:
        return lay.NOTHING
    entry = lay.entry(
        f"{lay.signed(row.rho, 2)} ({lay.chance(row.p_holm)})", rho=row.rho, p_holm=row.p_holm
    )
    return replace(entry, bold=lay.significant(row.p_holm))
