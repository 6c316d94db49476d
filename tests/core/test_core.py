"""Errors, keys, seeds, text: what every package uses."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from synthleak.core import errors
from synthleak.core.seeds import derive, digest, plain, stream
from synthleak.core.text import char_grams, entities, fold, tokens


def test_an_error_is_one_line_and_survives_a_worker() -> None:
    error = errors.PlanError("600 records\nwanted", "game.records", "use at most 300")
    assert str(error) == "game.records: 600 records wanted; use at most 300"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert isinstance(error, errors.UserError)


def test_golden_keys_never_change() -> None:
    # A changed key would orphan every artefact that people have made.
    assert digest("pool", {"rule": "outlier", "percentile": 99.0}) == (
        "b7b31f7d439d877d4316c3893a50a21f"
    )
    assert digest("x", [1, 2.5, None, True, float("inf")]) == "ba6fcf187f2377585b4e3b50158d0de4"
    assert derive(7, "plan", "outlier") == 586745691498512967


def test_keys_tell_order_type_and_nesting_apart() -> None:
    keys = {
        digest(*parts)
        for parts in [(1, 2), (2, 1), ("1", "2"), ((1, 2),), (1.0, 2), ({"a": 1},), (["a", 1],)]
    }
    assert len(keys) == 7
    with pytest.raises(TypeError):
        digest(object())
    with pytest.raises(ValueError, match="NaN"):
        digest(float("nan"))


def test_plain_reads_numpy_as_python() -> None:
    assert plain({"a": np.float32(0.5), "b": np.array([1, 2])}) == {"a": 0.5, "b": [1, 2]}


def test_streams_are_named_and_apart() -> None:
    one = stream(1, "a").random(4)
    assert np.array_equal(one, stream(1, "a").random(4))
    assert not np.array_equal(one, stream(1, "b").random(4))
    assert not np.array_equal(one, stream(2, "a").random(4))
    assert derive("a", "b") != derive("ab") != derive("a,b")


@given(st.text())
def test_folding_is_idempotent_and_blind_to_space(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert fold(f"  {text}\n") == fold(text)


@given(st.text(max_size=40))
def test_every_gram_occurs_in_the_folded_text(text: str) -> None:
    grams = char_grams(text)
    assert all(gram in fold(text) for gram in grams)
    assert len(grams) <= max(len(fold(text)), 1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("Call 555-0142 or mail a.b@c.org", ["555-0142", "a.b@c.org"]),
        ("NASA and Dr Olsen met. They left.", ["nasa", "dr olsen"]),
        ("We saw Bo. Then Maria Lund came.", ["bo", "maria lund"]),
        ("Then Maria came. Case B12-7!", ["maria", "b12-7"]),
        ("no entity here", []),
    ],
)
def test_entities(text: str, expected: list[str]) -> None:
    assert entities(text) == expected


def test_tokens_are_lower_case_words() -> None:
    assert tokens("Naïve ÉTÉ_1, 你好 x!") == ["naïve", "été_1", "你好", "x"]
