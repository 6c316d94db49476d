"""What the self-test plays: kinds of audits whose outcome is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from synthleak.core.errors import MissingExtra
from synthleak.core.verdict import LEVEL
from synthleak.releases.lm.backbone import require_llm
from synthleak.selftest.checks import (
    EMBEDDED,
    EPSILON,
    Check,
    Files,
    few_tears,
    one_large_person,
    one_torn_group,
    randomised_response,
    repeated_texts,
    repeated_texts_with_coins,
    several_records_each,
    swapped_halves,
)
from synthleak.selftest.games import ByHash, Game, LookedGame, PartialEcho, half_of, targets_of
from synthleak.selftest.language_model import LanguageModelGame
from synthleak.selftest.persons import EACH, TOLD, PersonGame, Told, half_of_people

REDRAWS = 199
CROSSFIT_REDRAWS = 19
FIRST_SEED = 10_000
"""Rows are judged on seeds that no setting was tuned on: this one and those after it."""
COPIED = "containment_max"
COPIED_RECORDS = 0.2
"""How often an echo copies a record of a person: with four of them 59% of people are copied."""
CELLS, SEEDS = 5, 5
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
        return isinstance(self.audit, Game) and self.audit.generator == "bystander"


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
        Row(f"bystander, three looks, {design}", "null", LookedGame(design, "bystander"))
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
