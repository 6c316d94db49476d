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
        """Return the words of every table and page."""
        said = WORDS[self.kind] + (f": {self.reason}" if self.reason else "")
        if self.contradiction is None:
            return said
        p, claimed, lower = self.contradiction
        broken = f"more than its ε = {claimed:.2f} allows"
        if lower > claimed:  # the curve may be broken where none of its points is
            broken = f"ε ≥ {lower:.2f} where {claimed:.2f} was claimed"
        return f"{WORDS[BROKEN].upper()} ({broken}, p = {p:.2g}); {said}"


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
