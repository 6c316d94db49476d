"""How the page calls cells and verdicts, in words that every section shares."""

from __future__ import annotations

from dataclasses import dataclass

from synthleak.core.cell import Cell
from synthleak.core.verdict import Verdict
from synthleak.report.page.material import Material

MARKS = {"broken": "‼", "found": "●", "none": "○", "cannot": "?"}
"""A sign for every verdict, so that none is told by colour alone."""

KINDS = {
    "outlier": "unusual texts",
    "rare": "rare labels",
    "random": "drawn at random",
    "union": "two pools merged",
    "canary": "written for the test",
    "ids": "listed by id",
    "labels": "chosen by label",
    "where": "chosen by a field",
}
"""What the records of a built-in pool rule are, for a reader who does not know the rule."""


def anchor(place: int) -> str:
    """Return the id of the section of a cell."""
    return f"cell-{place + 1}"


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
        """The verdict in words."""
        return str(self.verdict)

    @property
    def kind(self) -> str:
        """Return `broken`, `found`, `none` or `cannot`."""
        return self.verdict.worst

    @property
    def leaks(self) -> bool:
        """Whether a leak was found, claim broken or not."""
        return self.verdict.leaks

    @property
    def mark(self) -> str:
        """Return the sign of the verdict."""
        return MARKS[self.kind]

    @property
    def anchor(self) -> str:
        """Return the id of its section."""
        return anchor(self.place)


def verdicts(material: Material) -> list[Said]:
    """Return what is said of every cell, in the order of the summary."""
    pairs = zip(material.cells, material.verdicts, strict=True)
    given = "check" in material.summary
    return [
        Said(cell, place, verdict, cell.title(given=given), cell.made_by(given=given))
        for place, (cell, verdict) in enumerate(pairs)
    ]
