"""Cells and verdicts: what is audited, what is said of it, and what its targets are called.

A cell is one pool × generator × ε of one corpus. Its verdict is: leak found, none found at this
power, or cannot say and why (docs/method.md §8). No figure can show that a release is harmless; the
words never say so. A verdict is a value; this module alone turns it into words, and nothing reads
the words back.
"""

from __future__ import annotations

import math
from collections.abc import Sized
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal


@dataclass(frozen=True)
class CellColumns:
    """The columns by which the rows of every table name their cell.

    Attributes:
        corpus: the name of the corpus.
        pool: the name of the pool that the targets are in.
        generator: the name of the generator that made the releases.
        epsilon: the privacy budget; infinity without one.
    """

    corpus: str
    pool: str
    generator: str
    epsilon: float


@dataclass(frozen=True)
class Cell(CellColumns):
    """One combination that is audited.

    Args:
        size: how many texts of each release an attacker sees, or a share of them below 1; None for
            all (docs/method.md §4.7).
    """

    size: float | None = None

    @classmethod
    def of(cls, row: CellColumns) -> Cell:
        """Return the cell that a row of any table belongs to.

        Args:
            row: the row.
        """
        return cls(row.corpus, row.pool, row.generator, row.epsilon)

    @property
    def whole(self) -> Cell:
        """The cell in which the attacker sees all texts of every release."""
        return self if self.size is None else replace(self, size=None)

    def texts_of(self, release: int) -> int:
        """Return how many texts of a release an attacker sees.

        Args:
            release: how many it has.

        >>> [Cell("c", "p", "g", 1.0, size).texts_of(1000) for size in (None, 200, 0.25, 2000)]
        [1000, 200, 250, 1000]
        """
        if self.size is None:
            return release
        share = 0 < self.size < 1
        return min(release, math.ceil(self.size * release) if share else int(self.size))

    @property
    def columns(self) -> dict[str, Any]:
        return asdict(CellColumns(self.corpus, self.pool, self.generator, self.epsilon))

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
        """Return its name.

        Args:
            given: whether its release was made by others: then only what they stated is known.

        Returns:
            What it was `made_by`, and its pool.

        >>> Cell("c", "all", "synthetic", math.inf).title(given=True)
        'synthetic (no ε stated), pool all'
        """
        part = "" if self.size is None else f", {self.size:,g} of the texts"
        return f"{self.made_by(given=given)}, pool {self.pool}{part}"

    def made_by(self, *, given: bool = False) -> str:
        """Return its mechanism.

        Args:
            given: whether its release was made by others: then only what they stated is known.
        """
        unstated = given and math.isinf(self.epsilon)
        return f"{self.generator} (no ε stated)" if unstated else self.mechanism


def is_of(row: CellColumns, cell: Cell) -> bool:
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


LEVEL = 0.05
"""The significance level of every verdict."""
NAMED = 0.1
"""The false-discovery rate at which records are named: on average a tenth at most is wrong."""

Kind = Literal["found", "none", "cannot"]
FOUND: Kind = "found"
NONE_FOUND: Kind = "none"
CANNOT_SAY: Kind = "cannot"
BROKEN = "broken"

WORDS = {
    FOUND: "leak found",
    NONE_FOUND: "none found at this power",
    CANNOT_SAY: "cannot say",
    BROKEN: "claim broken",
}

TIED = "no signal ever differs between releases or targets"
TOO_FEW = "too few trials: even a strong leak would often be missed"
STRONG = 0.9
"""The AUC of a strong leak: where a larger one could be missed, none found says nothing."""


Contradiction = tuple[float, float, float]
"""The adjusted p of a claim that is too small to be kept, the ε claimed, and the ε measured."""


@dataclass(frozen=True)
class Verdict:
    """What is said of a cell: `reason` says why nothing can be, `contradiction` breaks its claim.

    >>> print(Verdict(CANNOT_SAY, TIED))
    cannot say: no signal ever differs between releases or targets
    >>> print(Verdict(FOUND, contradiction=(0.004, 1.0, 3.2)))
    CLAIM BROKEN (ε ≥ 3.20 where 1.00 was claimed, p = 0.004); leak found
    >>> print(Verdict(NONE_FOUND, contradiction=(0.004, 4.0, 0.8)))
    CLAIM BROKEN (more than its ε = 4.00 allows, p = 0.004); none found at this power
    """

    kind: Kind
    reason: str | None = None
    contradiction: Contradiction | None = None

    @property
    def leaks(self) -> bool:
        """Whether a leak was found, claim broken or not."""
        return self.kind == FOUND

    @property
    def worst(self) -> str:
        """The kind that a reader must see first: a broken claim before all others."""
        return self.kind if self.contradiction is None else BROKEN

    def __str__(self) -> str:
        words = WORDS[self.kind] + (f": {self.reason}" if self.reason else "")
        if self.contradiction is None:
            return words
        p, claimed, lower = self.contradiction
        broken = f"more than its ε = {claimed:.2f} allows"
        if lower > claimed:  # the curve may be broken where none of its points is
            broken = f"ε ≥ {lower:.2f} where {claimed:.2f} was claimed"
        return f"{WORDS[BROKEN].upper()} ({broken}, p = {p:.2g}); {words}"


def judge_cell(
    p_holm: float | None,
    reason: str | None,
    claim_p_holm: float | None = None,
    claimed: float | None = None,
    lower: float | None = None,
) -> Verdict:
    """Return the verdict on a cell from its adjusted p, and from that of its claim of ε.

    Args:
        p_holm: The p-value of the cell, adjusted over cells; None without a test.
        reason: Why nothing can be said; None if something can.
        claim_p_holm: The p-value of the claim's curve, adjusted over cells; None without one.
        claimed: The ε that is claimed.
        lower: The lower bound on ε at one δ, for the words.

    >>> print(judge_cell(0.004, None), "|", judge_cell(0.3, None))
    leak found | none found at this power
    >>> print(judge_cell(0.004, None, claim_p_holm=0.06, claimed=1.0, lower=1.2))
    leak found
    """
    contradiction = None
    if claim_p_holm is not None and claim_p_holm <= LEVEL and claimed is not None:
        contradiction = (claim_p_holm, claimed, lower or 0.0)
    if reason is not None or p_holm is None:
        return Verdict(CANNOT_SAY, reason or "no test could be made", contradiction)
    return Verdict(FOUND if p_holm <= LEVEL else NONE_FOUND, None, contradiction)


Unit = Literal["record", "person"]

_MANY = {"person": "people"}


def noun(unit: str, count: int = 2) -> str:
    """Return what the targets of an audit, or other things, are called.

    >>> noun("record", 1), noun("person", 1), noun("person", 3), noun("release")
    ('record', 'person', 'people', 'releases')
    """
    return unit if count == 1 else _MANY.get(unit, f"{unit}s")


def counted(count: int, unit: str) -> str:
    """Return a number of targets, or of other things, in words.

    >>> counted(1, "record"), counted(1200, "person")
    ('1 record', '1,200 people')
    """
    return f"{count:,} {noun(unit, count)}"
