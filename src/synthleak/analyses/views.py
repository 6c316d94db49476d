"""Which view wins where: how often the best proxy is lexical, and how often embedding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from synthleak.analyses.analysis import Study, analysis


@dataclass(frozen=True)
class ViewRow:
    """One generator and scenario: in how many cells each view holds the best proxy."""

    generator: str
    scenario: str
    cells: int
    lexical: int
    embedding: int


@analysis("views", version=1, row=ViewRow)
def views(study: Study) -> Sequence[ViewRow]:
    """How often the best proxy of a cell is lexical or embedding, by generator and scenario."""
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in study.cells:
        counts.setdefault((row.generator, row.scenario), Counter())[row.view] += 1
    return [
        ViewRow(generator, scenario, found.total(), found["lexical"], found["embedding"])
        for (generator, scenario), found in counts.items()
    ]
