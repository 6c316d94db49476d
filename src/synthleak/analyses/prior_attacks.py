"""Wins, ties and losses against the prior attacks, each at its best (docs/method.md §9, §10)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import EVERY
from synthleak.analyses.prior import ComparisonRow
from synthleak.core.verdict import LEVEL


@dataclass(frozen=True)
class ScoreboardRow:
    """A row of `prior_attacks.csv`: ours against `canary`, `domias` or the `better` of them.

    Ours is the best of many more signals and so wins by chance alone: `ours_found` and
    `rival_found` count the cells in which each is significant at 5% under its own null. `pools`
    says which cells are counted: those of `selected` pools, of `controls`, or `all`.
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
    shown="pools generator rival cells wins ties losses mean_delta largest_loss ours_found "
    "rival_found",
)
def prior_attacks(study: Study) -> Sequence[ScoreboardRow]:
    """In how many cells ours beats, ties or loses to the prior attacks, each at its best."""
    if not study.comparison:
        raise Unavailable("needs prior attacks: the spec leaves them out (prior = [])")
    scoreboard = []
    for pools, generator, rows in study.grouped(study.comparison):
        for rival in ("better", "canary", "domias"):
            compared = [(row, delta) for row in rows if (delta := _delta(row, rival)) is not None]
            if not compared:
                continue
            deltas = [delta for _, delta in compared]
            losses = [delta for delta in deltas if delta < 0]
            scoreboard.append(
                ScoreboardRow(
                    generator=generator,
                    rival=rival,
                    cells=len(compared),
                    wins=sum(delta > 0 for delta in deltas),
                    ties=sum(delta == 0 for delta in deltas),
                    losses=len(losses),
                    mean_delta=sum(deltas) / len(deltas),
                    largest_loss=min(losses, default=None),
                    ours_found=sum(_significant(row.ours_p) for row, _ in compared),
                    rival_found=sum(_rival_found(row, rival) for row, _ in compared),
                    pools=pools,
                )
            )
    return scoreboard


def _delta(row: ComparisonRow, rival: str) -> float | None:
    if rival == "better":
        return row.delta
    auc = row.canary_auc if rival == "canary" else row.domias_auc
    return None if auc is None else row.ours_auc - auc


def _rival_found(row: ComparisonRow, rival: str) -> bool:
    p_values = {"canary": row.canary_p, "domias": row.domias_p}
    return any(_significant(p) for name, p in p_values.items() if rival in (name, "better"))


def _significant(p: float | None) -> bool:
    return p is not None and p <= LEVEL
