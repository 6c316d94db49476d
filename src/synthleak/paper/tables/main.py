"""The main tables: the best proxy of every attacker at every budget, with its null."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from synthleak.analyses.cells import CellRow
from synthleak.core.cell import format_epsilon
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.grid import Cells
from synthleak.paper.tables.source import Source

BY_CHANCE = "chance"
STUBS = ("Dataset", "Scenario")

READING = lay.words(
    "Shaded: the best attacker of a column, ties by TPR; its letter says whether the winning proxy"
    " is ",
    lay.LEXICAL,
    "exical or ",
    lay.EMBEDDING,
    "mbedding, * that a leak was found (p ≤ 0.05 over all signals of the cell, Holm over all cells"
    " of the audit).",
)
CHANCE = lay.words(
    "The proxy is the best in hindsight, so its figure lies above 0.5 where nothing leaks: ",
    lay.Piece("chance", italic=True),
    " is what the search of the shaded attacker reaches in 5% of redraws of the coins, and a figure"
    " that does not pass its own chance limit is set in ",
    lay.Piece("grey", colour="gray"),
    ".",
)


def passes(row: CellRow) -> bool:
    """Say whether an AUC lies above the chance limit of its search."""
    return row.null_auc95 is not None and row.auc > row.null_auc95


def _values(row: CellRow, best: bool) -> dict[str, lay.Value]:
    return {
        "auc": row.auc,
        "auc_spread": row.auc_spread,
        "tpr": row.tpr_at_fpr05,
        "null_auc95": row.null_auc95,
        "null_tpr95": row.null_tpr95,
        "p_holm": row.p_holm,
        "crossfit_auc": row.crossfit_auc,
        "proxy": row.proxy,
        "view": row.view,
        "best": best,
    }


def _mark(row: CellRow) -> lay.Piece:
    return lay.tag(row.view, "*" if lay.significant(row.p_holm) else "")


def _finished(entry: lay.Entry, row: CellRow, best: bool) -> lay.Entry:
    shade: lay.Shade | None = ("best", 18) if best else None
    return replace(entry, values=_values(row, best), shade=shade, bold=best, faint=not passes(row))


def compact(row: CellRow, best: bool) -> lay.Entry:
    """Write AUC with its letter, and TPR as an index."""
    return _brief(row, best, lay.Piece(lay.percent(row.tpr_at_fpr05), form="sub"))


def slashed(row: CellRow, best: bool) -> lay.Entry:
    """Write AUC with its letter, and TPR after a slash."""
    return _brief(row, best, lay.Piece(f"/{lay.percent(row.tpr_at_fpr05)}"))


def _brief(row: CellRow, best: bool, rate: lay.Piece) -> lay.Entry:
    line = lay.words(lay.short(row.auc), *([_mark(row)] if best else []), rate)
    return _finished(lay.Entry((line,)), row, best)


def whole(row: CellRow, best: bool) -> lay.Entry:
    """Write AUC with its spread, TPR with both chance limits, and the deployable AUC."""
    spread = f" ({row.auc - row.auc_spread:.2f}–{row.auc + row.auc_spread:.2f})"
    top = (lay.Piece(f"{row.auc:.2f}"), *([_mark(row)] if best else []), lay.Piece(spread))
    ceiling = "chance –"
    if row.null_auc95 is not None and row.null_tpr95 is not None:
        ceiling = f"chance {row.null_auc95:.2f}, {lay.percent(row.null_tpr95, 1)}%"
    below = lay.words(lay.Piece(f"{lay.percent(row.tpr_at_fpr05, 1)}%; {ceiling}", form="small"))
    lines: tuple[lay.Words, ...] = (top, below)
    if row.crossfit_auc is not None:
        limits = ""
        if row.crossfit_low is not None and row.crossfit_high is not None:
            limits = f" ({row.crossfit_low:.2f}–{row.crossfit_high:.2f})"
        lines += (
            lay.words(lay.Piece(f"chosen before: {row.crossfit_auc:.2f}{limits}", form="small")),
        )
    return _finished(lay.Entry(lines), row, best)


def _ceiling(row: CellRow | None, write: str) -> lay.Entry:
    """Write the chance limit of the best attacker's search."""
    if row is None or row.null_auc95 is None or row.null_tpr95 is None:
        return lay.NOTHING
    rate = lay.percent(row.null_tpr95)
    last = lay.Piece(rate, form="sub") if write == "compact" else lay.Piece(f"/{rate}")
    values = {"auc": row.null_auc95, "tpr": row.null_tpr95}
    return lay.Entry((lay.words(lay.Piece(lay.short(row.null_auc95)), last),), values, faint=True)


def won(rows: Iterable[CellRow | None]) -> lay.Words:
    """Count how often a lexical and how often an embedding proxy is the best."""
    views = [row.view for row in rows if row is not None]
    lexical, embedding = views.count("lexical"), views.count("embedding")
    return lay.words(f" ({lexical} ", lay.LEXICAL, f", {embedding} ", lay.EMBEDDING, ")")


def main(source: Source) -> lay.Table:
    """Best AUC and TPR by budget and attacker, a grid for each generator."""
    return _grids(source, "main", source.main_cells(), source.main_pools())


def _grids(source: Source, name: str, rows: Sequence[CellRow], pools: str) -> lay.Table:
    cells = Cells(source, rows)
    parts = []
    for generator in cells.generators:
        budgets, labels = cells.budgets(generator), cells.of_generator(generator)
        winners = [cells.best(label, generator, e) for label in labels for e in budgets]
        lines = []
        for label in labels:
            lines += [
                lay.Row(
                    (label, scenario),
                    tuple(cells.entry(label, generator, e, scenario, compact) for e in budgets),
                )
                for scenario in cells.scenarios
            ]
            ceilings = [_ceiling(cells.best(label, generator, e), "compact") for e in budgets]
            lines.append(lay.Row((label, BY_CHANCE), ceilings))
        columns = tuple(
            lay.Column(format_epsilon(e), plain=f"ε = {format_epsilon(e)}") for e in budgets
        )
        caption = lay.words(generator, *won(winners))
        block = [lay.Block(lines)]
        parts.append(lay.Part(STUBS, columns, block, caption, turned=True, name=generator))
    caption = lay.words(
        f"Membership inference on {pools} at privacy budgets ε (columns) by attackers S1 to S3"
        " (rows): AUC of the best proxy, with TPR in per cent at a false-positive rate of at most"
        " 5% as its index. In brackets how often each view wins."
    )
    return lay.Table(name, caption, parts, (READING, CHANCE), "beside")


def main_intervals(source: Source) -> lay.Table:
    """The same with spreads, both chance limits and the deployable AUC."""
    return _wide(source, "main_intervals", source.main_cells(), source.main_pools())


def rare_intervals(source: Source) -> lay.Table:
    """Rare pools with spreads, both chance limits and the deployable AUC."""
    return _wide(source, "rare_intervals", source.rare_cells(), "rare-label pools")


def _wide(source: Source, name: str, rows: Sequence[CellRow], pools: str) -> lay.Table:
    cells = Cells(source, rows)
    parts = []
    for generator in cells.generators:
        budgets = cells.budgets(generator)
        lines = [
            lay.Row(
                (label, scenario),
                tuple(cells.entry(label, generator, e, scenario, whole) for e in budgets),
            )
            for label in cells.of_generator(generator)
            for scenario in cells.scenarios
        ]
        columns = tuple(lay.Column(f"ε = {format_epsilon(e)}") for e in budgets)
        caption = lay.words("Generator: ", generator, ".")
        block = [lay.Block(lines)]
        parts.append(lay.Part(STUBS, columns, block, caption, name=generator))
    caption = lay.words(
        f"Membership inference on {pools} with intervals. First line: AUC of the best proxy, with"
        " 1.96 σ/√T over the rounds, the spread of sampling non-members only. Second: TPR at 5%"
        " FPR, and what the whole search reaches by chance in 5% of redraws (AUC, TPR). Third: AUC"
        " of a proxy that was chosen on other instances, with its bootstrap interval for this pool."
    )
    return lay.Table(name, caption, parts, (READING,), "apart")


def rare(source: Source) -> lay.Table:
    """Rare pools: the generators side by side in one grid."""
    cells = Cells(source, source.rare_cells())
    columns, keys = [], []
    for generator in cells.generators:
        for epsilon in cells.budgets(generator):
            plain = f"{generator} ε = {format_epsilon(epsilon)}"
            columns.append(lay.Column(format_epsilon(epsilon), generator, plain=plain))
            keys.append((generator, epsilon))
    lines = []
    for label in cells.labels:
        lines += [
            lay.Row((label, s), tuple(cells.entry(label, *key, s, slashed) for key in keys))
            for s in cells.scenarios
        ]
        ceilings = [_ceiling(cells.best(label, *key), "slashed") for key in keys]
        lines.append(lay.Row((label, BY_CHANCE), ceilings))
    caption = lay.words(
        "Membership inference on rare-label pools: AUC of the best proxy / TPR in per cent at 5%"
        " FPR, by budget ε (columns) and attacker (rows)."
    )
    part = lay.Part(STUBS, columns, [lay.Block(lines)], turned=True)
    return lay.Table("rare", caption, (part,), (READING, CHANCE))
