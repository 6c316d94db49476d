"""The sentence on a cell: what decided it, what an attacker gains, what would be missed."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from synthleak.core.verdict import CANNOT_SAY, FOUND, NONE_FOUND, Verdict
from synthleak.metrics.estimate import Estimate
from synthleak.report.results import CellResult
from synthleak.report.verdict import details, sentence

FITTED = Estimate(value=0.71, low=0.6, high=0.8, null=0.57, n=9, method="")


def result(verdict: Verdict, **more: Any) -> CellResult:
    row = SimpleNamespace(
        deciding_value=0.71,
        deciding_statistic="auc",
        deciding_proxy="containment_max",
        deciding_scenario="S1",
        deciding_ceiling=0.62,
    )
    facts = {"deployable": FITTED, "power": 0.66, "rows": [row], "counted": False} | more
    return cast(CellResult, SimpleNamespace(verdict=verdict, **facts))


REACHES = "an attacker who fixed the method in advance reaches AUC 0.71"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            result(Verdict(FOUND)),
            "decided by AUC of containment_max in S1 (0.71, chance limit 0.62);"
            f" {REACHES} (0.60 to 0.80; chance limit 0.57)",
        ),
        (
            result(Verdict(NONE_FOUND)),
            "a single signal's AUC below 0.66 would often be missed;"
            f" {REACHES} (0.60 to 0.80; chance limit 0.57)",
        ),
        (
            result(Verdict(NONE_FOUND), power=None, deployable=None),
            "what would be missed is unknown",
        ),
        (result(Verdict(CANNOT_SAY, "too few trials")), ""),
    ],
)
def test_details_of_each_kind_of_verdict(made: CellResult, expected: str) -> None:
    assert details(made) == expected
    assert sentence(made) == f"{made.verdict}: {expected}".removesuffix(": ")


def test_add_remove_is_said_where_a_leak_was_found() -> None:
    assert "number of records" in details(result(Verdict(FOUND), counted=True))
    assert "number of records" not in details(result(Verdict(NONE_FOUND), counted=True))
