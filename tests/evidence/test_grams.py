"""Names of grams, runs and substrings, against sets of strings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.oracles.evidence_lexical import folded, grams, substring_length
from synthleak.evidence import Observation, Targets
from synthleak.evidence.family import read_vectors
from synthleak.evidence.fast.grams import (
    Naming,
    distinct_grams,
    longest_substrings,
    shared_grams,
    target_grams,
    text_grams,
)
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.fast.words import presence, ragged

# Few letters, so that long substrings repeat; and spaces, which fold.
TEXT = st.text(alphabet="ab ", max_size=60)
WIDE = "".join(chr(0x4E00 + number) for number in range(6500))


@settings(max_examples=150, deadline=None)
@given(st.lists(TEXT, min_size=1, max_size=5), st.lists(TEXT, min_size=1, max_size=8))
def test_substrings_and_shared_grams_are_exact(asked, texts) -> None:
    targets, observation = Targets(asked, read_vectors), Observation(texts, read_vectors)
    rows = retrieve(targets, observation).rows
    lengths, shared = longest_substrings(targets, observation), shared_grams(targets, observation)
    for target, text in enumerate(asked):
        for place, row in enumerate(rows[target].tolist()):
            other = observation.texts[row]
            assert lengths[target, place] == substring_length(folded(text), folded(other))
            assert shared[target, place] == len(grams(text) & grams(other))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=30), min_size=1, max_size=6))
def test_different_grams_are_counted_exactly(texts) -> None:
    observation = Observation(texts, read_vectors)
    assert distinct_grams(observation).tolist() == [len(grams(t)) for t in observation.texts]


def test_wide_alphabets_are_exact() -> None:
    texts = [WIDE[:40], WIDE[20:60] + "x", WIDE, "plain"]
    targets, observation = (
        Targets([WIDE, "plain x"], read_vectors),
        Observation(texts, read_vectors),
    )
    assert distinct_grams(observation).tolist() == [len(grams(t)) for t in observation.texts]
    rows, shared = retrieve(targets, observation).rows, shared_grams(targets, observation)
    for target, text in enumerate(targets.texts):
        for place, row in enumerate(rows[target].tolist()):
            assert shared[target, place] == len(grams(text) & grams(observation.texts[row]))


def test_longer_grams_are_found_only_when_needed() -> None:
    text = "the quick brown fox jumps over the lazy dog and runs"
    targets, observation = Targets([text], read_vectors), Observation([text], read_vectors)
    levels = iter(text_grams(targets, observation))
    assert [size for size, _ in levels] == [5, 10, 20, 40]
    assert sorted(target_grams(targets).of_targets) == [5, 10, 20, 40]
    again = [size for size, _ in text_grams(targets, observation)]
    assert again == [5, 10, 20, 40]


def test_names_are_those_of_a_dictionary() -> None:
    rng = np.random.default_rng(1)
    left, right = rng.integers(0, 300, 5000), rng.integers(0, 300, 5000)
    naming = Naming(left, right, span=300)
    known = {(a, b) for a, b in zip(left.tolist(), right.tolist(), strict=True) if a and b}
    asked = rng.integers(0, 300, (2, 9000))
    names = naming(*asked)
    pairs = list(map(tuple, asked.T.tolist()))
    assert [bool(name) for name in names] == [pair in known for pair in pairs]
    by_pair = {pair: name for pair, name in zip(pairs, names.tolist(), strict=True) if name}
    assert len(set(by_pair.values())) == len(by_pair)
    assert Naming(left[:0], right[:0], span=1)(left, right).tolist() == [0] * 5000


def test_rows_can_be_taken_in_any_order_and_twice() -> None:
    rows = ragged([[5, 6], [], [7]])
    values, owners = rows.take([2, 0, 1, 2])
    assert (values.tolist(), owners.tolist()) == ([7, 5, 6, 7], [0, 1, 1, 3])
    assert rows.keep(rows.values != 6).starts.tolist() == [0, 1, 1, 2]
    assert presence(np.array([], dtype=np.int64), rows, [0, 1]).shape == (2, 0)


@pytest.mark.parametrize("size", [1, 4, 5, 6, 11])
def test_a_looping_text_is_settled_exactly(size: int) -> None:
    targets = Targets(["ab" * 700 + "c", "a" * 999], read_vectors)
    observation = Observation(["ba" * size, "a" * size, "cab" * size], read_vectors)
    rows, lengths = retrieve(targets, observation).rows, longest_substrings(targets, observation)
    for target, text in enumerate(targets.folded):
        expected = [substring_length(text, observation.folded[row]) for row in rows[target]]
        assert lengths[target].tolist() == expected
