"""Rows of the self-test held to their limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.core.verdict import LEVEL
from synthleak.metrics.blind import UNFAIR
from synthleak.selftest.games import Game
from synthleak.selftest.rows import RATE, Outcome, Row

LEVELS = ("null", "claim", "nobody", "even")
"""Limits that are the binomial's at 5%."""
MOST = 0.5
"""How often a leak, or a claim that is too small, must be found."""


@dataclass(frozen=True)
class Checked:
    """One row, judged: `found` is how often a leak was found, `auc_interval` how wide AUC's is."""

    row: str
    audits: int
    found: float
    checked: str
    value: float
    limit: str
    passed: bool
    auc_interval: float


def check(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Checked:
    """Hold the outcomes of a row to its limit; `chance` are those of `bystander` in its design."""
    found = float(np.mean([_small(outcome.p) for outcome in outcomes]))
    checked, value, limit, passed = _CHECKS[row.limit](row, outcomes, chance)
    width = float(np.mean([outcome.width for outcome in outcomes]))
    return Checked(row.name, len(outcomes), found, checked, value, limit, passed, width)


def _small(p: float | None) -> bool:
    return p is not None and p <= LEVEL


Judged = tuple[str, float, str, bool]


def binomial_limit(audits: int) -> int:
    """Return how many of `audits` may fail before the rate is significantly above 5%.

    >>> binomial_limit(400), binomial_limit(60)
    (35, 9)
    """
    from scipy.stats import binom

    return int(binom.ppf(0.999, audits, LEVEL))


def _at_most(title: str, worst: int, audits: int) -> Judged:
    limit = binomial_limit(audits)
    return title, worst / audits, f"≤ {limit / audits:.3f}", worst <= limit


def _at_least(title: str, found: int, audits: int) -> Judged:
    return title, found / audits, f"> {MOST:g}", found > MOST * audits


def _null(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    """Count verdicts, deployable figures and bounds on ε that are false alarms."""
    alarms = (
        sum(_small(outcome.p) for outcome in outcomes),
        sum(_small(outcome.crossfit_p) for outcome in outcomes),
        sum(outcome.broken for outcome in outcomes),
    )
    return _at_most("false alarms", max(alarms), len(outcomes))


def _claim(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    broken = sum(outcome.broken for outcome in outcomes)
    return _at_most("claim broken", broken, len(outcomes))


def _exceeded(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    broken = sum(outcome.broken for outcome in outcomes)
    return _at_least("claim broken", broken, len(outcomes))


def _found(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    return _at_least("leak found", sum(_small(o.p) for o in outcomes), len(outcomes))


def _echo(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    """AUC is (1 + p) / 2; TPR is p, and of the rest as many as pass by chance.

    Chance is measured on `bystander`: (k + 1) / (n + 1) of the rest would pass a threshold between
    n negatives that lets k of them through, but scores are tied and a tied block passes whole or
    not at all.
    """
    aucs = [outcome.auc for outcome in outcomes if outcome.auc is not None]
    rates = [outcome.tpr for outcome in outcomes if outcome.tpr is not None]
    lucky = [outcome.tpr for outcome in chance if outcome.tpr is not None]
    auc = (1 + row.p) / 2
    tpr = row.p + (1 - row.p) * float(np.mean(lucky))
    reach = math.hypot(_reach(rates), (1 - row.p) * _reach(lucky))
    return (
        f"AUC, with TPR {np.mean(rates):.3f}",
        float(np.mean(aucs)),
        f"{auc:.3f}, with TPR {tpr:.3f}",
        abs(float(np.mean(aucs)) - auc) <= _reach(aucs)
        and abs(float(np.mean(rates)) - tpr) <= reach,
    )


def _reach(values: Sequence[float]) -> float:
    """Return how far from the truth a mean may lie: Student's 99.9% limit, at least 0.003."""
    from scipy.stats import t

    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return max(float(t.ppf(0.9995, len(values) - 1)) * error, 0.003)


def _discoveries(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    shares = [outcome.wrong / max(outcome.named, 1) for outcome in outcomes]
    mean = float(np.mean(shares))
    assert isinstance(row.audit, Game)
    right = float(np.mean([o.named - o.wrong for o in outcomes])) / (row.audit.targets / 2)
    return (
        f"wrongly named, {right:.0%} of leaking named",
        mean,
        f"≤ {RATE:g}",
        mean <= RATE + _reach(shares) and right > MOST,
    )


def _nobody(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    """Count audits with a name where nobody leaks: there every name is a false discovery."""
    named = sum(outcome.named > 0 for outcome in outcomes)
    return _at_most("audits with a wrong name", named, len(outcomes))


def _even(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    uneven = sum(_small(outcome.even_p) for outcome in outcomes)
    return _at_most("called concentrated", uneven, len(outcomes))


def _uneven(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    uneven = sum(_small(outcome.even_p) for outcome in outcomes)
    return _at_least("called concentrated", uneven, len(outcomes))


def _stopped(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    stopped = sum(o.blind_p is not None and o.blind_p <= UNFAIR for o in outcomes)
    return _at_least("stopped by the blind test", stopped, len(outcomes))


_CHECKS = {
    "null": _null,
    "claim": _claim,
    "exceeded": _exceeded,
    "found": _found,
    "echo": _echo,
    "named": _discoveries,
    "nobody": _nobody,
    "even": _even,
    "uneven": _uneven,
    "stopped": _stopped,
}
