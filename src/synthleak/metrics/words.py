"""Verdicts in words: leak found, none found at this power, or cannot say and why (METHOD §8).

No figure can show that a release is harmless; the words never say so.
"""

from __future__ import annotations

import math

from synthleak.metrics.nulls import LEVEL

FOUND = "leak found"
NONE_FOUND = "none found at this power"
CANNOT_SAY = "cannot say"
BROKEN = "claim broken"

TIED = "no signal ever differs between releases or targets"
TOO_FEW = "too few trials: even the strongest outcome would be no surprise"


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


def in_words(
    word: str,
    *,
    auc: float | None,
    low: float | None,
    high: float | None,
    ceiling: float | None,
    power: float | None,
) -> str:
    """Return one sentence on a cell: verdict, deployable figure, its chance ceiling, what follows.

    >>> in_words(FOUND, auc=0.71, low=None, high=None, ceiling=0.57, power=0.66)
    'leak found: an attacker who chooses beforehand reaches AUC 0.71 (chance stays below 0.57)'
    """
    figure = ""
    if auc is not None:
        span = f"{low:.2f} to {high:.2f}; " if low is not None and high is not None else ""
        limit = f"chance stays below {ceiling:.2f}" if ceiling is not None else "no ceiling"
        figure = f"an attacker who chooses beforehand reaches AUC {auc:.2f} ({span}{limit})"
    if word.startswith(CANNOT_SAY):
        return word
    if word.endswith(FOUND) and not word.endswith(NONE_FOUND):
        return f"{word}: {figure}" if figure else word
    missed = (
        f"a single signal's AUC below {power:.2f} would often be missed"
        if power is not None and math.isfinite(power)
        else "what would be missed is unknown"
    )
    return "; ".join(part for part in (f"{word}: {missed}", figure) if part)
