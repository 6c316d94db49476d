"""Predicates: what they mean, and what is said of a mistake."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthleak.core.predicate import parse_predicate

ROW = {"site": "B", "age": 82, "dose": "7.5", "note": "", "flag": True, "code": "007", "a b": 1}


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("site == 'B'", True),
        ('site = "B"', True),
        ("site != 'B'", False),
        ("age >= 80 and age < 83", True),
        ("age > 82", False),
        ("age == 82.0", True),
        ("dose > 7", True),  # text that reads as a number
        ("dose == '7.50'", False),  # beside a string a cell counts as text
        ("code == '7'", False),
        ("code == 7", True),
        ("site > 5", False),  # not a number, so no comparison with one holds
        ("site in ['A', 'B']", True),
        ("site not in ['A', 'B']", False),
        ("age in [1, 82]", True),
        ("flag", True),
        ("flag == true and not flag == false", True),
        ("note", False),
        ("note == 'x'", False),
        ("note == none", True),
        ("site != none", True),
        ("gone == 1", False),
        ("gone != 1", False),
        ("gone not in [1]", False),
        ("gone == none", True),
        ("`a b` == 1", True),
        ("site == 'A' or site == 'B' and age < 10", False),  # and binds closer than or
        ("(site == 'A' or site == 'B') and age > 10", True),
        ("not site == 'A'", True),
        ("not (site == 'B' or age == 1)", False),
        ("age > -1e3", True),
        ("age < inf", True),
        ("82 == age", True),
        ("code < dose", True),  # two columns: as numbers if both are
    ],
)
def test_meaning(text: str, holds: bool) -> None:
    assert parse_predicate(text)(ROW) is holds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "a value is missing at the end"),
        ("age >=", "a value is missing at the end"),
        ("age >= and site == 'B'", "a value is missing before 'and' at character 8"),
        ("(age > 1", "')' is missing at the end"),
        ("age > 1)", "')' at character 8 is not understood"),
        ("age > 1 site == 'B'", "'site' at character 9 is not understood"),
        ("age ! 1", "'!' at character 5 is not understood"),
        ("site in 'AB'", "'[' is missing at character 9"),
        ("site not 'A'", "'in' is missing at character 10"),
        ("site in ['A'", "']' is missing at the end"),
        ("site == 'B", '"\'" at character 9 is not understood'),
        ("age > 5years", "'5' at character 7 is not understood"),
        ("__import__('os')", "'(' at character 11 is not understood"),
    ],
)
def test_a_mistake_is_pointed_at(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        parse_predicate(text)


def test_names_are_listed_once_in_order() -> None:
    assert parse_predicate("b > 1 and (a or b == 2) and c in [d, 'x']").names == (
        "b",
        "a",
        "c",
        "d",
    )


@given(st.integers(-50, 50), st.integers(-50, 50), st.sampled_from(["<", "<=", "==", "!=", ">="]))
def test_numbers_compare_as_python_does(one: int, two: int, sign: str) -> None:
    expected = {"<": one < two, "<=": one <= two, "==": one == two, "!=": one != two}
    wanted = expected.get(sign, one >= two)
    rows: list[dict[str, Any]] = [{"x": one}, {"x": str(one)}, {"x": float(one)}]
    assert [parse_predicate(f"x {sign} {two}")(row) for row in rows] == [wanted] * 3


@given(st.text(max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        parse_predicate(text)({})
    except ValueError as error:
        assert str(error)
