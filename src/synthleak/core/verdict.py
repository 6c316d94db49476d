"""Verdicts in words: leak found, none found at this power, or cannot say and why (docs/method.md
§8).

No figure can show that a release is harmless; the words never say so.
"""

from __future__ import annotations

import math

LEVEL = 0.05
"""The significance level of every verdict."""
FOUND = "leak found"
NONE_FOUND = "none found at this power"
CANNOT_SAY = "cannot say"
BROKEN = "claim broken"

TIED = "no signal ever differs between releases or targets"
TOO_FEW = "too few trials: no outcome could reach significance"

COUNTED = "under add/remove this may be no more than the number of records"


def verdict(p_holm: float | None, reason: str | None, level: float = LEVEL) -> str:
    """Return the verdict on a cell.

    >>> verdict(0.004, None), verdict(0.3, None)
    ('leak found', 'none found at this power')
    >>> verdict(None, TIED)
    'cannot say: no signal ever differs between releases or targets'
    """
    if reason is not None or p_holm is None:
        return f"{CANNOT_SAY}: {reason or 'no test could be made'}"
    return FOUND if p_holm <= level else NONE_FOUND


def breaks(lower: float | None, claimed: float | None) -> bool:
    """Say whether a lower bound on ε exceeds what was claimed: a broken mechanism."""
    return lower is not None and claimed is not None and lower > claimed


def full_verdict(word: str, lower: float | None, claimed: float | None) -> str:
    """Return the verdict with the claim's fate, which is shouted if it is broken.

    >>> full_verdict("leak found", 3.2, 1.0)
    'CLAIM BROKEN (ε ≥ 3.20 where 1.00 was claimed); leak found'
    >>> full_verdict("leak found", 3.2, math.inf)
    'leak found'
    """
    if not breaks(lower, claimed):
        return word
    return f"{BROKEN.upper()} (ε ≥ {lower:.2f} where {claimed:.2f} was claimed); {word}"


def decided_by(title: str, proxy: str, scenario: str, value: float, ceiling: float | None) -> str:
    """Name the signal and the statistic, by its title, that decided a verdict.

    >>> decided_by("AUC", "containment_max", "S1", 0.71, 0.62)
    'AUC of containment_max in S1 (0.71, chance limit 0.62)'
    """
    limit = "no chance limit" if ceiling is None else f"chance limit {ceiling:.2f}"
    return f"{title} of {proxy} in {scenario} ({value:.2f}, {limit})"


def in_words(
    word: str,
    *,
    decided: str | None = None,
    counted: bool = False,
    auc: float | None,
    low: float | None,
    high: float | None,
    ceiling: float | None,
    power: float | None,
) -> str:
    """Return one sentence on a cell: verdict, what decided it, the deployable figure.

    `counted` says that an instance without the target has a record less (docs/method.md §8).

    >>> in_words(FOUND, auc=0.71, low=None, high=None, ceiling=0.57, power=0.66)
    'leak found: an attacker who fixed the method in advance reaches AUC 0.71 (chance limit 0.57)'
    """
    figure = ""
    if auc is not None:
        span = f"{low:.2f} to {high:.2f}; " if low is not None and high is not None else ""
        limit = f"chance limit {ceiling:.2f}" if ceiling is not None else "no chance limit"
        figure = (
            f"an attacker who fixed the method in advance reaches AUC {auc:.2f} ({span}{limit})"
        )
    if word.startswith(CANNOT_SAY):
        return word
    if word.endswith(FOUND) and not word.endswith(NONE_FOUND):
        parts = [f"decided by {decided}"] if decided else []
        parts += [figure] if figure else []
        parts += [COUNTED] if counted else []
        return f"{word}: {'; '.join(parts)}" if parts else word
    missed = (
        f"a single signal's AUC below {power:.2f} would often be missed"
        if power is not None and math.isfinite(power)
        else "what would be missed is unknown"
    )
    return "; ".join(part for part in (f"{word}: {missed}", figure) if part)
