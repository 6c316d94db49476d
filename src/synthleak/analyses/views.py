"""Which view wins where: how often the best proxy is lexical, and how often embedding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from synthleak.analyses.analysis import Study, analysis
from synthleak.analyses.cell_data import EVERY, POOLS


@dataclass(frozen=True)
class ViewRow:
    """One generator and scenario: in how many cells each view holds the best proxy.

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
    shown=("pools", "generator", "scenario", "cells", "lexical", "embedding"),
)
def views(study: Study) -> Sequence[ViewRow]:
    """How often the best proxy of a cell is lexical or embedding, by generator and scenario."""
    counts: dict[tuple[str, str, str], Counter[str]] = {}
    for pools in POOLS:
        for row in study.cells:
            if pools in study.groups(row.corpus, row.pool):
                found = counts.setdefault((pools, row.generator, row.scenario), Counter())
                found[row.view] += 1
    return [
        ViewRow(generator, scenario, found.total(), found["lexical"], found["embedding"], pools)
        for (pools, generator, scenario), found in counts.items()
    ]
