"""Every attacker at every budget, by the best proxy and by all fused; see captions.toml."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.cells import CellRow
from synthleak.analyses.overviews import MetaRow
from synthleak.core.cell import format_epsilon
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import (
    RANDOM,
    RARE,
    RARE_POOLS,
    SELECTED_POOLS,
    UNION,
    Grid,
    R,
    Source,
)

STUBS = ("Dataset", "Scenario")
BEST: lay.Shade = ("best", 18)
Rate = Callable[[float], lay.Piece]
"""Writes a TPR after its AUC."""
Write = Callable[[R, bool], lay.Entry]
"""Writes a row; the second argument says whether it is the best of its column."""


def _as_index(rate: float) -> lay.Piece:
    return lay.Piece(lay.percent(rate), form="sub")


def _after_slash(rate: float) -> lay.Piece:
    return lay.Piece(f"/{lay.percent(rate)}")


def _entry(row: CellRow, best: bool, *lines: lay.Words) -> lay.Entry:
    """Return an entry that is shaded where best, and faint up to the chance limit of its search."""
    values = {
        **lay.values_of(row, "auc auc_spread"),
        "tpr": row.tpr_at_fpr05,
        **lay.values_of(row, "null_auc95 null_tpr95 p_holm crossfit_auc proxy view"),
        "best": best,
    }
    passes = row.null_auc95 is not None and row.auc > row.null_auc95
    return lay.Entry(lines, values, BEST if best else None, bold=best, faint=not passes)


def _mark(row: CellRow, best: bool) -> list[lay.Piece]:
    return [lay.tag(row.view, "*" if lay.significant(row.p_holm) else "")] if best else []


def _spread(row: CellRow | MetaRow) -> str:
    return f" ({row.auc - row.auc_spread:.2f}–{row.auc + row.auc_spread:.2f})"


def _brief(rate: Rate) -> Write[CellRow]:
    """Return a writer of AUC with its letter, and TPR."""

    def write(row: CellRow, best: bool) -> lay.Entry:
        line = lay.words(lay.short(row.auc), *_mark(row, best), rate(row.tpr_at_fpr05))
        return _entry(row, best, line)

    return write


def _whole(row: CellRow, best: bool) -> lay.Entry:
    """Write AUC with its spread, TPR with both chance limits, and the deployable AUC."""
    ceiling = "chance –"
    if row.null_auc95 is not None and row.null_tpr95 is not None:
        ceiling = f"chance {row.null_auc95:.2f}, {lay.percent(row.null_tpr95, 1)}%"
    small = [f"{lay.percent(row.tpr_at_fpr05, 1)}%; {ceiling}"]
    if row.crossfit_auc is not None:
        limits = ""
        if row.crossfit_low is not None and row.crossfit_high is not None:
            limits = f" ({row.crossfit_low:.2f}–{row.crossfit_high:.2f})"
        small.append(f"chosen before: {row.crossfit_auc:.2f}{limits}")
    top = lay.words(f"{row.auc:.2f}", *_mark(row, best), _spread(row))
    return _entry(row, best, top, *(lay.words(lay.Piece(text, form="small")) for text in small))


def _ceiling(row: CellRow | None, rate: Rate) -> lay.Entry:
    if row is None or row.null_auc95 is None or row.null_tpr95 is None:
        return lay.NOTHING
    values = {"auc": row.null_auc95, "tpr": row.null_tpr95}
    return lay.entry(lay.short(row.null_auc95), rate(row.null_tpr95), values=values, faint=True)


def _lines(
    cells: Grid[R], labels: Sequence[str], keys: Sequence[tuple[str, float]], write: Write[R]
) -> dict[str, list[lay.Row]]:
    """Return a row per scenario for each pool; `keys` are generator and budget of each column."""

    def entry(label: str, key: tuple[str, float], scenario: str) -> lay.Entry:
        row = cells.at(label, *key, scenario)
        return lay.NOTHING if row is None else write(row, row is cells.best(label, *key))

    return {
        label: [
            lay.Row((label, scenario), [entry(label, key, scenario) for key in keys])
            for scenario in cells.scenarios
        ]
        for label in labels
    }


def _with_chance(
    cells: Grid[CellRow], labels: Sequence[str], keys: Sequence[tuple[str, float]], rate: Rate
) -> list[lay.Block]:
    """Return the rows of brief entries, the chance limits under those of each pool."""
    rows: list[lay.Row] = []
    for label, lines in _lines(cells, labels, keys, _brief(rate)).items():
        ceilings = [_ceiling(cells.best(label, *key), rate) for key in keys]
        rows += [*lines, lay.Row((label, "chance"), ceilings)]
    return [lay.Block(rows)]


def won(rows: Iterable[CellRow | None]) -> lay.Words:
    views = [row.view for row in rows if row is not None]
    lexical, embedding = views.count("lexical"), views.count("embedding")
    return lay.marked(f" ({lexical} [lexical:L], {embedding} [embedding:E])")


def main(source: Source) -> lay.Table:
    rows, pools = source.main_cells()
    cells = Grid(rows)
    parts = []
    for generator in cells.generators:
        labels, budgets = cells.of_generator(generator)
        keys = [(generator, epsilon) for epsilon in budgets]
        columns = [lay.Column(format_epsilon(e), plain=lay.budget(e)) for e in budgets]
        winners = [cells.best(label, *key) for label in labels for key in keys]
        caption = lay.words(generator, *won(winners))
        blocks = _with_chance(cells, labels, keys, _as_index)
        parts.append(lay.Part(STUBS, columns, blocks, caption, turned=True, name=generator))
    return lay.table("main", parts, arrangement="beside", pools=pools)


def rare(source: Source) -> lay.Table:
    cells = Grid(source.rare_cells()[0])
    keys = [(name, epsilon) for name in cells.generators for epsilon in cells.of_generator(name)[1]]
    columns = [
        lay.Column(format_epsilon(epsilon), name, plain=f"{name} {lay.budget(epsilon)}")
        for name, epsilon in keys
    ]
    blocks = _with_chance(cells, cells.labels, keys, _after_slash)
    return lay.table("rare", [lay.Part(STUBS, columns, blocks, turned=True)])


def _wide_parts(rows: Sequence[R], write: Write[R]) -> list[lay.Part]:
    """Return a wide grid for each generator, with a column for each budget."""
    cells = Grid(rows)
    parts = []
    for generator in cells.generators:
        labels, budgets = cells.of_generator(generator)
        lines = _lines(cells, labels, [(generator, epsilon) for epsilon in budgets], write)
        block = lay.Block([row for of_label in lines.values() for row in of_label])
        columns = [lay.Column(lay.budget(epsilon)) for epsilon in budgets]
        above = lay.words("Generator: ", generator, ".")
        parts.append(lay.Part(STUBS, columns, [block], above, name=generator))
    return parts


def main_intervals(source: Source) -> lay.Table:
    return _intervals("main_intervals", *source.main_cells())


def rare_intervals(source: Source) -> lay.Table:
    return _intervals("rare_intervals", *source.rare_cells())


def _intervals(name: str, rows: Sequence[CellRow], pools: str) -> lay.Table:
    parts = _wide_parts(rows, _whole)
    return lay.table(name, parts, arrangement="apart", captions="intervals", pools=pools)


def meta_outlier(source: Source) -> lay.Table:
    rows = [row for row in source.rows("meta") if source.rule(row) not in (RARE, RANDOM, UNION)]
    return _meta("meta_outlier", rows, SELECTED_POOLS)


def meta_rare(source: Source) -> lay.Table:
    rows = [row for row in source.rows("meta") if source.rule(row) == RARE]
    return _meta("meta_rare", rows, RARE_POOLS)


def _meta(name: str, rows: Sequence[MetaRow], pools: str) -> lay.Table:
    if not rows:
        raise Unavailable(f"needs the meta-classifier on {pools}")
    outcomes = [row.outcome for row in rows]
    mean = sum(row.oracle_delta for row in rows) / len(rows)
    return lay.table(
        name,
        _wide_parts(rows, _fused),
        arrangement="apart",
        captions="meta",
        pools=pools,
        cells=len(rows),
        wins=outcomes.count("win"),
        losses=outcomes.count("loss"),
        mean=lay.signed(mean),
    )


def _fused(row: MetaRow, best: bool) -> lay.Entry:
    wins = row.outcome == "win"
    view = row.oracle_view
    below = lay.words(
        lay.Piece(f"{lay.percent(row.tpr_at_fpr05, 1)}%  ", form="small"),
        lay.Piece(lay.signed(row.oracle_delta), form="small", bold=wins),
        lay.Piece(view[:1].upper(), form="small", colour=lay.colour_of(view)),
    )
    values = {
        **lay.values_of(row, "auc auc_spread"),
        "tpr": row.tpr_at_fpr05,
        **lay.values_of(row, "oracle_delta oracle_proxy crossfit_delta features penalty records"),
    }
    lines = (lay.words(f"{row.auc:.2f}{_spread(row)}"), below)
    return lay.Entry(lines, values, shade=BEST if wins else None)
