"""What the self-test plays, kinds of audits whose outcome is known, and how rows are judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from synthleak.core.cell import LEVEL
from synthleak.core.errors import MissingExtra
from synthleak.metrics.blind import UNFAIR
from synthleak.releases.lm.backbone import require_llm
from synthleak.selftest.checks import (
    EMBEDDED,
    EPSILON,
    Check,
    Files,
    few_tears,
    lent_style,
    one_large_person,
    one_torn_group,
    randomised_response,
    repeated_texts,
    repeated_texts_with_coins,
    scattered_words,
    several_records_each,
    swapped_halves,
)
from synthleak.selftest.games import (
    EACH,
    TOLD,
    ByHash,
    CountingGame,
    Game,
    LanguageModelGame,
    PartialEcho,
    PersonGame,
    Told,
    half_of,
    half_of_people,
    targets_of,
)

REDRAWS = 199
CROSSFIT_REDRAWS = 19
FIRST_SEED = 10_000
"""Rows are judged on seeds that no setting was tuned on: this one and those after it."""
COPIED = "containment_max"
COPIED_RECORDS = 0.2
"""How often an echo copies a record of a person: with four of them 59% of people are copied."""
CELLS, SEEDS = 5, 5
LOOKS = (8, 14)
TWO_EACH, FOUR_EACH = 80, 160
"""Instances of `lone` that hold each of 20 targets twice, and four times, on average."""
COUNTED = ("coverage", "rates", "style")
RATE = 0.1
"""The false-discovery rate at which records are named."""

Limit = Literal[
    "null", "echo", "claim", "named", "found", "exceeded", "nobody", "even", "uneven", "stopped"
]


@dataclass(frozen=True)
class Row:
    """One kind of audit, repeated, and the limit that its outcomes are held to.

    `p` is how often `echo` copies a record; `needs` raises `MissingExtra` where the row cannot be
    played. `cells` checks are one audit, whose claims are adjusted together; of `seeds` that are
    tried on one check the smallest p of its claim is taken.
    """

    name: str
    limit: Limit
    audit: Game | Check
    p: float = 0.0
    needs: Callable[[], object] | None = None
    cells: int = 1
    seeds: int = 1

    @property
    def missing(self) -> str | None:
        """Why the row cannot be played here, in a line; None if it can."""
        try:
            if self.needs is not None:
                self.needs()
        except MissingExtra as error:
            return str(error)
        return None

    @property
    def design(self) -> str:
        """The design that is played."""
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
            and not self.audit.looks
        )


def echo_name(p: float, design: str) -> str:
    """Return how an echo's row is called."""
    return f"echo p = {p:g}, {design}"


def _games(design: str) -> Iterator[Row]:
    for generator in ("constant", "bystander"):
        yield Row(f"{generator}, {design}", "null", Game(design, generator))
    for p in (1.0, 0.5, 0.1):
        yield Row(echo_name(p, design), "echo", Game(design, "echo", {"p": p}), p)
    yield Row(
        f"ngram ε = 1, {design}", "claim", Game(design, "ngram", epsilon=1.0, adjacency="add")
    )
    yield Row(
        f"copies all but the targets, {design}",
        "null",
        Game(design, "echo", instead=lambda setup: PartialEcho(spared=targets_of(setup))),
    )
    yield Row(
        f"deterministic, {design}",
        "found",
        Game(design, "echo", instead=lambda setup: ByHash()),
    )
    yield Row(
        f"deterministic, blind to the targets, {design}",
        "null",
        Game(
            design,
            "echo",
            adjacency="add",
            instead=lambda setup: ByHash(spared=targets_of(setup)),
        ),
    )


def _checks() -> Iterator[Row]:
    yield Row("repeated texts, check", "null", Check(repeated_texts, families=EMBEDDED))
    yield Row(
        "repeated texts and coins, check",
        "null",
        Check(repeated_texts_with_coins, "coins", epsilon=0.01, families=EMBEDDED),
    )
    yield Row("several records each, check", "null", Check(several_records_each))
    yield Row("one torn group, check", "null", Check(one_torn_group))
    yield Row(
        f"randomised response claims its ε = {EPSILON:g}, check",
        "claim",
        Check(randomised_response, "coins", epsilon=EPSILON),
    )
    yield Row(
        f"randomised response claims 1, not {EPSILON:g}, check",
        "exceeded",
        Check(randomised_response, "coins", epsilon=1.0),
    )


def _persons() -> Iterator[Row]:
    """Games and a check of persons whose records are alike, and claims about them."""
    copied = 1 - (1 - COPIED_RECORDS) ** EACH
    for design, adjacency in (("lone", "add"), ("cohort", "replace")):
        yield Row(
            f"bystander, people, {design}",
            "null",
            PersonGame(design, "bystander", adjacency=adjacency),
        )
        yield Row(
            f"echo p = {COPIED_RECORDS:g}, people, {design}",
            "echo",
            PersonGame(design, "echo", {"p": COPIED_RECORDS}),
            copied,
        )
        yield Row(
            f"copies all but the targets, people, {design}",
            "null",
            PersonGame(design, "echo", instead=lambda setup: PartialEcho(spared=targets_of(setup))),
        )
    yield Row(
        "echo of half the people p = 1, cohort",
        "named",
        PersonGame("cohort", "echo", instead=lambda s: PartialEcho(spared=half_of_people(s))),
    )
    yield Row(
        "ngram ε = 1 for people, cohort",
        "claim",
        Told("cohort", "ngram", {"unit": "person", "max_records": TOLD}, 1.0, "add"),
    )
    yield Row(
        "ngram ε = 1 for records, held as a group, people, cohort",
        "claim",
        Told("cohort", "ngram", {}, 1.0, "add"),
    )
    yield Row(
        "ngram ε = 1 for records, read as for people, cohort",
        "exceeded",
        Told("cohort", "ngram", {}, 1.0, "add", as_stated=True),
    )
    yield Row("several records each, check of people", "null", _of_people(several_records_each))
    yield Row("one torn group, check of people", "null", _of_people(one_torn_group))


def _language_model() -> Iterator[Row]:
    """Games that `lm` plays alone: it holds the null, and not because it measures nothing."""
    yield Row(
        "bystander, lm alone, cohort",
        "null",
        LanguageModelGame("cohort", "bystander"),
        needs=require_llm,
    )
    yield Row(
        "echo p = 1, lm alone, cohort",
        "found",
        LanguageModelGame("cohort", "echo", {"p": 1.0}),
        needs=require_llm,
    )


def _counting() -> Iterator[Row]:
    """Families that count n-grams: alone in games, and leaks that only they see in checks."""
    for design in ("lone", "cohort"):
        yield Row(
            f"bystander, n-grams counted, {design}", "null", CountingGame(design, "bystander")
        )
    yield Row(
        "echo p = 0.5, n-grams counted, cohort",
        "found",
        CountingGame("cohort", "echo", {"p": 0.5}),
    )
    yield Row(
        "several records each, n-grams counted, check",
        "null",
        Check(several_records_each, also=COUNTED),
    )
    yield Row("scattered words, check", "found", Check(scattered_words, also=("coverage",)))
    yield Row("lent style, check", "found", Check(lent_style, also=("style",)))


def _claims() -> Iterator[Row]:
    """Honest claims in audits of several cells, and where the best of several seeds is taken."""
    honest = Check(randomised_response, "coins", epsilon=EPSILON)
    yield Row(f"honest randomised response in {CELLS} cells, check", "claim", honest, cells=CELLS)
    yield Row(f"honest randomised response, best of {SEEDS} seeds", "claim", honest, seeds=SEEDS)


def _of_people(files: Callable[[int], Files]) -> Check:
    return Check(files, unit="person")


ROWS = [
    *_games("lone"),
    *_games("cohort"),
    Row(
        "echo of half the pool p = 1, cohort",
        "named",
        Game("cohort", "echo", instead=lambda setup: PartialEcho(spared=half_of(setup))),
    ),
    *_checks(),
    *_persons(),
    *_language_model(),
    *(
        Row(f"bystander, three looks, {design}", "null", Game(design, "bystander", looks=LOOKS))
        for design in ("lone", "cohort")
    ),
    *_claims(),
    Row("one person with a fifth of the records, check", "nobody", Check(one_large_person)),
    Row("few torn pairs of single records, check", "null", Check(few_tears)),
    Row("echo p = 0.5 spreads evenly, cohort", "even", Game("cohort", "echo", {"p": 0.5})),
    Row(
        "echo of a tenth of the pool p = 1, cohort",
        "uneven",
        Game("cohort", "echo", instead=lambda setup: PartialEcho(spared=half_of(setup, 0.9))),
    ),
    Row("halves swapped in the holdout, check", "stopped", Check(swapped_halves)),
    *_counting(),
    Row(
        "echo p = 0.5 spreads evenly, lone",
        "even",
        Game("lone", "echo", {"p": 0.5}, instances=TWO_EACH),
    ),
    Row(
        "echo of a tenth of the pool p = 1, lone",
        "uneven",
        Game(
            "lone",
            "echo",
            instead=lambda setup: PartialEcho(spared=half_of(setup, 0.9)),
            instances=FOUR_EACH,
        ),
    ),
]
"""New rows go to the end: an outcome is kept under the number of its row."""


@dataclass(frozen=True)
class Outcome:
    """What one audit said. AUC and TPR are those of the copied-text proxy in scenario S1.

    `even_p` is the p-value of a leak that is spread evenly, `blind_p` that of the blind test; each
    is made for rows that are about it.
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

    @property
    def broken(self) -> bool:
        """Whether the claim is contradicted."""
        return self.claim_p is not None and self.claim_p <= LEVEL


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


def _null(outcomes: Sequence[Outcome]) -> Judged:
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


def _discoveries(row: Row, outcomes: Sequence[Outcome]) -> Judged:
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
}
"""What may happen in 5% of the audits of a row; where nobody leaks, every name is wrong."""
_MOSTLY: dict[str, tuple[str, Callable[[Outcome], bool]]] = {
    "exceeded": ("claim broken", lambda outcome: outcome.broken),
    "found": ("leak found", lambda outcome: _small(outcome.p)),
    "uneven": ("called concentrated", lambda outcome: _small(outcome.even_p)),
    "stopped": ("stopped by the blind test", lambda o: _small(o.blind_p, UNFAIR)),
}
"""What must happen in most."""


def _judged(row: Row, outcomes: Sequence[Outcome], chance: Sequence[Outcome]) -> Judged:
    if row.limit in _SELDOM:
        title, counts = _SELDOM[row.limit]
        return _at_most(title, sum(map(counts, outcomes)), len(outcomes))
    if row.limit in _MOSTLY:
        title, counts = _MOSTLY[row.limit]
        return _at_least(title, sum(map(counts, outcomes)), len(outcomes))
    if row.limit == "null":
        return _null(outcomes)
    return _echo(row, outcomes, chance) if row.limit == "echo" else _discoveries(row, outcomes)
