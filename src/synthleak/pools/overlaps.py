"""How far pools share records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from synthleak.pools.pool import Pool


@dataclass(frozen=True)
class Overlap:
    """Two pools and the records in both."""

    pool: str
    other: str
    shared: int
    share_of_smaller: float


def overlaps_of(pools: Mapping[str, Pool]) -> list[Overlap]:
    """Return the overlap of every pair of pools, in the order of the spec."""
    found = []
    for one, two in combinations(pools.values(), 2):
        shared = len(set(one.targets) & set(two.targets))
        smaller = min(len(one.targets), len(two.targets))
        found.append(Overlap(one.name, two.name, shared, shared / smaller))
    return found
