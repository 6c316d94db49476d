"""Figures by kind of record, member by member and non-member by non-member."""

from __future__ import annotations

from collections.abc import Sequence


def wins(score: float, others: Sequence[float]) -> float:
    return sum(1.0 if score > other else 0.5 if score == other else 0.0 for other in others)


def rate(scores: Sequence[float], others: Sequence[float]) -> float:
    """The largest share of scores above a threshold that at most 5% of the others pass."""
    best = 0.0
    for threshold in others:
        false = sum(other > threshold for other in others) / len(others)
        if false <= 0.05 + 1e-12:
            best = max(best, sum(score > threshold for score in scores) / len(scores))
    return best


def shared(
    members: Sequence[float], kinds: Sequence[bool], rounds: Sequence[Sequence[float]]
) -> list[tuple[float, float]]:
    """(AUC, TPR) of the first and of the second kind against the same non-members."""
    made = []
    for kind in (True, False):
        own = [score for score, k in zip(members, kinds, strict=True) if k == kind]
        aucs = [sum(wins(s, others) for s in own) / (len(own) * len(others)) for others in rounds]
        rates = []
        for others in rounds:
            allowed = [t for t in others if sum(o > t for o in others) / len(others) <= 0.05]
            rates.append(sum(score > min(allowed) for score in own) / len(own))
        made.append((sum(aucs) / len(aucs), sum(rates) / len(rates)))
    return made
