"""How far the pools of a corpus share records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from synthleak.analyses.analysis import Study, Unavailable, analysis


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


@analysis("pool_overlap", version=1, row=OverlapRow)
def pool_overlap(study: Study) -> Sequence[OverlapRow]:
    """How many records two pools of a corpus share."""
    pools = {(cell.pool.corpus, cell.pool.name): cell.pool for cell in study.cell_data}
    rows = [
        OverlapRow(
            corpus=one.corpus,
            pool=one.name,
            other=other.name,
            records=len(one.records),
            other_records=len(other.records),
            shared=(shared := len(set(one.records) & set(other.records))),
            share_of_smaller=shared / min(len(one.records), len(other.records)),
        )
        for one, other in combinations(pools.values(), 2)
        if one.corpus == other.corpus
    ]
    if not rows:
        raise Unavailable("needs two pools of one corpus")
    return rows
