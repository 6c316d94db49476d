"""How far the pools of a corpus share records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class OverlapRow:
    """A row of `pool_overlap.csv`: two pools of a corpus, and the records in both."""

    corpus: str
    pool: str
    other: str
    records: int
    other_records: int
    shared: int
    share_of_smaller: float
