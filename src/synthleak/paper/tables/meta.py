"""The meta-classifier beside the best single proxy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.meta import MetaRow
from synthleak.core.cell import format_epsilon
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import RANDOM, RARE, UNION, Source


def meta_outlier(source: Source) -> lay.Table:
    """All proxies fused, on selected pools."""
    rows = _rows(source, lambda rule: rule not in (RARE, RANDOM, UNION), "selected pools")
    return _table(source, "meta_outlier", rows, "selected pools")


def meta_rare(source: Source) -> lay.Table:
    """All proxies fused, on rare-label pools."""
    rows = _rows(source, lambda rule: rule == RARE, "rare-label pools")
    return _table(source, "meta_rare", rows, "rare-label pools")


def _rows(source: Source, wanted: Callable[[str], bool], pools: str) -> list[MetaRow]:
    rows = [row for row in source.rows("meta") if wanted(source.rule(row.corpus, row.pool))]
    if not rows:
        raise Unavailable(f"needs the meta-classifier on {pools}")
    return rows


def _table(source: Source, name: str, rows: Sequence[MetaRow], title: str) -> lay.Table:
    pools = list(dict.fromkeys((row.corpus, row.pool) for row in rows))
    scenarios = sorted({row.scenario for row in rows})
    parts = []
    for generator in dict.fromkeys(row.generator for row in rows):
        own = [row for row in rows if row.generator == generator]
        budgets = lay.budgets_of([row.epsilon for row in own])
        found = {(row.corpus, row.pool, row.scenario, row.epsilon): row for row in own}
        lines = [
            lay.Row(
                (source.label(*pool, pools), scenario),
                tuple(_entry(found.get((*pool, scenario, e))) for e in budgets),
            )
            for pool in pools
            if any((row.corpus, row.pool) == pool for row in own)
            for scenario in scenarios
        ]
        columns = tuple(lay.Column(f"ε = {format_epsilon(e)}") for e in budgets)
        caption = lay.words("Generator: ", generator, ".")
        block = [lay.Block(lines)]
        parts.append(lay.Part(("Dataset", "Scenario"), columns, block, caption, name=generator))
    caption = lay.words(
        f"A meta-classifier over all proxies on {title}. First line: AUC, with 1.96 σ/√T over the"
        " rounds. Second: TPR at 5% FPR; AUC minus that of the best single proxy in hindsight,"
        " with the letter of that proxy's view. Shaded where the fusion wins."
    )
    return lay.Table(name, caption, parts, (_score(rows),), "apart")


def _score(rows: Sequence[MetaRow]) -> tuple[lay.Piece, ...]:
    wins = sum(row.outcome == "win" for row in rows)
    losses = sum(row.outcome == "loss" for row in rows)
    mean = sum(row.oracle_delta for row in rows) / len(rows)
    return lay.words(
        f"Of {len(rows)} cells it wins {wins} and loses {losses}; mean difference"
        f" {lay.signed(mean)}."
        " The single proxy was chosen on the very trials that are counted, so its AUC lies above"
        " 0.5 by chance alone; that of the fusion is nested and does not."
    )


def _entry(row: MetaRow | None) -> lay.Entry:
    if row is None:
        return lay.NOTHING
    spread = f" ({row.auc - row.auc_spread:.2f}–{row.auc + row.auc_spread:.2f})"
    wins = row.outcome == "win"
    below = lay.words(
        lay.Piece(f"{lay.percent(row.tpr_at_fpr05, 1)}%  ", form="small"),
        lay.Piece(lay.signed(row.oracle_delta), form="small", bold=wins),
        lay.Piece(row.oracle_view[:1].upper(), form="small", colour=lay.colour_of(row.oracle_view)),
    )
    entry = lay.Entry(
        (lay.words(f"{row.auc:.2f}{spread}"), below),
        {
            "auc": row.auc,
            "auc_spread": row.auc_spread,
            "tpr": row.tpr_at_fpr05,
            "oracle_delta": row.oracle_delta,
            "oracle_proxy": row.oracle_proxy,
            "crossfit_delta": row.crossfit_delta,
            "features": row.features,
            "penalty": row.penalty,
            "records": row.records,
        },
    )
    return replace(entry, shade=("best", 18) if wins else None)
