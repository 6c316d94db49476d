"""How often the best proxy is lexical, and how often it is an embedding proxy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from synthleak.analyses.analysis import Study, analysis
from synthleak.analyses.cell_data import EVERY, POOLS


@dataclass(frozen=True)
class ViewRow:
    """A row of `views.csv`: in how many cells of a generator and scenario each view has the best.

    `pools` says which cells are counted: those of `selected` pools, of `controls`, or `all`.
    """

    generator: str
    scenario: str
    cells: int
    lexical: int
    embedding: int
    pools: str = EVERY


@analysis(
    "views",
    version=2,
    row=ViewRow,
    shown="pools generator scenario cells lexical embedding",
)
def views(study: Study) -> Sequence[ViewRow]:
    """How often the best proxy of a cell is lexical or embedding, by generator and scenario."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for pools in POOLS:
        for row in study.cells:
            if pools in study.groups(row.corpus, row.pool):
                counts.setdefault((pools, row.generator, row.scenario), Counter())[row.view] += 1
    return [
        ViewRow(generator, scenario, count.total(), count["lexical"], count["embedding"], pools)
        for (pools, generator, scenario), count in counts.items()
    ]
