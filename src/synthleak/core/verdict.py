"""Verdicts: leak found, none found at this power, or cannot say and why (docs/method.md §8).

No figure can show that a release is harmless; the words never say so. A verdict is a value; this
module alone turns it into words, and nothing reads the words back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

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
TOO_FEW = "too few trials: even the strongest leak would often be missed"


Bound = tuple[float, float]
"""A lower bound on ε, and the smaller ε that was claimed: a broken mechanism."""


@dataclass(frozen=True)
class Verdict:
    """What is said of a cell: `reason` says why nothing can be, `bound` breaks its claim.

    >>> print(Verdict(CANNOT_SAY, TIED))
    cannot say: no signal ever differs between releases or targets
    >>> print(Verdict(FOUND, bound=(3.2, 1.0)))
    CLAIM BROKEN (ε ≥ 3.20 where 1.00 was claimed); leak found
    """

    kind: Kind
    reason: str | None = None
    bound: Bound | None = None

    @property
    def leaks(self) -> bool:
        """Whether a leak was found, claim broken or not."""
        return self.kind == FOUND

    @property
    def worst(self) -> str:
        """The kind that a reader must see first: a broken claim before all others."""
        return self.kind if self.bound is None else BROKEN

    def __str__(self) -> str:
        """Return the words of every table and page."""
        said = WORDS[self.kind] + (f": {self.reason}" if self.reason else "")
        if self.bound is None:
            return said
        lower, claimed = self.bound
        broken = WORDS[BROKEN].upper()
        return f"{broken} (ε ≥ {lower:.2f} where {claimed:.2f} was claimed); {said}"


def judge_cell(
    p_holm: float | None,
    reason: str | None,
    lower: float | None = None,
    claimed: float | None = None,
) -> Verdict:
    """Return the verdict on a cell from its adjusted p, and from its bound on ε.

    >>> print(judge_cell(0.004, None), "|", judge_cell(0.3, None))
    leak found | none found at this power
    >>> print(judge_cell(0.004, None, lower=3.2, claimed=float("inf")))
    leak found
    """
    bound = None
    if lower is not None and claimed is not None and lower > claimed:
        bound = (lower, claimed)
    if reason is not None or p_holm is None:
        return Verdict(CANNOT_SAY, reason or "no test could be made", bound)
    return Verdict(FOUND if p_holm <= LEVEL else NONE_FOUND, None, bound)
