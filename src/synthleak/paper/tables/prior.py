"""Ours beside the prior attacks, cell by cell, at every budget."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.analysis import Unavailable
from synthleak.analyses.prior import ComparisonRow
from synthleak.core.cell import Cell, format_epsilon
from synthleak.paper.tables import layout as lay
from synthleak.paper.tables.source import RANDOM, RARE, UNION, Source

ACROSS = 3
"""Budgets side by side: more would not be legible on a page."""
TIED = 1e-12
METHODS = ("canary", "domias", "ours")


def prior(source: Source) -> lay.Table:
    """Canary's Echo, DOMIAS and ours in the same game."""
    every = [row for row in source.comparison if source.rule(row.corpus, row.pool) != UNION]
    selected = [row for row in every if source.rule(row.corpus, row.pool) != RANDOM]
    rows = selected or every
    if not rows:
        raise Unavailable(
            "needs prior attacks in the spec ([[prior]]), which these audits left out"
        )
    budgets = lay.budgets_of([row.epsilon for row in rows])
    chunks = [budgets[start : start + ACROSS] for start in range(0, len(budgets), ACROSS)]
    rare = [row for row in rows if source.rule(row.corpus, row.pool) == RARE]
    others = [row for row in rows if row not in rare]
    parts = []
    whose = "Selected pools" if selected else "Random controls"
    for title, chosen in ((whose, others), ("Rare-label pools", rare)):
        for chunk in chunks:
            if any(row.epsilon in chunk for row in chosen):
                parts.append(_part(source, title, chosen, chunk))
    caption = lay.words(
        "Prior attacks on releases, played in the same game. AUC / TPR in per cent at 5% FPR; in"
        " each block of three the best AUC is ",
        lay.Piece("bold", bold=True),
        " and the next ",
        lay.Piece("underlined", underlined=True),
        "; Δ is ours minus the better prior. Each method is at its best over its own arms and"
        " scenarios. Arms of Canary's Echo: n n-gram, nR n-gram calibrated, s similarity, sR"
        " similarity calibrated; of DOMIAS: g Gaussian, k KDE, pg and pk the same after PCA."
        " Raised letters are coloured by view.",
    )
    notes = (
        lay.words(
            lay.Piece("Grey", colour="gray"),
            ": the method's whole search is not above chance (p > 0.05, not adjusted over cells)."
            " Ours searches many more signals than the others, so Δ lies above 0 by chance alone"
            " and means nothing where ours is grey. AUCs published for canaries concern sequences"
            " that were inserted 12 to 16 times and cannot be compared with these.",
        ),
    )
    arrangement: lay.Arrangement = "apart" if len(parts) > 2 else "below"
    return lay.Table("prior", caption, parts, notes, arrangement)


def _part(
    source: Source, title: str, rows: Sequence[ComparisonRow], budgets: Sequence[float]
) -> lay.Part:
    pools = list(dict.fromkeys((row.corpus, row.pool) for row in rows))
    generators = list(dict.fromkeys(row.generator for row in rows))
    found = {(row.corpus, row.pool, row.generator, row.epsilon): row for row in rows}
    columns = [
        lay.Column(head, f"ε = {format_epsilon(epsilon)}")
        for epsilon in budgets
        for head in (*METHODS, "Δ")
    ]
    lines = []
    for pool in pools:
        for generator in generators:
            cells = [found.get((*pool, generator, epsilon)) for epsilon in budgets]
            if any(cells):
                entries = [item for cell in cells for item in _entries(source, cell)]
                lines.append(lay.Row((source.label(*pool, pools), generator), entries))
    caption = lay.words(f"{title}, ε = {', '.join(format_epsilon(e) for e in budgets)}.")
    block = [lay.Block(lines)]
    return lay.Part(("Dataset", "Generator"), columns, block, caption, name=title)


def _entries(source: Source, row: ComparisonRow | None) -> tuple[lay.Entry, ...]:
    if row is None:
        return (lay.NOTHING,) * (len(METHODS) + 1)
    aucs = {"canary": row.canary_auc, "domias": row.domias_auc, "ours": row.ours_auc}
    places = sorted((value for value in aucs.values() if value is not None), reverse=True)
    ranks = {
        name: next(i for i, best in enumerate(places) if value >= best - TIED)
        for name, value in aucs.items()
        if value is not None
    }
    view = _view_of_ours(source, row)
    arms = {
        "canary": (row.canary_tpr, row.canary_arm, row.canary_p, row.canary_null95),
        "domias": (row.domias_tpr, row.domias_arm, row.domias_p, row.domias_null95),
    }
    entries = []
    for name in ("canary", "domias"):
        tpr, arm, p, null = arms[name]
        auc = aucs[name]
        if auc is None or tpr is None or arm is None:
            entries.append(lay.NOTHING)
            continue
        colour = lay.colour_of(_view_of_arm(source, name, arm))
        raised = lay.Piece(arm, form="sup", colour=colour)
        values: dict[str, lay.Value] = {"auc": auc, "tpr": tpr, "arm": arm, "p": p, "null": null}
        entries.append(_method(auc, tpr, raised, ranks[name], p, values))
    ours: dict[str, lay.Value] = {
        "auc": row.ours_auc,
        "tpr": row.ours_tpr,
        "proxy": row.ours_proxy,
        "scenario": row.ours_scenario,
        "view": view,
        "p": row.ours_p,
    }
    letter = lay.tag(view)
    entries.append(_method(row.ours_auc, row.ours_tpr, letter, ranks["ours"], row.ours_p, ours))
    return (*entries, _delta(row.delta))


def _method(
    auc: float,
    tpr: float,
    raised: lay.Piece,
    rank: int,
    p: float | None,
    values: dict[str, lay.Value],
) -> lay.Entry:
    number = lay.Piece(f"{auc:.3f}", bold=rank == 0, underlined=rank == 1)
    line = lay.words(number, raised, f" / {lay.percent(tpr)}%")
    return lay.Entry((line,), values, faint=not lay.significant(p))


def _delta(delta: float | None) -> lay.Entry:
    if delta is None:
        return lay.NOTHING
    colour: lay.Colour = "embcol" if delta < 0 else ""
    return lay.entry(lay.Piece(lay.signed(delta), colour=colour), delta=delta)


def _view_of_ours(source: Source, row: ComparisonRow) -> str:
    wanted = (Cell.of(row), row.ours_scenario)
    found = (cell.view for cell in source.cells if (Cell.of(cell), cell.scenario) == wanted)
    return next(found, "")


def _view_of_arm(source: Source, family: str, arm: str) -> str:
    found = (row.view for row in source.prior if (row.family, row.arm) == (family, arm))
    return next(found, "")
