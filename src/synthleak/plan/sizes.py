"""How many records a private set has (docs/method.md §4)."""

from __future__ import annotations

from synthleak.core.errors import PlanError
from synthleak.core.spec import GameSection
from synthleak.pools.pool import Pool

DEFAULT_RECORDS = 500
SMALL_RECORDS = 200
SMALL_CORPUS = 600


def game_size(pool: Pool, game: GameSection) -> int:
    """Return N: as the spec says, or 500, or 200 where there are fewer than 600 candidates."""
    there = len(pool.candidates)
    if game.records == "auto":
        size = SMALL_RECORDS if there < SMALL_CORPUS else DEFAULT_RECORDS
    else:
        size = game.records
    if size > there:
        raise PlanError(
            f"{size} records are wanted for each private set, and the pool {pool.name!r} leaves"
            f" {there} candidates",
            "game.records",
            f"use at most {there}, or lower game.auxiliary",
        )
    return size
