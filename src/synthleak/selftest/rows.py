"""What the self-test plays, kinds of audits whose outcome is known, and how rows are judged."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.core.cell import LEVEL
from synthleak.core.errors import MissingExtra
from synthleak.metrics.blind import UNFAIR
from synthleak.releases.lm.backbone import require_llm
from synthleak.selftest import checks
from synthleak.selftest.checks import EMBEDDED, Check
from synthleak.selftest.games import (
    INSTEAD,
    CountingGame,
    Game,
    LanguageModelGame,
    PersonGame,
    Told,
)
from synthleak.selftest.side_channels import MarkedGame

REDRAWS = 199
CROSSFIT_REDRAWS = 19
FIRST_SEED = 10_000
"""Rows are judged on seeds that no setting was tuned on: this one and those after it."""
COPIED = "containment_max"
RATE = 0.1
"""The false-discovery rate at which records are named."""


@dataclass(frozen=True)
class Row:
    """One kind of audit, repeated, and the limit that its outcomes are held to.

    `p` is how often `echo` copies a target. `cells` checks are one audit, whose claims are adjusted
    together; of `seeds` that are tried on one check the smallest p of its claim is taken.
    """

    name: str
    limit: str
    audit: Game | Check
    p: float = 0.0
    cells: int = 1
    seeds: int = 1

    @property
    def missing(self) -> str | None:
        """Why the row cannot be played here, in a line; None if it can."""
        try:
            if self.needs_llm:
                require_llm()
        except MissingExtra as error:
            return str(error)
        return None

    @property
    def needs_llm(self) -> bool:
        return isinstance(self.audit, LanguageModelGame)

    @property
    def design(self) -> str:
        return self.audit.design if isinstance(self.audit, Game) else "given"

    @property
    def game(self) -> tuple[str, type[Game | Check]]:
        """The design and the kind of game: rows with the same ones share chance."""
        return self.design, type(self.audit)

    @property
    def by_chance(self) -> bool:
        """Whether its TPR is what records that were not copied reach in this design."""
        return (
            isinstance(self.audit, Game)
            and self.audit.generator == "bystander"
            and not (self.audit.looks or self.audit.instead or self.audit.sizes)
        )


def echo_name(p: float, design: str) -> str:
    return f"echo p = {p:g}, {design}"


KINDS: dict[str, type[Game | Check]] = {
    "game": Game,
    "people": PersonGame,
    "told": Told,
    "lm": LanguageModelGame,
    "counted": CountingGame,
    "marked": MarkedGame,
    "check": Check,
}


def _rows() -> Iterator[Row]:
    table = tomllib.loads(Path(__file__).with_name("rows.toml").read_text("utf-8"))
    named: dict[str, Callable[[Any], Any]] = {
        "instead": INSTEAD.get,
        "files": lambda name: getattr(checks, name),
        "families": lambda name: EMBEDDED,
        "looks": tuple,
        "also": tuple,
        "kinds": tuple,
    }
    for row in table["rows"]:
        (kind,) = KINDS.keys() & row.keys()
        fields = {key: named.get(key, lambda v: v)(value) for key, value in row.pop(kind).items()}
        yield Row(audit=KINDS[kind](**fields), **row)


ROWS = list(_rows())


@dataclass(frozen=True)
class Outcome:
    """What one audit said. AUC and TPR are those of the copied-text proxy in scenario S1.

    `p` is that of the smallest size where there are several: the largest of the sequence so far.

    `even_p` is the p-value of a leak that is spread evenly, `blind_p` that of the blind test and
    `disclosed_p` that of disclosures; each is made for rows that are about it.
    """

    p: float | None = None
    crossfit_p: float | None = None
    auc: float | None = None
    tpr: float | None = None
    width: float = 0.0
    claim_p: float | None = None
    named: int = 0
    wrong: int = 0
    even_p: float | None = None
    blind_p: float | None = None
    disclosed_p: float | None = None

    @property
    def broken(self) -> bool:
        return self.claim_p is not None and self.claim_p <= LEVEL


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
    checked, value, limit, passed = _judged(row, outcomes, chance)
    width = float(np.mean([outcome.width for outcome in outcomes]))
    return Checked(row.name, len(outcomes), found, checked, value, limit, passed, width)


def _small(p: float | None, level: float = LEVEL) -> bool:
    return p is not None and p <= level


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


_SELDOM: dict[str, tuple[str, Callable[[Outcome], bool]]] = {
    "claim": ("claim broken", lambda outcome: outcome.broken),
    "nobody": ("audits with a wrong name", lambda outcome: outcome.named > 0),
    "even": ("called concentrated", lambda outcome: _small(outcome.even_p)),
    "unread": ("disclosures found", lambda outcome: _small(outcome.disclosed_p)),
}
"""What may happen in 5% of the audits of a row; where nobody leaks, every name is wrong."""
_MOSTLY: dict[str, tuple[str, Callable[[Outcome], bool]]] = {
    "exceeded": ("claim broken", lambda outcome: outcome.broken),
    "found": ("leak found", lambda outcome: _small(outcome.p)),
    "uneven": ("called concentrated", lambda outcome: _small(outcome.even_p)),
    "read": ("disclosures found", lambda outcome: _small(outcome.disclosed_p)),
    "stopped": ("stopped by the blind test", lambda o: _small(o.blind_p, UNFAIR)),
}
"""What must happen in most."""


LEVELS = ("null", *_SELDOM)
"""Limits that are the binomial's at 5%."""


def _judged(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    if row.limit in _SELDOM | _MOSTLY:
        title, counts = (_SELDOM | _MOSTLY)[row.limit]
        hold = _at_most if row.limit in _SELDOM else _at_least
        return hold(title, sum(map(counts, outcomes)), len(outcomes))
    special = {"echo": _echo, "named": _discoveries, "null": _null}
    return special[row.limit](row, outcomes, chance)
