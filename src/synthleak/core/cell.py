"""A cell: one pool × generator × ε of one corpus, the unit of every verdict."""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class CellColumns:
    """The columns by which the rows of every table name their cell."""

    corpus: str
    pool: str
    generator: str
    epsilon: float


@dataclass(frozen=True)
class Cell(CellColumns):
    """One combination that is audited."""

    @classmethod
    def of(cls, row: CellColumns) -> Cell:
        """Return the cell that a row of any table belongs to."""
        return cls(row.corpus, row.pool, row.generator, row.epsilon)

    @property
    def columns(self) -> dict[str, Any]:
        """The cell as the first columns of a row."""
        return asdict(self)

    @property
    def mechanism(self) -> str:
        """The generator and its budget, in words.

        >>> [Cell("c", "rare", "ngram", epsilon).mechanism for epsilon in (math.inf, 4.0)]
        ['ngram without privacy', 'ngram at ε = 4']
        """
        if math.isinf(self.epsilon):
            return f"{self.generator} without privacy"
        return f"{self.generator} at ε = {format_epsilon(self.epsilon)}"

    @property
    def name(self) -> str:
        """What the cell is called in a sentence.

        >>> Cell("c", "rare", "ngram", 4.0).name
        'ngram at ε = 4, pool rare'
        """
        return self.title()

    def title(self, *, given: bool = False) -> str:
        """Return its name, as `made_by` and its pool.

        >>> Cell("c", "all", "synthetic", math.inf).title(given=True)
        'synthetic (no ε stated), pool all'
        """
        return f"{self.made_by(given=given)}, pool {self.pool}"

    def made_by(self, *, given: bool = False) -> str:
        """Return its mechanism; of a `given` release only what was stated is known."""
        unstated = given and math.isinf(self.epsilon)
        return f"{self.generator} (no ε stated)" if unstated else self.mechanism


def is_of(row: CellColumns, cell: Cell) -> bool:
    """Say whether a row belongs to a cell."""
    return Cell.of(row) == cell


def counted_cells(cells: Sized) -> str:
    """Count cells in words.

    >>> counted_cells(["a"]), counted_cells(["a", "b"])
    ('1 cell', '2 cells')
    """
    return f"{len(cells)} cell{'s' * (len(cells) != 1)}"


def format_epsilon(epsilon: float, *, infinity: str = "∞", exact: bool = False) -> str:
    """Write ε for people: six digits, or more where two budgets would look the same.

    >>> format_epsilon(math.inf), format_epsilon(4.0), format_epsilon(8.734), format_epsilon(1 / 3)
    ('∞', '4', '8.734', '0.333333')
    >>> format_epsilon(1 / 3, exact=True)
    '0.3333333333333333'
    """
    if math.isinf(epsilon):
        return infinity
    short = f"{epsilon:g}"
    return repr(epsilon) if exact and float(short) != epsilon else short
