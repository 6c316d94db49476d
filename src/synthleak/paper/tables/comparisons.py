"""Ours beside prior attacks, selected pools beside controls and in one game; see captions.toml."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.gaps import WHOLE, GapRow, MergedRow, RemovalRow
from synthleak.analyses.prior import ComparisonRow
from synthleak.core.cell import Cell, is_of
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

TIED = 1e-12
METHODS = ("canary", "domias", "ours")
TITLES = {OUTLIER: "Outlier", RARE: "Rare-label"}
MEASURES = {"auc": "AUC", "tpr_at_fpr05": "TPR"}
Triple = tuple[lay.Entry, lay.Entry, lay.Entry]
NONE: Triple = (lay.NOTHING,) * 3


FIRST = (math.inf, 1.0)
"""The budgets that the study compares with prior attacks first; the others follow."""


def _chunks(budgets: Sequence[float], across: int) -> list[Sequence[float]]:
    """Return the budgets that stand side by side: more would not be legible on a page."""
    return [budgets[start : start + across] for start in range(0, len(budgets), across)]


def _arranged(parts: Sequence[lay.Part]) -> lay.Arrangement:
    return "apart" if len(parts) > 2 else "below"


def prior(source: Source) -> lay.Table:
    every = [row for row in source.comparison if source.rule(row) != UNION]
    selected = [row for row in every if source.rule(row) != RANDOM]
    rows = selected or every
    if not rows:
        raise Unavailable(
            "needs prior attacks in the spec ([[prior]]), which these audits left out"
        )
    budgets = lay.budgets_of(row.epsilon for row in rows)
    if len(budgets) > 3 and set(FIRST) <= set(budgets):
        chunks = [FIRST, *_chunks([one for one in budgets if one not in FIRST], 3)]
    else:
        chunks = _chunks(budgets, 3)
    rare = [row for row in rows if source.rule(row) == RARE]
    others = [row for row in rows if row not in rare]
    title = "Selected pools" if selected else "Random controls"
    parts = [
        _prior_part(source, name, chosen, chunk)
        for name, chosen in ((title, others), ("Rare-label pools", rare))
        for chunk in chunks
        if any(row.epsilon in chunk for row in chosen)
    ]
    return lay.table("prior", parts, arrangement=_arranged(parts))


def _prior_part(
    source: Source, title: str, rows: Sequence[ComparisonRow], budgets: Sequence[float]
) -> lay.Part:
    by_cell = {Cell.of(row): row for row in rows}
    columns = [
        lay.Column(head, lay.budget(epsilon)) for epsilon in budgets for head in (*METHODS, "Δ")
    ]
    lines = []
    for pool, label in labels_of(map(pool_of, rows)).items():
        for generator in dict.fromkeys(row.generator for row in rows):
            cells = [by_cell.get(Cell(*pool, generator, epsilon)) for epsilon in budgets]
            if any(cells):
                entries = [item for cell in cells for item in _prior_entries(source, cell)]
                lines.append(lay.Row((label, generator), entries))
    caption = lay.words(f"{title}, {lay.budget_list(budgets)}.")
    return lay.Part(("Dataset", "Generator"), columns, [lay.Block(lines)], caption, name=title)


def _prior_entries(source: Source, row: ComparisonRow | None) -> tuple[lay.Entry, ...]:
    if row is None:
        return (lay.NOTHING,) * (len(METHODS) + 1)
    aucs = [getattr(row, f"{name}_auc") for name in METHODS]
    ranked = sorted((auc for auc in aucs if auc is not None), reverse=True)
    entries = []
    for name, auc in zip(METHODS, aucs, strict=True):
        if auc is None:
            entries.append(lay.NOTHING)
            continue
        tpr, p = getattr(row, f"{name}_tpr"), getattr(row, f"{name}_p")
        values: dict[str, lay.Value] = {"auc": auc, "tpr": tpr}
        if name == "ours":
            view = _view_of_ours(source, row)
            raised = lay.tag(view)
            values |= {"proxy": row.ours_proxy, "scenario": row.ours_scenario, "view": view, "p": p}
        else:
            arm = getattr(row, f"{name}_arm")
            raised = lay.Piece(arm, "sup", lay.colour_of(_view_of_arm(source, name, arm)))
            values |= {"arm": arm, "p": p, "null": getattr(row, f"{name}_null95")}
        rank = next(place for place, best in enumerate(ranked) if auc >= best - TIED)
        number = lay.Piece(f"{auc:.3f}", bold=rank == 0, underlined=rank == 1)
        line = (number, raised, f" / {lay.percent(tpr)}%")
        entries.append(lay.entry(*line, values=values, faint=not lay.significant(p)))
    if row.delta is None:
        return (*entries, lay.NOTHING)
    delta = lay.Piece(lay.signed(row.delta), colour="embcol" if row.delta < 0 else "")
    return (*entries, lay.entry(delta, values={"delta": row.delta}))


def _view_of_ours(source: Source, row: ComparisonRow) -> str:
    wanted = (Cell.of(row), row.ours_scenario)
    views = (cell.view for cell in source.cells if (Cell.of(cell), cell.scenario) == wanted)
    return next(views, "")


def _view_of_arm(source: Source, family: str, arm: str) -> str:
    views = (row.view for row in source.prior if (row.family, row.arm) == (family, arm))
    return next(views, "")


def control_gap(source: Source) -> lay.Table:
    rows: Sequence[GapRow] = source.rows("control_gap")
    parts = []
    for generator in dict.fromkeys(row.generator for row in rows):
        of_generator = [row for row in rows if row.generator == generator]
        for budgets in _chunks(lay.budgets_of(row.epsilon for row in of_generator), 2):
            parts.append(_gap_part(source, of_generator, generator, budgets))
    return lay.table("control_gap", parts, arrangement=_arranged(parts))


def _gap_part(
    source: Source, rows: Sequence[GapRow], generator: str, budgets: Sequence[float]
) -> lay.Part:
    kinds = list(dict.fromkeys(source.rule(row) for row in rows))
    # One column shows the controls where all pools of a corpus have the same.
    controls = {(row.corpus, row.control_pools) for row in rows}
    shared = len(controls) == len({row.corpus for row in rows})
    columns = []
    for epsilon in budgets:
        group = lay.budget(epsilon)
        for place, kind in enumerate(kinds):
            title = TITLES.get(kind, kind.capitalize())
            if place == 0 or not shared:
                plain = "" if shared else f"{group} {title} control"
                columns.append(lay.Column("Control", group, plain=plain))
            # Where no group stands above, gaps name their pool.
            gap = lay.Column("Gap", group, plain=f"{group} {title} gap")
            columns += [lay.Column(title, group), gap]
    scenarios = sorted({row.scenario for row in rows}, key=lambda name: (name == WHOLE, name))
    by_place = {(*pool_of(row), row.epsilon, row.scenario): row for row in rows}
    line_rows = []
    for label, corpus, pools in _gap_lines(source, rows, kinds):
        for scenario in scenarios:
            entries: list[lay.Entry] = []
            for epsilon in budgets:
                triples = [
                    _gap_entries(by_place.get((corpus, pools.get(kind, ""), epsilon, scenario)))
                    for kind in kinds
                ]
                if shared:
                    first = (triple[0] for triple in triples if triple[0] is not lay.NOTHING)
                    entries.append(next(first, lay.NOTHING))
                entries += [item for triple in triples for item in triple[1 if shared else 0 :]]
            line_rows.append(lay.Row((label, scenario), entries))
    caption = lay.words(f"{generator}, {lay.budget_list(budgets)}.")
    blocks = [lay.Block(line_rows)]
    return lay.Part(("Dataset", "Cal."), columns, blocks, caption, name=generator)


def _gap_lines(
    source: Source, rows: Sequence[GapRow], kinds: Sequence[str]
) -> list[tuple[str, str, dict[str, str]]]:
    """Return (label, corpus, pool of each kind): the first pools of a corpus share a line."""
    lines = []
    for corpus in dict.fromkeys(row.corpus for row in rows):
        rules = {row.pool: source.rule(row) for row in rows if row.corpus == corpus}
        by_kind = {kind: [pool for pool in rules if rules[pool] == kind] for kind in kinds}
        deepest = max(map(len, by_kind.values()))
        for place in range(deepest):
            pools = {kind: found[place] for kind, found in by_kind.items() if place < len(found)}
            label = corpus if deepest == 1 else f"{corpus} {', '.join(pools.values())}"
            lines.append((label, corpus, pools))
    return lines


def _gap_entries(row: GapRow | None) -> Triple:
    """Return control, selected pool and gap: in hindsight, or of a whole cell the deciding ones."""
    if row is None:
        return NONE
    if row.scenario != WHOLE:
        spread = row.gap_spread
        unclear = spread is not None and abs(row.gap) <= spread
        pieces = [*_thousandths(spread), *([lay.Piece("ns", form="sup")] * unclear)]
        return (
            _figure(row.control_auc, row.control_view, row.control_spread),
            _figure(row.auc, row.view, row.auc_spread),
            lay.entry(lay.signed(row.gap), *pieces, values=lay.values_of(row, "gap gap_spread")),
        )
    if row.crossfit_auc is None or row.control_crossfit is None or row.crossfit_gap is None:
        return NONE
    limits = ""
    if row.low is not None and row.high is not None:
        limits = f" {lay.interval(row.low, row.high)}"
    gap = lay.entry(
        lay.Piece(lay.signed(row.crossfit_gap), bold=row.flagged == "yes"),
        lay.Piece(limits, form="small"),
        values={"gap": row.crossfit_gap, **lay.values_of(row, "low high p_holm flagged")},
    )
    control, selected = (
        lay.entry(f"{auc:.3f}", values={"auc": auc})
        for auc in (row.control_crossfit, row.crossfit_auc)
    )
    return control, selected, gap


def _figure(auc: float, view: str, spread: float | None) -> lay.Entry:
    values = {"auc": auc, "auc_spread": spread, "view": view}
    return lay.entry(f"{auc:.3f}", lay.tag(view), *_thousandths(spread), values=values)


def _thousandths(spread: float | None) -> list[lay.Piece]:
    return [] if spread is None else [lay.Piece(f" ±{1000 * spread:.0f}", form="small")]


def dp_removal(source: Source) -> lay.Table:
    rows: Sequence[RemovalRow] = [
        row
        for row in source.rows("dp_removal")
        if row.scenario == WHOLE and source.rule(row) not in (RANDOM, UNION)
    ]
    if not rows:
        raise Unavailable("needs a selected pool at ε = ∞ and at a finite ε")
    columns = (
        *(lay.Column(head, "Removed") for head in ("selected", "controls")),
        *(lay.Column(head, "Difference") for head in ("Δ", "p (Holm)")),
        *(lay.Column(head, "In hindsight") for head in ("selected", "controls", "Δ")),
    )
    blocks = []
    for generator in dict.fromkeys(row.generator for row in rows):
        of_generator = [row for row in rows if row.generator == generator]
        order = list(dict.fromkeys(map(pool_of, of_generator)))
        of_generator.sort(key=lambda row: (order.index(pool_of(row)), -row.epsilon))
        lines = [
            lay.Row((" ".join(pool_of(row)), lay.budget(row.epsilon)), _removal_entries(row))
            for row in of_generator
        ]
        blocks.append(lay.Block(lines, generator))
    part = lay.Part(("Pool", "Budget"), columns, blocks)
    return lay.table("dp_removal", [part], size="small")


def _removal_entries(row: RemovalRow) -> tuple[lay.Entry, ...]:
    return (
        _delta(row.removed, row.removed_low, row.removed_high),
        _plain("auc", row.control_removed),
        _delta(row.difference, row.low, row.high, bold=lay.significant(row.p_holm)),
        lay.entry(lay.chance(row.p_holm), values={"p": row.p_holm}),
        _plain("auc", row.best_removed),
        _plain("auc", row.best_control_removed),
        _plain("delta", row.best_difference),
    )


def _plain(name: str, value: float | None) -> lay.Entry:
    return lay.NOTHING if value is None else lay.entry(lay.signed(value), values={name: value})


def merged(source: Source) -> lay.Table:
    rows = list(source.adjudicated)
    with suppress(Unavailable):
        rows = [*source.rows("merged"), *rows]
    if not rows:
        raise Unavailable(
            'needs a pool of the rule "union", or flagged cells that `synthleak adjudicate` played'
        )
    lines = []
    for cell in dict.fromkeys(map(Cell.of, rows)):
        of_cell = [row for row in rows if is_of(row, cell)]
        top = max(of_cell, key=lambda row: row.pool_auc)
        shown = {row.measure: row for row in of_cell if row.scenario == top.scenario}
        played = f"{cell.corpus}, {cell.generator}, {lay.budget(cell.epsilon)}"
        name = f"{played}: {top.first} − {top.second}"
        lines += [
            lay.Row((name, title), _merged_entries(shown[measure]))
            for measure, title in MEASURES.items()
            if measure in shown
        ]
    columns = (
        lay.Column("First"),
        lay.Column("Second"),
        lay.Column("Δ", align="l"),
        lay.Column("without a leak", align="l"),
        lay.Column("p", align="r"),
        lay.Column("Δ, each to its own", align="l"),
    )
    return lay.table("merged", [lay.Part(("Cell", "Measure"), columns, [lay.Block(lines)])])


def _merged_entries(row: MergedRow) -> tuple[lay.Entry, ...]:
    band, low, high = lay.NOTHING, row.null_low, row.null_high
    if low is not None and high is not None:
        text = lay.Piece(lay.interval(low, high), form="small")
        band = lay.entry(text, values={"low": low, "high": high})
    return (
        *(
            lay.entry(f"{value:.2f}", values={"kind": kind, "value": value})
            for kind, value in ((row.first, row.first_value), (row.second, row.second_value))
        ),
        _delta(row.delta, row.low, row.high, faint=lay.within(row.delta, low, high)),
        band,
        lay.entry(lay.chance(row.p), values={"p": row.p}),
        _delta(row.own_delta, row.own_low, row.own_high),
    )


def _delta(
    delta: float | None,
    low: float | None,
    high: float | None,
    *,
    faint: bool = False,
    bold: bool | None = None,
) -> lay.Entry:
    """Write a difference with its interval, bold where that excludes 0 or as `bold` says."""
    if delta is None:
        return lay.NOTHING
    pieces = [lay.Piece(lay.signed(delta), bold=bool(bold))]
    if low is not None and high is not None:
        pieces = [
            lay.Piece(lay.signed(delta), bold=low > 0 or high < 0 if bold is None else bold),
            lay.Piece(f" {lay.interval(low, high)}", form="small"),
        ]
    return lay.entry(*pieces, values={"delta": delta, "low": low, "high": high}, faint=faint)
