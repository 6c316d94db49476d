"""`all`: every record."""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.pools.selection import Filter, Ground, rules


@rules.register("all", version=1)
class All(Filter):
    """Every record, or `size` of them: for a release whose members and holdout are given."""

    def matches(self, ground: Ground) -> Sequence[int]:
        return range(len(ground.corpus))
