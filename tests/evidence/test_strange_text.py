"""Strange text does not break a proxy: every value stays finite, whatever is looked at."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
import pytest

from synthleak.encoders import Vectors
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence import Family, Observation, Targets, families
from synthleak.evidence.table import look

FAMILIES = [entry.plugin for entry in families]
ENCODE = Hashing(dimensions=24).encode

TEXTS = {
    "empty": "",
    "white": " \n\t ",
    "letter": "a",
    "word": "hello",
    "punctuation": "?!... --- ;",
    "emoji": "👩‍⚕️ said 😀😀 👍🏽",
    "chinese": "病人昨晚头痛服药后好转没有其他不适",
    "chinese twice": "病人昨晚头痛服药后好转没有其他不适" * 40,
    "right to left": "المريض يعاني من صداع شديد",
    "null": "a\x00b\x00c\x00d\x00e",
    "lone surrogate": "broken \ud83d text",
    "combining": "é" * 9,
    "one letter for ever": "z" * 5000,
    "a loop": "no no yes " * 600,
    "usual": "Took 40 mg on 3/4, Dr Olsen said www.x.org.",
    "usual again": "Took 40 mg on 3/4, Dr Olsen said www.x.org.",
    "nearly": "took  40 MG on 3/4, dr olsen said www.x.org.",
    "long": " ".join(f"word{number % 4999}" for number in range(20_000)),
}
OBSERVATIONS = {
    "nothing at all": [],
    "one record": ["Took 40 mg on 3/4"],
    "one empty record": [""],
    "two": ["Took 40 mg", "hello there"],
    "fewer than k": ["Took 40 mg", "hello", "a red fox", "", "病人昨晚头痛", "😀", "a\x00b"],
    "all the same": ["Took 40 mg on 3/4"] * 60,
    "all empty": [""] * 30,
    "the targets themselves": list(TEXTS.values()),
    "many duplicates": ["a red fox", "a dog", "took 40 mg"] * 25,
}


@pytest.fixture(scope="module")
def targets() -> Targets:
    return Targets(list(TEXTS.values()), ENCODE)


@pytest.mark.parametrize("member", FAMILIES, ids=lambda member: member.name)
@pytest.mark.parametrize("kind", OBSERVATIONS)
def test_every_value_is_finite(kind: str, member: Family, targets: Targets) -> None:
    started = time.process_time()
    values = look(member, targets, Observation(OBSERVATIONS[kind], ENCODE))
    assert values.shape == (len(TEXTS), len(member.proxies))
    assert np.isfinite(values).all()
    assert time.process_time() - started < 20  # a long or looping text takes no quadratic time


@pytest.mark.parametrize("member", FAMILIES, ids=lambda member: member.name)
def test_equal_targets_have_equal_values(member: Family, targets: Targets) -> None:
    values = look(member, targets, Observation(OBSERVATIONS["fewer than k"], ENCODE))
    first, second = list(TEXTS).index("usual"), list(TEXTS).index("usual again")
    assert values[first].tolist() == values[second].tolist()


@pytest.mark.parametrize("constant", [0.0, 1.0, -3.0])
@pytest.mark.parametrize("count", [1, 2, 3, 25, 300])
def test_constant_embeddings_give_finite_values(constant: float, count: int) -> None:
    def encode(texts: Sequence[str]) -> Vectors:
        return np.full((len(texts), 12), constant, dtype=np.float32)

    observation = Observation([f"text {number}" for number in range(count)], encode)
    for member in FAMILIES:
        if member.view == "embedding":
            values = look(member, Targets(["x", "y"], encode), observation)
            assert np.isfinite(values).all()
            assert values[0].tolist() == values[1].tolist()


def test_distance_from_a_constant_release_lowers_values() -> None:
    def encode(texts: Sequence[str]) -> Vectors:
        rows = [[0.0, 2.0, 0.0] if text == "away" else [1.0, 0.0, 1.0] for text in texts]
        return np.array(rows, dtype=np.float32)

    observation = Observation([f"text {number}" for number in range(30)], encode)
    for member in FAMILIES:
        if member.view == "embedding":
            there, away = look(member, Targets(["there", "away"], encode), observation)
            assert (there >= away).all()
            assert (there > away).any() or member.name == "isolation"


def test_empty_release_is_one_empty_text() -> None:
    assert Observation([], ENCODE).texts == ("",)
    asked = Targets(["a red fox", ""], ENCODE)
    for member in FAMILIES:
        nothing = look(member, asked, Observation([], ENCODE))
        assert nothing.tolist() == look(member, asked, Observation([""], ENCODE)).tolist()
