"""Analyses: rows of their own kind, counted by hand on small tables."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from synthleak.analyses.analysis import Analysis, Study, analysis
from synthleak.analyses.views import ViewRow, views
from synthleak.errors import ContractError
from synthleak.testing import check_analysis, tiny_study


def test_views_are_counted_by_generator_and_scenario() -> None:
    first, *rest = tiny_study().cells
    study = Study((replace(first, view="embedding"), *rest), ())
    assert views(study) == [
        ViewRow("x", "S1", cells=2, lexical=1, embedding=1),
        ViewRow("x", "S2", cells=2, lexical=0, embedding=2),
    ]
    assert views(Study((), ())) == []


@dataclass(frozen=True)
class Pair:
    """Two values."""

    name: str
    value: object


def test_a_broken_analysis_is_refused_with_a_reason() -> None:
    with pytest.raises(ContractError, match="gave int, not Pair"):
        check_analysis(Analysis("bad", 1, Pair, lambda study: [1]))
    with pytest.raises(ContractError, match="value is a list: a table holds words and numbers"):
        check_analysis(Analysis("bad", 1, Pair, lambda study: [Pair("a", [1])]))
    seen: list[int] = []

    def moody(study: Study) -> list[Pair]:
        seen.append(1)
        return [Pair("a", len(seen))]

    with pytest.raises(ContractError):
        check_analysis(Analysis("bad", 1, Pair, moody))


def test_names_of_tables_are_taken_and_rows_are_dataclasses() -> None:
    with pytest.raises(ContractError, match="a table has that name"):
        analysis("cells", version=1, row=Pair)(lambda study: [])
    with pytest.raises(ContractError, match="no dataclass"):
        analysis("mine", version=1, row=int)(lambda study: [])  # type: ignore[arg-type]
