"""The drawing of a study at a glance: the game, the audit, and what came out, in numbers."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from synthleak.analyses.cells import CellRow
from synthleak.core.cell import format_epsilon
from synthleak.report.figures import figure as fig
from synthleak.report.figures.figure import Figure, Rows
from synthleak.report.results import Results

HEADS = {"game": "The game", "audit": "The audit", "found": "What it found"}
WIDTH = 26
"""The characters of a line."""
Line = tuple[str, str]
"""A number, and what it is of."""


def overview_figure(audits: Sequence[Results]) -> Figure | None:
    """Show what was played, by whom, and what came out; None for checks, which play no game."""
    if not audits or any(audit.check is not None for audit in audits):
        return None
    panels = {"game": [*_game(audits)], "audit": [*_audit(audits)], "found": [*_found(audits)]}
    data: Rows = [
        {"b": panel, "n": place, "v": number, "t": textwrap.fill(of, WIDTH)}
        for panel, lines in panels.items()
        for place, (number, of) in enumerate(lines)
    ]
    said = ["; ".join(f"{number} {of}" for number, of in lines) for lines in panels.values()]
    panel = fig.drawn("overview", list(range(max(map(len, panels.values())))))
    game, audit, found = said
    return fig.figure("overview", data, panel, heads=HEADS, game=game, audit=audit, found=found)


def _span(values: Sequence[int]) -> str:
    """Write the smallest and the largest of some counts.

    >>> _span([55, 60]), _span([5000])
    ('55–60', '5,000')
    """
    return "–".join(f"{value:,}" for value in sorted({min(values), max(values)}))


def _game(audits: Sequence[Results]) -> Iterator[Line]:
    corpora = {audit.corpus["name"]: int(audit.corpus["records"]) for audit in audits}
    yield f"{sum(corpora.values()):,}", f"records: {', '.join(corpora)}"
    pools = [pool for audit in audits for pool in audit.pools.values()]
    names = dict.fromkeys(name for audit in audits for name in audit.pools)
    yield _span([int(pool["targets"]) for pool in pools]), f"targets a pool: {', '.join(names)}"
    games = [audit.game for audit in audits]
    designs = dict.fromkeys(game.design for game in games)
    sets = _span([int(pool["records"]) for pool in pools])
    coins = {"lone": "half with one target", "cohort": "a coin for each target"}
    how = "; or ".join(coins.get(name, name) for name in designs)
    yield _span([game.instances for game in games]), f"private sets of {sets} records, {how}"
    yield _span([int(pool["release_size"]) for pool in pools]), "synthetic texts a release"


def _audit(audits: Sequence[Results]) -> Iterator[Line]:
    cells = _rows(audits)
    generators = list(dict.fromkeys(row.generator for row in cells))
    yield str(len(generators)), f"generators: {', '.join(generators)}"
    budgets = sorted({row.epsilon for row in cells}, reverse=True)
    yield str(len(budgets)), f"budgets: ε = {', '.join(map(format_epsilon, budgets))}"
    attackers = sorted({row.scenario for row in cells})
    yield str(len(attackers)), f"attackers: {', '.join(attackers)}"
    signals = [len(cell.signals) for audit in audits for cell in audit.study.cell_data]
    if signals:
        yield _span(signals), "signals, of which the best in hindsight is shown"


def _found(audits: Sequence[Results]) -> Iterator[Line]:
    cells = _rows(audits)
    verdicts = [one.verdict for audit in audits for one in audit.cells]
    leaking = sum(verdict.leaks for verdict in verdicts)
    yield f"{leaking} of {len(verdicts)}", "cells leak beyond chance"
    for epsilon in sorted({row.epsilon for row in cells}, reverse=True):
        best = max((row for row in cells if row.epsilon == epsilon), key=lambda row: row.auc)
        limit = "" if best.null_auc95 is None else f"; chance alone: up to {best.null_auc95:.2f}"
        yield f"{best.auc:.2f}", f"highest AUC at ε = {format_epsilon(epsilon)}{limit}"


def _rows(audits: Sequence[Results]) -> list[CellRow]:
    return [row for audit in audits for row in audit.study.cells]
