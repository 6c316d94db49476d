"""The gate of a pipeline: a condition on columns, read before any work is done."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from synthleak.analyses.cells import CellRow
from synthleak.audit.gate import clauses, failing, missing, parse_gate, undecided
from synthleak.core.errors import UserError


def row(**values: Any) -> CellRow:
    blank = {f.name: None if "None" in str(f.type) else "" for f in fields(CellRow)}
    return CellRow(**{**blank, "auc": 0.6, "epsilon": 1.0, **values})  # type: ignore[arg-type]


def test_rows_that_satisfy_the_condition_fail() -> None:
    gate = parse_gate("p_holm < 0.01 and crossfit_tpr > 0.1")
    leaking = row(p_holm=0.004, crossfit_tpr=0.4)
    assert failing(gate, [leaking, row(p_holm=0.2, crossfit_tpr=0.4)]) == [leaking]


def test_copies_and_named_records_are_columns() -> None:
    copied = row(copied_members=3, named=45)
    for text in ("copied_members > 0", "named > 40 and copied_p == none"):
        assert failing(parse_gate(text), [copied, row(copied_members=0), row()]) == [copied]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("leak_found or copied_p <= 0.05", "copied_p = 0.0031 <= 0.05"),
        ("copied_members > 0", "copied_members = 3 > 0"),
        ("leak_found == none or 0.05 >= copied_p", "leak_found == none; 0.05 >= copied_p = 0.0031"),
        ("named > 0 and copied_p < 1 or copied_members in [2, 3]", "copied_members = 3 in [2, 3]"),
        ("not (copied_p > 0.05)", "not ( copied_p > 0.05 )"),
    ],
)
def test_clauses_that_hold_are_told_with_their_values(text: str, said: str) -> None:
    copied = row(copied_members=3, copied_p=0.00312, named=0)
    assert failing(parse_gate(text), [copied]) == [copied]
    assert clauses(parse_gate(text), copied) == said


def test_what_is_not_known_satisfies_nothing() -> None:
    assert failing(parse_gate("p_holm < 0.01"), [row()]) == []


def test_leaks_and_broken_claims_have_names() -> None:
    leak = row(p_holm=0.05, verdict="leak found")
    broken = row(p_holm=0.2, claim_p_holm=0.05, epsilon_claim=1.0, power_auc=0.7)
    quiet = row(p_holm=0.06, claim_p_holm=0.06, epsilon_claim=1.0, power_auc=0.7)
    few = row(p_holm=0.2, cannot_say="too few trials")
    rows = [leak, broken, quiet, row(), few]
    assert failing(parse_gate("leak_found"), rows) == [leak]
    assert failing(parse_gate("leak_found or claim_broken == true"), rows) == [leak, broken]
    assert missing(parse_gate("leak_found or claim_broken"), rows) == {"leak_found": 2}
    assert failing(parse_gate("leak_found == none"), rows) == [row(), few]
    assert undecided(parse_gate("leak_found or claim_broken"), rows) == [row(), few]
    assert undecided(parse_gate("p_holm < 0.01"), rows) == [row(), few]
    assert undecided(parse_gate("claim_broken"), rows) == []


def test_missing_figures_are_counted() -> None:
    rows = [row(p_holm=0.2), row(), row(p_holm=float("nan"))]
    assert missing(parse_gate("p_holm < 0.01 and auc > 0"), rows) == {"p_holm": 2}
    assert failing(parse_gate("p_holm == none"), rows) == [rows[1]]
    assert failing(parse_gate("scenario in ['S1'] or auc >= auc_low"), rows) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p_hol < 0.01", "no column 'p_hol'; did you mean 'p_holm'"),
        ("p_holm <", "a value is missing at the end"),
        ("__import__('os')", "no column '__import__'|not understood"),
        ("1 < 2", "names no column"),
        ("p_holm < '0.01'", "p_holm is a number and '0.01' is a text; compare numbers with"),
        ('"0.01" > p_holm', "'0.01' is a text and p_holm is a number"),
        ("p_holm in [0.01, '0.02']", "p_holm is a number and '0.02' is a text"),
        ("proxy > 0.5", "proxy is a text and 0.5 is a number"),
        ("auc > proxy", "auc is a number and proxy is a text"),
        ("p_holm == true", "p_holm is a number and True is true or false"),
        ("verdict == 'leak found'", "a sentence to be read; write leak_found or claim_broken"),
        ("leak_found > 0.5", "leak_found is true or false and 0.5 is a number"),
        ("scenario == 'x' and not p_holm", "p_holm is a number; compare it: p_holm < number"),
        ("(" * 3000 + "auc > 1" + ")" * 3000, "more than 50 deep"),
        ("not " * 3000 + "auc > 1", "more than 50 deep"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        parse_gate(text)
    assert error.value.where == "--fail-if"
