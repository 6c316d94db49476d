"""What the page is made of: the tables of `results/`, the summary, and the words of the spec.

The page computes nothing. Every number on it is looked up in a table by name, row and column, so
that page and table cannot differ.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import synthleak
from synthleak.analyses.merged import MergedRow
from synthleak.core.cell import Cell
from synthleak.core.verdict import Verdict
from synthleak.report.figures.all_figures import cell_figures, drawn_by, study_figures
from synthleak.report.results import Facts, Results, Table
from synthleak.report.tables import declared_of, summary
from synthleak.report.verdict import headline_sentences

if TYPE_CHECKING:
    from synthleak.report.figures.figure import Figure


@dataclass(frozen=True)
class Material:
    """Everything that a page shows.

    `headline` is that of the summary, by sentences. `statistics` names those that the cells were
    tested with. `unavailable` says for an analysis without rows what it needs. `texts` holds the
    texts of the pools' records by id, `nearest_texts` those of the rows of `nearest`; both are
    empty unless they were asked for. `history` says what was added or left out after a look.
    """

    summary: Mapping[str, Any]
    tables: Mapping[str, Table]
    facts: Facts
    verdicts: Sequence[Verdict]
    headline: Sequence[str] = ()
    statistics: Sequence[str] = ()
    unavailable: Mapping[str, str] = field(default_factory=dict)
    figures: Sequence[Figure] = ()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    nearest_texts: Sequence[str] = field(default=(), repr=False)
    history: Sequence[str] = ()
    version: str = field(default_factory=lambda: synthleak.__version__)

    def rows(self, table: str) -> Sequence[Any]:
        """Return the rows of a table, none if the table does not exist."""
        return self.tables[table][1] if table in self.tables else ()

    @cached_property
    def cells(self) -> list[Cell]:
        """Every cell, in the order of the summary."""
        corpus = self.summary["corpus"]["name"]
        return [
            Cell(corpus, cell["pool"], cell["generator"], float(cell["epsilon"]))
            for cell in self.summary["cells"]
        ]

    @cached_property
    def scenarios(self) -> list[str]:
        """The attackers that were played, in order of what they know."""
        return sorted({row.scenario for row in self.rows("cells")})

    def places(self, table: str) -> dict[Cell, list[int]]:
        """Return which rows of a table belong to each cell."""
        found: dict[Cell, list[int]] = {}
        for position, row in enumerate(self.rows(table)):
            found.setdefault(Cell.of(row), []).append(position)
        return found


def material_of(results: Results, *, include_text: bool = False, figures: bool = True) -> Material:
    """Gather what a page of an audit shows; the summary as its file holds it."""
    tables = dict(results.tables)
    if results.adjudicated:
        tables["adjudication"] = (MergedRow, results.adjudicated)
    rows = {name: found for name, (_, found) in tables.items()}
    return Material(
        summary=json.loads(json.dumps(summary(results))),
        tables=tables,
        facts=results.facts,
        verdicts=[one.verdict for one in results.cells],
        headline=headline_sentences(results.cells, declared_of(results)),
        statistics=[name for one in results.cells for name in one.measurements.statistics],
        unavailable={
            one.name: one.unavailable for one in results.outcomes if one.unavailable is not None
        },
        figures=[
            *(figure for one in results.cells for figure in cell_figures(results, one.cell)),
            *study_figures(rows, drawn_by(results)),
        ]
        if figures
        else (),
        texts=results.texts if include_text else {},
        nearest_texts=results.nearest_texts if include_text else (),
        history=results.history,
    )
