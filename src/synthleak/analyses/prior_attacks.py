"""Wins, ties and losses against the prior attacks, each at its best (docs/method.md §9, §10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import EVERY, POOLS
from synthleak.analyses.prior import ComparisonRow
from synthleak.core.verdict import LEVEL


@dataclass(frozen=True)
class ScoreboardRow:
    """A row of `prior_attacks.csv`: ours against `canary`, `domias` or the `better` of them.

    Ours is the best of many more signals, so by chance alone it wins: `ours_found` and
    `rival_found` count the cells in which each passes its own null at 5%. `pools` says which cells
    are counted: those of `selected` pools, of `controls`, or `all`.
    """

    generator: str
    rival: str
    cells: int
    wins: int
    ties: int
    losses: int
    mean_delta: float | None
    largest_loss: float | None
    ours_found: int
    rival_found: int
    pools: str = EVERY


@analysis(
    "prior_attacks",
    version=2,
    row=ScoreboardRow,
    shown=(
        "pools",
        "generator",
        "rival",
        "cells",
        "wins",
        "ties",
        "losses",
        "mean_delta",
        "largest_loss",
        "ours_found",
        "rival_found",
    ),
)
def prior_attacks(study: Study) -> Sequence[ScoreboardRow]:
    """In how many cells ours beats, ties or loses to the prior attacks, each at its best."""
    if not study.comparison:
        raise Unavailable("needs prior attacks: the spec leaves them out (prior = [])")
    generators = list(dict.fromkeys(row.generator for row in study.comparison))
    return [
        board
        for pools in POOLS
        for generator in (["all", *generators] if len(generators) > 1 else generators)
        for rival in ("better", "canary", "domias")
        if (board := _board(study, pools, generator, rival)) is not None
    ]


def _board(study: Study, pools: str, generator: str, rival: str) -> ScoreboardRow | None:
    own = [
        row
        for row in study.comparison
        if generator in ("all", row.generator) and pools in study.groups(row.corpus, row.pool)
    ]
    found = [(row, delta) for row in own if (delta := _delta(row, rival)) is not None]
    if not found:
        return None
    deltas = [delta for _, delta in found]
    losses = [delta for delta in deltas if delta < 0]
    return ScoreboardRow(
        generator=generator,
        rival=rival,
        cells=len(found),
        wins=sum(delta > 0 for delta in deltas),
        ties=sum(delta == 0 for delta in deltas),
        losses=len(losses),
        mean_delta=sum(deltas) / len(deltas),
        largest_loss=min(losses, default=None),
        ours_found=sum(_passes(row.ours_p) for row, _ in found),
        rival_found=sum(_rival_passes(row, rival) for row, _ in found),
        pools=pools,
    )


def _delta(row: ComparisonRow, rival: str) -> float | None:
    if rival == "better":
        return row.delta
    auc = row.canary_auc if rival == "canary" else row.domias_auc
    return None if auc is None else row.ours_auc - auc


def _rival_passes(row: ComparisonRow, rival: str) -> bool:
    if rival == "canary":
        return _passes(row.canary_p)
    if rival == "domias":
        return _passes(row.domias_p)
    return _passes(row.canary_p) or _passes(row.domias_p)


def _passes(p: float | None) -> bool:
    return p is not None and p <= LEVEL
