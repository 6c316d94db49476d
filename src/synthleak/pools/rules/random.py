"""`random`: uniform controls, matched in size, apart from the pools that they control."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field, model_validator

from synthleak.core.cell import counted
from synthleak.core.errors import PoolError
from synthleak.core.validation import nearest
from synthleak.pools.selection import Ground, Rule, rules


@rules.register("random", version=1)
class Random(Rule):
    """Uniform control, as large as the pool named in `match`, disjoint from all earlier pools."""

    match: str | None = Field(default=None, description="the pool whose size it takes")
    size: int | None = Field(default=None, ge=1)
    draws: int = Field(default=3, ge=1, le=20)

    @model_validator(mode="after")
    def _one_size(self) -> Random:
        if (self.match is None) == (self.size is None):
            raise ValueError("set either match (a pool's name) or size")
        return self

    def count(self) -> int:
        return self.draws

    def select(self, ground: Ground) -> Sequence[int]:
        """Draw uniformly from the records (or persons) that no earlier pool holds."""
        taken = {position for pool in ground.earlier.values() for position in pool}
        free = [p for p in ground.everybody if p not in taken]
        size = self._size(ground)
        if size > len(free):
            raise PoolError(
                f"a random control of {counted(size, ground.unit)} cannot be disjoint: "
                f"{len(free)} of {len(ground.everybody)} are in no earlier pool",
                remedy="give the pools a smaller size, or draw fewer controls",
            )
        return sorted(int(x) for x in ground.rng.choice(free, size, replace=False))

    def _size(self, ground: Ground) -> int:
        if self.match is None:
            return self.size or 0
        if self.match not in ground.earlier:
            raise PoolError(
                f"match = {self.match!r} names no pool above this one",
                remedy=nearest(self.match, ground.earlier) if ground.earlier else None,
            )
        return len(ground.earlier[self.match])
