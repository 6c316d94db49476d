"""Wins, ties and losses against the prior attacks, each at its best (METHOD §9, §10)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ScoreboardRow:
    """A row of `prior_attacks.csv`: ours against `canary`, `domias` or the `better` of them.

    Ours is the best of many more signals, so by chance alone it wins: `ours_found` and
    `rival_found` count the cells in which each passes its own null at 5%.
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
