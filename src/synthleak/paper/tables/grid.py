"""The rows of `cells.csv`, by the row names and column headings of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from synthleak.analyses.cells import CellRow
from synthleak.paper.tables.layout import NOTHING, Entry, budgets_of
from synthleak.paper.tables.source import Source

Write = Callable[[CellRow, bool], Entry]
"""Writes a row; the second argument says whether it is the best of its column."""


class Cells:
    """The rows of some cells, by row name and column heading."""

    def __init__(self, source: Source, rows: Sequence[CellRow]) -> None:
        pools = list(dict.fromkeys((row.corpus, row.pool) for row in rows))
        self.rows = rows
        self._label = {pool: source.label(*pool, pools) for pool in pools}
        self._found = {
            (self._label[row.corpus, row.pool], row.generator, row.epsilon, row.scenario): row
            for row in rows
        }
        self.labels = list(self._label.values())
        self.generators = list(dict.fromkeys(row.generator for row in rows))
        self.scenarios = sorted({row.scenario for row in rows})

    def of_generator(self, generator: str) -> list[str]:
        """Return the pools that a generator was audited on."""
        rows = (row for row in self.rows if row.generator == generator)
        return list(dict.fromkeys(self._label[row.corpus, row.pool] for row in rows))

    def budgets(self, generator: str | None = None) -> list[float]:
        """Return the budgets of one generator, or of all."""
        chosen = (row for row in self.rows if generator in (None, row.generator))
        return budgets_of([row.epsilon for row in chosen])

    def at(self, label: str, generator: str, epsilon: float, scenario: str) -> CellRow | None:
        """Return one row, if the study has it."""
        return self._found.get((label, generator, epsilon, scenario))

    def best(self, label: str, generator: str, epsilon: float) -> CellRow | None:
        """Return the best attacker of a cell by AUC, ties by TPR."""
        found = [self.at(label, generator, epsilon, s) for s in self.scenarios]
        known = [row for row in found if row is not None]
        return max(known, key=lambda row: (row.auc, row.tpr_at_fpr05), default=None)

    def entry(
        self, label: str, generator: str, epsilon: float, scenario: str, write: Write
    ) -> Entry:
        """Write one cell, shaded where it is the best of its column."""
        row = self.at(label, generator, epsilon, scenario)
        if row is None:
            return NOTHING
        return write(row, row is self.best(label, generator, epsilon))
