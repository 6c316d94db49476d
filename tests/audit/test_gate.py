"""The gate of a pipeline: a condition on columns, read before any work is done."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from synthleak.analyses.cells import CellRow
from synthleak.audit.gate import failing, parse_gate
from synthleak.core.errors import UserError


def row(**values: Any) -> CellRow:
    blank = {f.name: None if "None" in str(f.type) else "" for f in fields(CellRow)}
    return CellRow(**{**blank, "auc": 0.6, "epsilon": 1.0, **values})  # type: ignore[arg-type]


def test_rows_that_satisfy_the_condition_fail() -> None:
    gate = parse_gate("p_holm < 0.01 and crossfit_tpr > 0.1")
    leaking = row(p_holm=0.004, crossfit_tpr=0.4)
    assert failing(gate, [leaking, row(p_holm=0.2, crossfit_tpr=0.4)]) == [leaking]


def test_what_is_not_known_satisfies_nothing() -> None:
    assert failing(parse_gate("p_holm < 0.01"), [row()]) == []
    assert failing(parse_gate("verdict == 'leak found'"), [row(verdict="leak found")])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("p_hol < 0.01", "no column 'p_hol'; did you mean 'p_holm'"),
        ("p_holm <", "a value is missing at the end"),
        ("__import__('os')", "no column '__import__'|not understood"),
        ("1 < 2", "names no column"),
    ],
)
def test_a_mistake_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        parse_gate(text)
    assert error.value.where == "--fail-if"
