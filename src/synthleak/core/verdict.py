"""Verdicts: leak found, none found at this power, or cannot say and why (docs/method.md §8).

No figure can show that a release is harmless; the words never say so. A verdict is a value; this
module alone turns it into words, and nothing reads the words back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

LEVEL = 0.05
"""The significance level of every verdict."""

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
TOO_FEW = "too few trials: no outcome could reach significance"

COUNTED = "under add/remove this may be no more than the number of records"


class Bound(NamedTuple):
    """A lower bound on ε that lies above what was claimed: a broken mechanism."""

    lower: float
    claimed: float


@dataclass(frozen=True)
class Verdict:
    """What is said of a cell: `reason` says why nothing can be, `bound` breaks its claim.

    >>> print(Verdict(CANNOT_SAY, TIED))
    cannot say: no signal ever differs between releases or targets
    >>> print(Verdict(FOUND, bound=Bound(3.2, 1.0)))
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
    >>> print(judge_cell(0.004, None, lower=3.2, claimed=math.inf))
    leak found
    """
    exceeds = lower is not None and claimed is not None and lower > claimed
    bound = Bound(lower, claimed) if exceeds else None  # type: ignore[arg-type]
    if reason is not None or p_holm is None:
        return Verdict(CANNOT_SAY, reason or "no test could be made", bound)
    return Verdict(FOUND if p_holm <= LEVEL else NONE_FOUND, None, bound)


def decided_by(title: str, proxy: str, scenario: str, value: float, ceiling: float | None) -> str:
    """Name the signal and the statistic, by its title, that decided a verdict.

    >>> decided_by("AUC", "containment_max", "S1", 0.71, 0.62)
    'AUC of containment_max in S1 (0.71, chance limit 0.62)'
    """
    limit = "no chance limit" if ceiling is None else f"chance limit {ceiling:.2f}"
    return f"{title} of {proxy} in {scenario} ({value:.2f}, {limit})"


def details(
    verdict: Verdict,
    *,
    decided: str | None = None,
    counted: bool = False,
    auc: float | None,
    low: float | None,
    high: float | None,
    ceiling: float | None,
    power: float | None,
) -> str:
    """Say what stands behind a verdict: what decided it, the deployable figure, the power.

    `counted` says that an instance without the target has a record less (docs/method.md §8).

    >>> details(Verdict(FOUND), auc=0.71, low=None, high=None, ceiling=0.57, power=0.66)
    'an attacker who fixed the method in advance reaches AUC 0.71 (chance limit 0.57)'
    """
    if verdict.kind == CANNOT_SAY:
        return ""
    figure = ""
    if auc is not None:
        span = f"{low:.2f} to {high:.2f}; " if low is not None and high is not None else ""
        limit = f"chance limit {ceiling:.2f}" if ceiling is not None else "no chance limit"
        figure = (
            f"an attacker who fixed the method in advance reaches AUC {auc:.2f} ({span}{limit})"
        )
    if verdict.leaks:
        parts = [f"decided by {decided}" if decided else "", figure, COUNTED if counted else ""]
    elif power is not None and math.isfinite(power):
        parts = [f"a single signal's AUC below {power:.2f} would often be missed", figure]
    else:
        parts = ["what would be missed is unknown", figure]
    return "; ".join(part for part in parts if part)
