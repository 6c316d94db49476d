"""The words of a verdict: whether it leaks, whom, what decided it, what an attacker gains."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from synthleak.analyses.copies import Copies
from synthleak.analyses.disclosures import Disclosures
from synthleak.core.cell import (
    CANNOT_SAY,
    FOUND,
    NONE_FOUND,
    TIED,
    TOO_FEW,
    Cell,
    Verdict,
    judge_cell,
)
from synthleak.metrics.measurements import Estimate
from synthleak.report.results import CellResult
from synthleak.report.verdict import headline, one_release_line, sentence, size_line

WEAK = Estimate(value=0.541, low=0.49, high=0.59, null=0.538, n=9, method="")
STRONG = replace(WEAK, value=0.71, null=0.57)
RATE = Estimate(value=0.72, null=0.11, n=9, method="")
COPIES = Copies(
    found=(),
    members=500,
    holdout=480,
    verbatim=(3, 0),
    near=(0, 0),
    p_verbatim=0.01,
    p_all=0.01,
    looked=True,
)


def result(
    verdict: Verdict, *, statistic: str = "tail5", value: float = 0.31, **more: Any
) -> CellResult:
    row = SimpleNamespace(
        deciding_value=value,
        deciding_statistic=statistic,
        deciding_proxy="containment_max",
        deciding_scenario="S1",
        deciding_ceiling=0.25,
        unit=more.pop("unit", "record"),
        look=more.pop("look", 1),
        looks=more.pop("looks", 1),
        instances=10,
        n_positive=5,
    )
    named, rate = more.pop("named", 45), more.pop("rate", RATE)
    measured = SimpleNamespace(named=named, records=[None] * 500, crossfit_tpr=rate)
    facts: dict[str, Any] = {
        "cell": Cell("c", "all", "synthetic", math.inf),
        "name": "synthetic (no ε stated), pool all",
        "deployable": WEAK,
        "power": 0.66,
        "rows": [row],
        "few": None,
        "cells": 1,
        "counted": False,
        "copies": COPIES,
        "disclosures": None,
        "given": more.get("copies", COPIES) is not None,
        "canaries": False,
        "grade": "strong" * verdict.leaks,
        "planned": 100,
        "sizes": (),
        "measurements": measured,
        "judged": SimpleNamespace(p_holm=0.002),
    }
    facts |= more
    strength = -math.inf if facts["deployable"] is None else facts["deployable"].value
    return cast(CellResult, SimpleNamespace(verdict=verdict, strength=strength, **facts))


DECIDED = "Decided by the tail of containment_max (p = 0.002 over all signals)."
FIXED = "An attacker who fixed the method in advance"
LESS = f"{FIXED} reaches AUC 0.54 (chance limit 0.54), which chance alone could give."
CAN = "can be recognised as having been used"
NAMED = f"45 of 500 private records {CAN} (expect 1 in 10 to be wrong)"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            result(Verdict(FOUND)),
            f"Leak found. {NAMED}; 3 are copied word for word. {DECIDED} {LESS}",
        ),
        (
            result(Verdict(FOUND), copies=replace(COPIES, verbatim=(1, 2))),
            f"Leak found. {NAMED}; 1 is copied word for word, and so are 2 of 480 that were"
            f" not used. {DECIDED} {LESS}",
        ),
        (
            result(Verdict(FOUND), copies=replace(COPIES, verbatim=(1, 0), near=(13, 0))),
            f"Leak found. {NAMED}; 14 are copied word for word or nearly so (1 word for word)."
            f" {DECIDED} {LESS}",
        ),
        (
            result(Verdict(FOUND), named=0, copies=replace(COPIES, verbatim=(0, 0), near=(1, 0))),
            f"Leak found. 1 of 500 private records is copied almost word for word."
            f" {DECIDED} {LESS}",
        ),
        (
            result(Verdict(FOUND), named=0),
            f"Leak found. 3 of 500 private records are copied word for word. {DECIDED} {LESS}",
        ),
        (
            result(Verdict(FOUND), copies=None, deployable=STRONG),
            f"Leak found. 45 of 500 private records {CAN} (expect 1 in 10 to be wrong)."
            f" {DECIDED} {FIXED} reaches AUC 0.71 (chance limit 0.57).",
        ),
        (
            result(Verdict(FOUND), copies=None, named=None, deployable=None),
            "Leak found. Of 100 private records about 72 are recognised from one release (by chance"
            " up to 11) where 5 of 100 others are taken for members."
            f" {DECIDED}",
        ),
        (
            result(Verdict(FOUND, contradiction=(0.004, 1.0, 3.2)), named=0, copies=None),
            "CLAIM BROKEN (ε ≥ 3.20 where 1.00 was claimed, p = 0.004); leak found. No single"
            f" record {CAN}. {DECIDED} {LESS}",
        ),
        (
            result(Verdict(NONE_FOUND)),
            "None found at this power. 3 of 500 private records are copied word for word. A single"
            f" signal's AUC below 0.66 would often be missed. {FIXED} reaches AUC 0.54 (chance"
            " limit 0.54). This does not prove that nothing leaks.",
        ),
        (
            result(
                Verdict(NONE_FOUND),
                deployable=None,
                copies=replace(COPIES, verbatim=(3, 2), p_all=0.5),
            ),
            "None found at this power. 3 of 500 private records are copied word for word, and so"
            " are 2 of 480 that were not used, which chance alone could give. A single signal's AUC"
            " below 0.66 would often be missed. This does not prove that nothing leaks.",
        ),
        (
            result(Verdict(NONE_FOUND), power=None, deployable=None, copies=None),
            "None found at this power. What would be missed is unknown."
            " This does not prove that nothing leaks.",
        ),
        (
            result(Verdict(CANNOT_SAY, "too few trials")),
            "Cannot say: too few trials. 3 of 500 private records are copied word for word.",
        ),
    ],
)
def test_sentence_of_each_kind_of_verdict(made: CellResult, expected: str) -> None:
    assert sentence(made) == expected


def test_few_members_are_not_told_as_of_a_hundred() -> None:
    said = sentence(result(Verdict(FOUND), named=None, copies=None, few=10))
    assert (
        "Of 10 private records about 7 are recognised from one release (by chance up to 1)" in said
    )


@pytest.mark.parametrize(
    ("fitted", "by_chance"),
    [
        (STRONG, False),
        (replace(STRONG, value=0.56), True),
        (replace(STRONG, null=None), False),
    ],
)
def test_a_figure_within_its_chance_limit_is_said_to_be(fitted: Estimate, by_chance: bool) -> None:
    made = result(Verdict(FOUND), deployable=fitted)
    assert ("which chance alone could give" in sentence(made)) == by_chance


def test_add_remove_is_said_where_a_leak_was_found() -> None:
    assert "number of records" in sentence(result(Verdict(FOUND), counted=True))
    assert "number of records" not in sentence(result(Verdict(NONE_FOUND), counted=True))


def test_an_undeclared_split_is_said_unless_there_is_no_verdict() -> None:
    assert headline([result(Verdict(FOUND))], "unstated").endswith("nobody has declared that.")
    assert "declared" not in headline([result(Verdict(FOUND))], "random")
    assert "declared" not in headline([result(Verdict(CANNOT_SAY, "x"))], "unstated")


def cell_at(epsilon: float, verdict: Verdict, **more: Any) -> CellResult:
    return result(verdict, cell=Cell("c", "rare", "ngram", epsilon), copies=None, **more)


DISCLOSED = Disclosures((), 500, 480, {"distinctive": (12, 1)}, 0.004, "distinctive", {})


@pytest.mark.parametrize(
    ("printed", "begin"),
    [
        ({"disclosures": DISCLOSED, "copies": None}, "Do not publish yet: "),
        ({"disclosures": replace(DISCLOSED, p=0.03), "copies": None}, "No leak was found, "),
        ({"disclosures": replace(DISCLOSED, p=None), "copies": None}, "No leak was found, "),
        ({"copies": COPIES}, "Do not publish yet: 3 of 500 "),
        ({"copies": replace(COPIES, p_all=0.03)}, "No leak was found, "),
    ],
)
def test_what_is_printed_decides_at_one_percent(printed: dict[str, Any], begin: str) -> None:
    """Leaks take 5% of false alarms, copies and disclosures 1% each."""
    said = headline([result(Verdict(NONE_FOUND), given=True, **printed)])
    assert said.startswith(begin)


NO_COPY = replace(COPIES, verbatim=(0, 0), p_all=1.0)
TOO_LITTLE = "5 private records are too few to tell; even a strong leak could be missed."


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            result(Verdict(FOUND)),
            f"Do not publish as anonymous: of 500 private records tested, 45 {CAN}. 3 of 500"
            " private records are copied word for word.",
        ),
        (
            result(Verdict(FOUND), copies=None, named=None),
            "Do not publish as anonymous: of 100 private records about 72 are recognised from one"
            " release (by chance up to 11).",
        ),
        (
            result(Verdict(FOUND), grade="trace", copies=None, rate=WEAK),
            "Do not publish as anonymous yet: there is a trace of a leak, seen only by comparing 10"
            " releases; from one release hardly anybody is recognised beyond pure guessing."
            " What would settle it: a larger audit (more releases or more records), or an audit of"
            " releases with fewer texts or stronger protection.",
        ),
        (
            result(Verdict(FOUND), grade="trace", copies=NO_COPY, rate=replace(WEAK, null=0.6)),
            "Do not publish as anonymous yet: there is a trace of a leak, seen only in all private"
            " records together; nobody is recognised beyond pure guessing. What would settle"
            " it: a larger check (more private records, and more that were not used), or a check of"
            " a release with fewer texts or stronger protection.",
        ),
        (
            result(Verdict(NONE_FOUND), copies=NO_COPY),
            "No leak was found, but a small one could have been missed. What would show smaller"
            " leaks: more private records, and more that were not used.",
        ),
        (
            result(Verdict(NONE_FOUND)),
            "Do not publish yet: 3 of 500 private records are copied word for word. What would"
            " settle it: remove the rows that copy private records, and check again.",
        ),
        (
            result(Verdict(CANNOT_SAY, TOO_FEW), copies=NO_COPY),
            f"Undecided: {TOO_LITTLE} What would settle it: at least 50 private records and"
            " 50 similar ones that were not used (or 20 of the first and 300 of the second).",
        ),
        (
            result(Verdict(CANNOT_SAY, TIED), copies=None),
            f"Undecided: this audit cannot tell, because {TIED}. What would settle it: releases"
            " that differ from each other.",
        ),
        (
            result(Verdict(NONE_FOUND, contradiction=(0.004, 1.0, 3.2)), copies=NO_COPY),
            "Do not publish, and do not rely on the promised privacy: the release shows more"
            " than the promise allows.",
        ),
        (
            result(Verdict(FOUND, contradiction=(0.004, 1.0, 3.2)), copies=NO_COPY),
            "Do not publish, and do not rely on the promised privacy: the release shows more"
            " than the promise allows;"
            f" of 500 private records tested, 45 {CAN}.",
        ),
        (
            result(Verdict(FOUND), copies=None, canaries=True),
            "A record as unusual as those written for this test could leak: of 500 canaries tested,"
            f" 45 {CAN}. What would settle it: an audit of the most unusual real records.",
        ),
    ],
)
def test_headline_tells_what_to_do(made: CellResult, expected: str) -> None:
    said = headline([made])
    assert said == expected
    assert not re.search(r"AUC|\bp\b|ε|containment", said)


def test_decisions_are_listed_by_what_is_said_of_them() -> None:
    cells = [
        cell_at(8.0, Verdict(FOUND), grade="trace"),
        cell_at(math.inf, Verdict(FOUND)),
        cell_at(math.inf, Verdict(NONE_FOUND)),
        *(cell_at(epsilon, Verdict(NONE_FOUND)) for epsilon in (5.0, 4.0, 3.0, 2.0, 1.0)),
    ]
    assert headline(cells) == (
        f"Do not publish as anonymous: of 500 private records tested, 45 {CAN}. Strong leak:"
        " generator ngram without a privacy limit. Trace of a leak: generator ngram with privacy"
        " limit 8. No leak found: generator ngram with privacy limit 5, ngram with privacy limit 4,"
        " ngram with privacy limit 3 and 2 more."
    )


def test_people_are_told_before_canaries() -> None:
    canaries = cell_at(1.0, Verdict(FOUND), canaries=True)
    assert headline([canaries, cell_at(1.0, Verdict(NONE_FOUND))]).startswith("No leak was found")
    alone = headline([canaries, cell_at(2.0, Verdict(NONE_FOUND), canaries=True)])
    assert alone.startswith("A record as unusual as those written for this test could leak")


def test_a_promise_that_canaries_broke_is_told_first() -> None:
    broken = Verdict(FOUND, contradiction=(0.004, 1.0, 3.2))
    canaries = cell_at(1.0, broken, canaries=True)
    quiet = cell_at(1.0, Verdict(NONE_FOUND))
    for others in ([quiet], [cell_at(2.0, Verdict(NONE_FOUND), canaries=True)]):
        said = headline([*others, canaries])
        assert said.startswith("Do not publish, and do not rely on")
        assert "real records" not in said
    assert "Broken promise" in headline([quiet, canaries, cell_at(8.0, Verdict(NONE_FOUND))])


def test_people_are_called_people() -> None:
    made = sentence(result(Verdict(FOUND), unit="person", copies=None))
    assert f"45 of 500 people {CAN}" in made
    assert f"No single person {CAN}." in sentence(
        result(Verdict(FOUND), unit="person", copies=None, named=0)
    )


@pytest.mark.parametrize(
    ("verdict", "look", "said"),
    [
        (FOUND, 1, "Found at the first look, after 10 of 100 releases."),
        (FOUND, 4, "Found at the last look, after 10 of 100 releases."),
        (NONE_FOUND, 4, "4 looks, the last after 10 releases, found nothing."),
    ],
)
def test_the_look_that_decided_is_said(verdict: Any, look: int, said: str) -> None:
    assert said in sentence(result(Verdict(verdict), look=look, looks=4))
    assert "look" not in sentence(result(Verdict(verdict)))


def of_sizes(leaks_from: int | None, **more: Any) -> CellResult:
    """Return a cell of a game that was seen in three sizes."""
    rows = tuple(
        SimpleNamespace(release_size=size, leaks_from=leaks_from) for size in (8000, 2000, 500)
    )
    return result(judge_cell(0.01 if leaks_from else 0.5, None), sizes=rows, copies=None, **more)


@pytest.mark.parametrize(
    ("leaks_from", "expected"),
    [
        (None, "Nothing was found in up to 8,000 texts."),
        (8000, "Nothing was found up to 2,000 texts; with 8,000 the records can be recognised."),
        (500, "A leak shows in 500 texts already, the fewest that were looked at."),
    ],
)
def test_sentence_on_sizes(leaks_from: int | None, expected: str) -> None:
    assert size_line(of_sizes(leaks_from)) == expected


def test_one_size_has_no_sentence() -> None:
    assert size_line(result(judge_cell(0.01, None))) is None


@pytest.mark.parametrize(
    ("pooled", "expected"),
    [
        ((0.50, 0.51), "of 800 texts gains nothing that shows: AUC 0.50 (chance limit 0.52)."),
        ((0.60, 0.70), "of 800 texts reaches AUC 0.60 (chance limit 0.52)."),
        (
            (0.50, 0.60),
            "of 800 texts, and releases that its generator made from other records, reaches AUC"
            " 0.60 (chance limit 0.52).",
        ),
    ],
)
def test_sentence_on_a_single_release(pooled: tuple[float, float], expected: str) -> None:
    rows = [
        SimpleNamespace(scenario=name, pooled_auc=auc, null_pooled95=0.52, release_size=800)
        for name, auc in zip(("S1", "S3"), pooled, strict=True)
    ]
    said = one_release_line(cast(CellResult, SimpleNamespace(rows=rows, given=False)))
    assert said == f"An attacker who sees a single release {expected}"
