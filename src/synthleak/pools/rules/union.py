"""`union`: two pools joined, to ask which of them is hit harder in one game."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator

from synthleak.core.cell import counted
from synthleak.core.errors import PoolError
from synthleak.core.validation import nearest
from synthleak.pools.selection import Filter, Ground, rules


@rules.register("union", version=1)
class Union(Filter):
    """Two earlier pools joined; each record remembers which it came from."""

    of: tuple[str, ...] = Field(description="the names of two pools above this one")
    shared: Literal["refuse", "first"] = Field(
        default="refuse", description="a record in both: an error, or it counts for the first"
    )

    @field_validator("of")
    @classmethod
    def _two(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(names) != 2 or names[0] == names[1]:
            raise ValueError("name two different pools")
        return names

    def matches(self, ground: Ground) -> Sequence[int]:
        """Join the two pools, which must be disjoint (docs/method.md §3)."""
        for name in self.of:
            if name not in ground.earlier:
                raise PoolError(
                    f"of = {list(self.of)} names {name!r}, which is not a pool above this one",
                    remedy=nearest(name, ground.earlier) if ground.earlier else "put it below them",
                )
            if any(position >= len(ground.corpus) for position in ground.earlier[name]):
                raise PoolError(
                    f"the pool {name!r} was written for the test, and its records stay apart from"
                    " those of the corpus",
                    remedy="join two pools of records of the corpus",
                )
        first, second = (set(ground.earlier[name]) for name in self.of)
        if first & second and self.shared == "refuse":
            raise PoolError(
                f"the pools {' and '.join(self.of)} share"
                f" {counted(len(first & second), ground.unit)}",
                remedy='set shared = "first" to count them for the first',
            )
        return sorted(first | second)

    def origins(self, targets: Sequence[int], ground: Ground) -> Sequence[str]:
        first = set(ground.earlier[self.of[0]])
        return [self.of[0] if position in first else self.of[1] for position in targets]
