"""Who carries the leak: spread of V, attributes, other generators; see captions.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

from synthleak.analyses.analysis import ATTRIBUTES, Unavailable
from synthleak.analyses.attributes import AttributeTest, CombinedRow, SelectionRow
from synthleak.analyses.consistency import ConsistencyRow
from synthleak.analyses.vulnerability import SPLIT, VulnerabilityRow
from synthleak.core.cell import Cell, format_epsilon
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import (
    OUTLIER,
    RANDOM,
    RARE,
    UNION,
    Source,
    labels_of,
    pool_of,
)

FAINTEST, DEEPEST, FARTHEST = 8, 45, 0.40
CONCENTRATED = lay.Piece("†", form="sup")
"""Not bold: Markdown, which has no colours, sets shaded entries in bold."""
NAMES = {
    "length": "length",
    "outlierness": "outlierness",
    "near_duplication": "near-duplication",
    "rare_bigrams": "rare n-gram density",
    "entities": "entity/numeral density",
}
SHORT = {
    **NAMES,
    "near_duplication": "near-dup.",
    "rare_bigrams": "rare n-gram",
    "entities": "entity/num.",
}
SELECTIONS = {SPLIT: "80% split", "all": "all episodes"}
BLOCKS = {OUTLIER: "Outlier pools", RARE: "Rare-label pools"}
PAPER = ("paper_", "the paper's V")
"""The prefix of columns that hold the paper's V, and the name of parts of tables that do."""
Combined = dict[tuple[str, str], CombinedRow]
"""The random pools' combinations by generator and attribute."""


def distribution(source: Source) -> lay.Table:
    every: Sequence[VulnerabilityRow] = source.rows("vulnerability")
    rows = [row for row in every if source.rule(row) not in (RANDOM, UNION)] or list(every)
    if not rows:
        raise Unavailable("needs a cell with records that were both in and out")
    parts = [_spread_part(rows, prefix, name) for prefix, name in (("", "ours"), PAPER)]
    return lay.table("distribution", parts, size="small", budget=parts[0].columns[1].head)


def _spread_part(rows: Sequence[VulnerabilityRow], prefix: str, name: str) -> lay.Part:
    """Return the spread of V, ours or by the paper's formula, as a grid."""
    budgets = lay.budgets_of(row.epsilon for row in rows)
    by_cell = {Cell.of(row): row for row in rows}
    labels = labels_of(map(pool_of, rows))
    blocks = []
    for generator in dict.fromkeys(row.generator for row in rows):
        lines = []
        for pool, label in labels.items():
            cells = [by_cell.get(Cell(*pool, generator, epsilon)) for epsilon in budgets]
            counts = [getattr(row, f"{prefix}qualifying") for row in cells if row is not None]
            if counts:
                few, many = min(counts), max(counts)
                text = str(few) if few == many else f"{few}–{many}"
                count = lay.entry(text, values={"fewest": few, "most": many})
                entries = [_spread(row, cells[0], prefix) for row in cells]
                lines.append(lay.Row((generator, label), (count, *entries)))
        blocks.append(lay.Block(lines))
    first, *others = budgets
    columns = (
        lay.Column("n", align="r"),
        lay.Column(lay.budget(first)),
        *(lay.Column(format_epsilon(e), plain=lay.budget(e)) for e in others),
    )
    caption = lay.words("V by the formula of the study." if prefix else "V by ranks, with bands.")
    return lay.Part(("Generator", "Dataset"), columns, blocks, caption, name=name)


def shade(s10: float, open_s10: float | None) -> lay.Shade | None:
    """Return how deep an excess over the column without privacy is shaded.

    >>> shade(0.58, 0.31), shade(0.34, 0.31), shade(0.2, 0.31)
    (('topheavy', 30), ('topheavy', 8), None)
    """
    if open_s10 is None or s10 <= open_s10:
        return None
    excess = min(s10 - open_s10, FARTHEST)
    return "topheavy", max(FAINTEST, round(DEEPEST * excess / FARTHEST))


def _spread(
    row: VulnerabilityRow | None, without: VulnerabilityRow | None, prefix: str
) -> lay.Entry:
    """Write the positive share and S10; the paper's V has no bands."""
    share = None if row is None else getattr(row, f"{prefix}positive_share")
    if row is None or share is None:
        return lay.NOTHING
    s10, text = getattr(row, f"{prefix}s10"), lay.percent(share)
    values = lay.values_of(row, "paper_positive_share paper_s10 paper_mean_abs_v")
    if not prefix:
        bands = "" if s10 is None else " s10 null_s10_high even_s10_high"
        values = lay.values_of(row, f"positive_share{bands}")
    if s10 is None:
        return lay.entry(f"{text} / –", values=values)
    if not prefix:
        values |= {"p_null": row.s10_p_null, "p_even": row.s10_p_even}
        values |= lay.values_of(row, "concentrated")
    return lay.entry(
        f"{text} / {lay.percent(s10)}",
        *([CONCENTRATED] if not prefix and row.concentrated == "yes" else []),
        values=values,
        shade=None if without is None else shade(s10, getattr(without, f"{prefix}s10")),
        faint=not prefix and not lay.significant(row.s10_p_null),
    )


def attributes(source: Source) -> lay.Table:
    parts = [_attributes_part(source, "")]
    with suppress(Unavailable):
        parts.append(_attributes_part(source, "_paper"))
    rows: Sequence[AttributeTest] = source.rows("attributes")
    floors = [row.floor for row in rows if row.floor is not None]
    reach = f" ({min(floors):.2f} to {max(floors):.2f} here)" if floors else ""
    return lay.table("attributes", parts, reach=reach)


def _attributes_part(source: Source, ending: str) -> lay.Part:
    """Return the correlations with our V, or with the paper's."""
    rows: Sequence[AttributeTest] = source.rows(f"attributes{ending}")
    in_blocks = [row for row in rows if row.block not in (RANDOM, UNION)]
    pools = list(dict.fromkeys((row.block, row.corpus, row.pool) for row in in_blocks))
    pools.sort(key=lambda pool: [*BLOCKS, pool[0]].index(pool[0]))
    columns = []
    for block, corpus, pool in pools:
        labels = labels_of((owner, name) for other, owner, name in pools if other == block)
        title = BLOCKS.get(block, f"{block} pools")
        columns.append(lay.Column(labels[corpus, pool], title, upright=True))
    columns.append(lay.Column("combined ρ", "Random pools", upright=True))
    combinations = _combined(source, SPLIT, ending)
    tests = {(row.corpus, row.pool, row.generator, row.attribute): row for row in rows}

    def entries(generator: str, attribute: str) -> list[lay.Entry]:
        keys = [(corpus, pool, generator, attribute) for _, corpus, pool in pools]
        return [
            *(_test(tests.get(key)) for key in keys),
            _fisher(combinations.get((generator, attribute))),
        ]

    part = _by_attribute((row.generator for row in rows), columns, entries)
    caption, name = (
        ("V by the formula of the study.", PAPER[1]) if ending else ("V by ranks.", "ours")
    )
    return replace(part, caption=lay.words(caption), name=name)


def _by_attribute(
    generators: Iterable[str],
    columns: Sequence[lay.Column],
    entries: Callable[[str, str], Sequence[lay.Entry]],
) -> lay.Part:
    """Return a grid with a block for each generator and a row for each attribute."""
    blocks = [
        lay.Block(
            [lay.Row((NAMES[name],), entries(generator, name)) for name in ATTRIBUTES], generator
        )
        for generator in dict.fromkeys(generators)
    ]
    return lay.Part(("Attribute",), columns, blocks)


def _combined(source: Source, selection: str, ending: str = "") -> Combined:
    """Return the combinations over the random pools under a rule of selection."""
    try:
        rows: Sequence[CombinedRow] = source.rows(f"attributes_combined{ending}")
    except Unavailable:
        return {}
    return {
        (row.generator, row.attribute): row
        for row in rows
        if (row.selection, row.block, row.corpus) == (selection, RANDOM, "all")
    }


def _test(row: AttributeTest | None) -> lay.Entry:
    if row is None or row.rho is None:
        return lay.NOTHING
    mark = row.selected_on + ("*" if lay.significant(row.p_holm) else "")
    return lay.entry(
        _rho(row.rho),
        lay.Piece(mark, form="sup"),
        values=lay.values_of(row, "rho records p_value p_holm floor"),
        faint=row.floor is None or abs(row.rho) < row.floor,
    )


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
    leads = lay.significant(row.p_holm)
    mark = [lay.Piece("*", form="sup")] if leads else []
    values = lay.values_of(row, "rho low high pools records p_holm")
    return lay.entry(_rho(row.rho), *mark, values=values, faint=not leads)


def selection(source: Source) -> lay.Table:
    rows: Sequence[SelectionRow] = source.rows("selection_rules")
    combinations = {row.selection: _combined(source, row.selection) for row in rows}
    blocks = []
    for generator in dict.fromkeys(row.generator for row in rows):
        lines = []
        for row in [row for row in rows if row.generator == generator]:
            by_attribute = combinations[row.selection]
            rhos = [by_attribute.get((generator, name)) for name in ATTRIBUTES]
            count, move = f"{row.significant}/{row.tests}", lay.NOTHING
            if row.selection != SPLIT and row.largest_move is not None:
                moves = {"largest": row.largest_move, "median": row.median_move}
                move = lay.entry(f"{row.largest_move:.2f}", values=moves)
            entries = (
                lay.entry(count, values=lay.values_of(row, "significant tests")),
                *(_signed_rho(combined_row) for combined_row in rhos),
                move,
            )
            lines.append(lay.Row((_title(row.selection),), entries))
        blocks.append(lay.Block(lines, title=generator))
    heads = ("sig./N", *(SHORT[name] for name in ATTRIBUTES), "max |Δρ|")
    part = lay.Part(("Selection rule",), [lay.Column(head) for head in heads], blocks)
    return lay.table("selection", [part], size="small")


def _title(selection: str) -> str:
    return SELECTIONS.get(selection, f"fixed {selection}")


def _signed_rho(row: CombinedRow | None, *, with_p: bool = False) -> lay.Entry:
    if row is None or row.rho is None:
        return lay.NOTHING
    p = f" ({lay.chance(row.p_holm)})" if with_p else ""
    values = lay.values_of(row, "rho p_holm")
    return lay.entry(
        f"{lay.signed(row.rho, 2)}{p}", values=values, bold=lay.significant(row.p_holm)
    )


def combined(source: Source) -> lay.Table:
    rows: Sequence[CombinedRow] = source.rows("attributes_combined")
    tables = {row.selection: _combined(source, row.selection) for row in rows}
    generators = [generator for table in tables.values() for generator, _ in table]
    if not generators:
        raise Unavailable("needs random pools")

    def entries(generator: str, attribute: str) -> list[lay.Entry]:
        key = (generator, attribute)
        return [_signed_rho(table.get(key), with_p=True) for table in tables.values()]

    part = _by_attribute(generators, [lay.Column(_title(name)) for name in tables], entries)
    counts = sorted({row.pools for table in tables.values() for row in table.values()})
    return lay.table("combined", [part], size="small", counts=" or ".join(map(str, counts)))


def cross_generator(source: Source) -> lay.Table:
    rows: list[ConsistencyRow] = [
        row
        for row in source.rows("consistency")
        if row.across == "generators" and row.block != UNION
    ]
    if not rows:
        raise Unavailable("needs two generators that were audited on the same pools")
    parts = [
        _beside_others([row for row in rows if row.one == one], one)
        for one in dict.fromkeys(row.one for row in rows)
    ]
    return lay.table("cross_generator", parts, size="small")


def _beside_others(rows: Sequence[ConsistencyRow], one: str) -> lay.Part:
    others = list(dict.fromkeys(row.other for row in rows))
    by_place = {(row.corpus, row.pool, row.other): row for row in rows}
    lines = []
    for pool in dict.fromkeys((row.corpus, row.pool) for row in rows):
        beside = [by_place.get((*pool, other)) for other in others]
        most = max(row.records for row in beside if row is not None)
        count = lay.entry(str(most), values={"records": most})
        lines.append(lay.Row((" ".join(pool),), [count, *map(_agreement, beside)]))
    means = lay.Row(("mean",), [lay.entry(""), *(_mean_rho(rows, other) for other in others)])
    columns = [lay.Column("n", align="r"), *(lay.Column(f"vs. {other}") for other in others)]
    blocks = [lay.Block(lines), lay.Block([means])]
    return lay.Part(("Pool",), columns, blocks, lay.words(f"{one} beside others."), name=one)


def _agreement(row: ConsistencyRow | None) -> lay.Entry:
    if row is None or row.rho is None:
        return lay.NOTHING
    return lay.entry(
        f"{lay.signed(row.rho, 2)} ({row.records})",
        values=lay.values_of(row, "rho records null_low null_high p_holm"),
        faint=lay.within(row.rho, row.null_low, row.null_high),
        bold=lay.significant(row.p_holm),
    )


def _mean_rho(rows: Sequence[ConsistencyRow], other: str) -> lay.Entry:
    rhos = [row.rho for row in rows if row.other == other and row.rho is not None]
    if not rhos:
        return lay.NOTHING
    mean = sum(rhos) / len(rhos)
    return lay.entry(lay.signed(mean, 2), values={"rho": mean, "pools": len(rhos)})
