"""How the page calls cells and verdicts, in words that every section shares."""

from __future__ import annotations

import math
from dataclasses import dataclass

from synthleak.core.verdict import BROKEN, FOUND, NONE_FOUND
from synthleak.report.page.material import CellName, Material

MARKS = {"broken": "‼", "found": "●", "none": "○", "cannot": "?"}
"""A sign for every verdict, so that none is told by colour alone."""


def name_of(cell: CellName) -> str:
    """Return what a cell is called in a sentence.

    >>> name_of(("rare", "ngram", math.inf)), name_of(("rare", "ngram", 4.0))
    ('ngram without privacy, pool rare', 'ngram at ε = 4, pool rare')
    """
    pool, generator, epsilon = cell
    privacy = "without privacy" if math.isinf(epsilon) else f"at ε = {epsilon:g}"
    return f"{generator} {privacy}, pool {pool}"


def anchor(place: int) -> str:
    """Return the id of the section of a cell."""
    return f"cell-{place + 1}"


@dataclass(frozen=True)
class Said:
    """What is said of one cell: the words of the tables, and which kind of verdict they are."""

    cell: CellName
    place: int
    words: str

    @property
    def kind(self) -> str:
        """Return `broken`, `found`, `none` or `cannot`."""
        if self.words.startswith(BROKEN.upper()):
            return "broken"
        if self.words.endswith(NONE_FOUND):
            return "none"
        return "found" if self.words.endswith(FOUND) else "cannot"

    @property
    def leaks(self) -> bool:
        """Whether a leak was found, claim broken or not."""
        return self.words.endswith(FOUND) and not self.words.endswith(NONE_FOUND)

    @property
    def mark(self) -> str:
        """Return the sign of the verdict."""
        return MARKS[self.kind]

    @property
    def name(self) -> str:
        """Return what the cell is called."""
        return name_of(self.cell)

    @property
    def anchor(self) -> str:
        """Return the id of its section."""
        return anchor(self.place)


def verdicts(material: Material) -> list[Said]:
    """Return what is said of every cell, in the order of the summary."""
    places = material.places("cells")
    return [
        Said(cell, place, material.rows("cells")[places[cell][0]].verdict)
        for place, cell in enumerate(material.cells)
    ]
