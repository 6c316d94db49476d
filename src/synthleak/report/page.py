"""What the sections of a page look at: the results of one audit, and their numbers by address.

The page computes nothing. Every number on it is looked up in a table by name, row and column, or
in the summary by its path, so that page and files cannot differ.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from markupsafe import Markup

import synthleak
from synthleak.analyses.gaps import MergedRow
from synthleak.calibration import KNOWLEDGE
from synthleak.core.cell import Cell, Verdict
from synthleak.report.figures.all_figures import cell_figures, study_figures
from synthleak.report.figures.figure import Figure
from synthleak.report.results import Results
from synthleak.report.tables import declared_of, summary
from synthleak.report.verdict import decision_name, headline_sentences
from synthleak.report.writing import tagged

MARKS = {"broken": "‼", "found": "●", "none": "○", "cannot": "?"}
MARKS |= {"strong": "●", "trace": "◐", "copies": "◐", "disclosures": "◐"}
"""A sign for every verdict and standing, so that none is told by colour alone."""


@dataclass(frozen=True)
class Said:
    """What is said of one cell, what it is called, and where it stands among the cells.

    `decision` names its generator and ε: whether to publish is decided for all pools together.
    """

    cell: Cell
    place: int
    verdict: Verdict
    name: str = ""
    decision: str = ""

    @property
    def words(self) -> str:
        return str(self.verdict)

    @property
    def kind(self) -> str:
        """`broken`, `found`, `none` or `cannot`."""
        return self.verdict.worst

    @property
    def leaks(self) -> bool:
        """Whether a leak was found, claim broken or not."""
        return self.verdict.leaks

    @property
    def mark(self) -> str:
        return MARKS[self.kind]

    @property
    def anchor(self) -> str:
        return f"cell-{self.place + 1}"


class Page:
    """The page of an audit, as its templates see it.

    `texts` holds the texts of the pools' records by id, `nearest_texts` those of the rows of
    `nearest`; both are empty unless they were asked for.
    """

    @property
    def version(self) -> str:
        return synthleak.__version__

    def __init__(self, results: Results, *, include_text: bool = False) -> None:
        self.results, self.facts, self.history = results, results.facts, results.history
        self.tables = dict(results.tables)
        if results.adjudicated:
            self.tables["adjudication"] = (MergedRow, results.adjudicated)
        self.summary = summary(results)
        self.headline = headline_sentences(results.cells, declared_of(results))
        self.given = results.check is not None
        self.cells = [one.cell for one in results.cells]
        self.verdicts = [
            Said(
                one.cell,
                place,
                one.verdict,
                one.cell.title(given=self.given),
                decision_name(one),
            )
            for place, one in enumerate(results.cells)
        ]
        self.scenarios = sorted({row.scenario for row in self.rows("cells")})
        self.texts = results.texts if include_text else {}
        self.nearest_texts = results.nearest_texts if include_text else ()

    @cached_property
    def figures(self) -> list[Figure]:
        """The figures of every cell, and those of the study as a whole."""
        rows = {name: found for name, (_, found) in self.tables.items()}
        return [
            *(figure for cell in self.cells for figure in cell_figures(self.results, cell)),
            *study_figures(rows, [self.results]),
        ]

    @property
    def title(self) -> str:
        """What the page is of: the corpus, or the releases that were checked."""
        if not self.given:
            return f"Privacy audit of {self.summary['corpus']['name']}"
        names = dict.fromkeys(cell.generator for cell in self.cells)
        return f"Privacy check of {', '.join(names)}"

    @property
    def knowledge(self) -> list[tuple[str, str]]:
        """The attackers that were played and what each knew."""
        return [(name, KNOWLEDGE[name]) for name in self.scenarios if name in KNOWLEDGE]

    def rows(self, table: str) -> Sequence[Any]:
        """Return the rows of a table, none if the table does not exist."""
        return self.tables[table][1] if table in self.tables else ()

    def places(self, table: str) -> dict[Cell, list[int]]:
        """Return which rows of a table belong to each cell."""
        places: dict[Cell, list[int]] = {}
        for position, row in enumerate(self.rows(table)):
            places.setdefault(Cell.of(row), []).append(position)
        return places

    def value(self, source: str) -> Any:
        """Return what stands at an address: `cells/0/auc`, or a path such as `summary/corpus`."""
        table, *path = source.split("/")
        if table != "summary":
            return getattr(self.rows(table)[int(path[0])], path[1])
        value: Any = self.summary
        for part in path:
            if value is None:
                break
            value = value[int(part)] if isinstance(value, list | tuple) else value[part]
        return math.inf if value == "inf" else value

    def at(self, source: str, how: str = "figure") -> Markup:
        """Show what stands at an address."""
        return tagged(self.value(source), source, how)

    def of(self, table: str, row: int, column: str, how: str = "figure") -> Markup:
        """Show one field of one row of a table."""
        return self.at(f"{table}/{row}/{column}", how)

    def said(self, path: str, how: str = "figure") -> Markup:
        """Show what stands at a path of the summary, such as `cells/0/crossfit/value`."""
        return self.at(f"summary/{path}", how)
