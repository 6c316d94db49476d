"""Selected pools beside their random controls, by attacker and budget."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.control_gap import GapRow
from synthleak.core.cell import format_epsilon
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import OUTLIER, RARE, Source

ACROSS = 2
WHOLE = "all"
TITLES = {OUTLIER: "Outlier", RARE: "Rare-label"}


def control_gap(source: Source) -> lay.Table:
    """The gap between a selected pool and the random pools that control it."""
    rows: Sequence[GapRow] = source.rows("control_gap")
    parts = []
    for generator in dict.fromkeys(row.generator for row in rows):
        own = [row for row in rows if row.generator == generator]
        budgets = lay.budgets_of([row.epsilon for row in own])
        for start in range(0, len(budgets), ACROSS):
            parts.append(_part(source, own, generator, budgets[start : start + ACROSS]))
    caption = lay.words(
        "Selected pools and the random pools that control them, in the same game. Rows S1 to S3:"
        " AUC of the best proxy in hindsight, chosen for each pool by itself, ± 1.96 standard"
        " errors over rounds in thousandths; the gap is selected minus control, ",
        lay.Piece("ns", form="sup"),
        " where that spread includes 0. Row all: AUC of proxies that were chosen on other"
        " instances, and their gap with its 95% bootstrap interval.",
    )
    notes = (
        lay.words(
            "The spread of rows S1 to S3 is that of sampling non-members and says nothing of other"
            " records or releases. Only row all decides: ",
            lay.Piece("bold", bold=True),
            " where the interval at Holm's level excludes 0, which flags the cell for a game"
            " with both pools merged.",
        ),
    )
    arrangement: lay.Arrangement = "apart" if len(parts) > 2 else "below"
    return lay.Table("control_gap", caption, parts, notes, arrangement)


def _part(
    source: Source, rows: Sequence[GapRow], generator: str, budgets: Sequence[float]
) -> lay.Part:
    kinds = list(dict.fromkeys(source.rule(row.corpus, row.pool) for row in rows))
    lines = _lines(source, rows, kinds)
    shared = _share_controls(rows)
    columns = [
        column
        for epsilon in budgets
        for place, kind in enumerate(kinds)
        for column in _columns(f"ε = {format_epsilon(epsilon)}", _title(kind), shared, place == 0)
    ]
    scenarios = sorted({row.scenario for row in rows}, key=lambda name: (name == WHOLE, name))
    found = {(row.corpus, row.pool, row.epsilon, row.scenario): row for row in rows}
    line_rows = []
    for label, corpus, names in lines:
        for scenario in scenarios:
            entries: list[lay.Entry] = []
            for epsilon in budgets:
                triples = [
                    _entries(found.get((corpus, names.get(kind, ""), epsilon, scenario)))
                    for kind in kinds
                ]
                entries += _side_by_side(triples, shared)
            line_rows.append(lay.Row((label, scenario), entries))
    caption = lay.words(f"{generator}, ε = {', '.join(format_epsilon(e) for e in budgets)}.")
    block = [lay.Block(line_rows)]
    return lay.Part(("Dataset", "Cal."), columns, block, caption, name=generator)


def _columns(group: str, title: str, shared: bool, first: bool) -> list[lay.Column]:
    """Return control, selected pool and gap; where no group stands above, gaps name their pool."""
    control = lay.Column("Control", group, plain="" if shared else f"{group} {title} control")
    gap = lay.Column("Gap", group, plain=f"{group} {title} gap")
    return [*[control] * (first or not shared), lay.Column(title, group), gap]


def _share_controls(rows: Sequence[GapRow]) -> bool:
    """Say whether all pools of a corpus have the same controls: then one column shows them."""
    owners: dict[str, set[str]] = {}
    for row in rows:
        owners.setdefault(row.corpus, set()).add(row.control_pools)
    return all(len(controls) == 1 for controls in owners.values())


def _side_by_side(
    triples: Sequence[tuple[lay.Entry, lay.Entry, lay.Entry]], shared: bool
) -> list[lay.Entry]:
    if not shared:
        return [item for triple in triples for item in triple]
    control = next((triple[0] for triple in triples if triple[0] is not lay.NOTHING), lay.NOTHING)
    return [control, *(item for triple in triples for item in triple[1:])]


def _title(kind: str) -> str:
    return TITLES.get(kind, kind.capitalize())


def _lines(
    source: Source, rows: Sequence[GapRow], kinds: Sequence[str]
) -> list[tuple[str, str, dict[str, str]]]:
    """Return (label, corpus, pool of each kind): the first pools of a corpus share a line."""
    line_rows = []
    for corpus in dict.fromkeys(row.corpus for row in rows):
        pools = list(dict.fromkeys(row.pool for row in rows if row.corpus == corpus))
        by_kind = {k: [p for p in pools if source.rule(corpus, p) == k] for k in kinds}
        deepest = max(len(names) for names in by_kind.values())
        for place in range(deepest):
            names = {k: found[place] for k, found in by_kind.items() if place < len(found)}
            label = corpus if deepest == 1 else f"{corpus} {', '.join(names.values())}"
            line_rows.append((label, corpus, names))
    return line_rows


def _entries(row: GapRow | None) -> tuple[lay.Entry, lay.Entry, lay.Entry]:
    if row is None:
        return lay.NOTHING, lay.NOTHING, lay.NOTHING
    if row.scenario == WHOLE:
        return _whole(row)
    control = _figure(row.control_auc, row.control_view, row.control_spread)
    selected = _figure(row.auc, row.view, row.auc_spread)
    spread = row.gap_spread
    pieces = [lay.Piece(lay.signed(row.gap)), *_thousandths(spread)]
    if spread is not None and abs(row.gap) <= spread:
        pieces.append(lay.Piece("ns", form="sup"))
    return control, selected, lay.entry(*pieces, gap=row.gap, gap_spread=spread)


def _figure(auc: float, view: str, spread: float | None) -> lay.Entry:
    pieces = (lay.Piece(f"{auc:.3f}"), lay.tag(view), *_thousandths(spread))
    return lay.entry(*pieces, auc=auc, auc_spread=spread, view=view)


def _thousandths(spread: float | None) -> list[lay.Piece]:
    return [] if spread is None else [lay.Piece(f" ±{1000 * spread:.0f}", form="small")]


def _whole(row: GapRow) -> tuple[lay.Entry, lay.Entry, lay.Entry]:
    """Write the deployable AUCs of a cell, and the gap that decides."""
    if row.crossfit_auc is None or row.control_crossfit is None or row.crossfit_gap is None:
        return lay.NOTHING, lay.NOTHING, lay.NOTHING
    limits = ""
    if row.low is not None and row.high is not None:
        limits = f" {lay.interval(row.low, row.high)}"
    flagged = row.flagged == "yes"
    gap = lay.entry(
        lay.Piece(lay.signed(row.crossfit_gap), bold=flagged),
        lay.Piece(limits, form="small"),
        gap=row.crossfit_gap,
        low=row.low,
        high=row.high,
        p_holm=row.p_holm,
        flagged=row.flagged,
    )
    return (
        lay.entry(f"{row.control_crossfit:.3f}", auc=row.control_crossfit),
        lay.entry(f"{row.crossfit_auc:.3f}", auc=row.crossfit_auc),
        gap,
    )
