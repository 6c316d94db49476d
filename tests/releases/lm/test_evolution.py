"""Aug-PE's votes and survivors against a plain loop, and what one record can move."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthleak.encoders.builtin.hashing import Hashing
from synthleak.releases.lm.evolution import TextVectors
from synthleak.releases.lm.votes import (
    Population,
    count_votes,
    histogram,
    noised,
    ranked,
    survivors,
)

NAMES = (("a",), ("b",), ())
Point = tuple[tuple[str, ...], tuple[float, float]]
points = st.lists(
    st.tuples(
        st.sampled_from(NAMES),
        st.tuples(st.integers(-4, 4).map(float), st.integers(-4, 4).map(float)),
    ),
    max_size=9,
)


def population(items: list[Point]) -> Population:
    vectors = np.array([vector for _, vector in items], dtype=np.float32).reshape(-1, 2)
    return Population(
        tuple(labels for labels, _ in items), tuple(f"t{n}" for n in range(len(items))), vectors
    )


def by_class(records: list[Point]) -> dict[tuple[str, ...], np.ndarray]:
    return {
        name: np.array([v for labels, v in records if labels == name], dtype=np.float32)
        for name in {labels for labels, _ in records}
    }


def slow_histogram(items: list[Point], records: list[Point]) -> list[int]:
    counts = [0] * len(items)
    for labels, (x, y) in records:
        best, least = None, None
        for number, (own, (u, v)) in enumerate(items):
            apart = (x - u) ** 2 + (y - v) ** 2
            if own == labels and (least is None or apart < least):
                best, least = number, apart
        if best is not None:
            counts[best] += 1
    return counts


@settings(max_examples=150, deadline=None)
@given(points, points)
def test_the_histogram_equals_a_plain_loop(items: list[Point], records: list[Point]) -> None:
    found = histogram(population(items), by_class(records))
    assert found.tolist() == slow_histogram(items, records)


@settings(max_examples=80, deadline=None)
@given(points, points.filter(bool), st.data())
def test_one_record_changes_the_histogram_within_sensitivity(
    items: list[Point], records: list[Point], data: st.DataObject
) -> None:
    other = data.draw(points.filter(bool))[0]
    whole = histogram(population(items), by_class(records))
    for out in range(len(records)):
        rest = records[:out] + records[out + 1 :]
        fewer = histogram(population(items), by_class(rest))
        assert np.linalg.norm(whole - fewer) <= 1
        swapped = histogram(population(items), by_class([*rest, other]))
        assert np.linalg.norm(whole - swapped) <= np.sqrt(2) + 1e-12


def test_removing_a_record_moves_no_other_vote() -> None:
    moved = 0.0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        parents = rng.normal(size=(rng.integers(4, 12), 256)).astype(np.float32)
        texts = parents[rng.integers(len(parents), size=46)]
        records = parents[rng.integers(len(parents), size=rng.integers(2, 40))]
        records = records + np.float32(0.1) * rng.normal(size=records.shape).astype(np.float32)
        whole = count_votes(records, texts)
        first = [np.flatnonzero((texts == text).all(axis=1))[0] for text in texts]
        nearest = [first[int(((texts - record) ** 2).sum(axis=1).argmin())] for record in records]
        assert whole.tolist() == np.bincount(nearest, minlength=len(texts)).tolist()
        for out in range(len(records)):
            fewer = count_votes(np.delete(records, out, axis=0), texts)
            moved = max(moved, float(np.linalg.norm(whole - fewer)))
    assert moved == 1


def test_the_bounds_are_reached() -> None:
    items: list[Point] = [(("a",), (0.0, 0.0)), (("a",), (4.0, 0.0))]
    near, far = (("a",), (0.0, 1.0)), (("a",), (4.0, 1.0))
    one = histogram(population(items), by_class([near]))
    two = histogram(population(items), by_class([far]))
    assert np.linalg.norm(one) == 1
    assert np.linalg.norm(one - two) == pytest.approx(np.sqrt(2))


def test_every_bin_gets_noise_and_negatives_are_cut() -> None:
    counts = np.full(40_000, 100.0)
    made = noised(counts, 7.0, np.random.default_rng(1))
    assert made.std() == pytest.approx(7.0, rel=0.02)
    assert made.mean() == pytest.approx(100.0, abs=0.2)
    empty = noised(np.zeros(40_000), 7.0, np.random.default_rng(2))
    assert empty.min() == 0
    assert (empty > 0).mean() == pytest.approx(0.5, abs=0.02)
    assert noised(counts, 0.0, np.random.default_rng(1)).tolist() == counts.tolist()


def test_survivors_are_the_best_of_each_class() -> None:
    items: list[Point] = [(("a",), (float(n), 0.0)) for n in range(6)]
    items += [(("b",), (float(n), 0.0)) for n in range(4)]
    records: list[Point] = [(("a",), (3.0, 0.0))] * 3 + [(("a",), (1.0, 0.0))] * 2
    people = population(items)
    counts = histogram(people, by_class(records))
    chosen = Counter[int]()
    for seed in range(60):
        going = survivors(people, counts, {("a",): 2, ("b",): 2}, np.random.default_rng(seed))
        assert going[:2] == [3, 1]
        assert len(going) == 4
        assert set(going[2:]) <= {6, 7, 8, 9}
        chosen.update(going[2:])
    # Nobody voted in class b: which of its texts go on is uniforms, not their order.
    assert min(chosen[place] for place in (6, 7, 8, 9)) > 10


def test_ties_are_broken_at_random_and_order_follows_votes() -> None:
    counts = np.array([1.0, 5.0, 1.0, 0.0])
    orders = {tuple(ranked(counts, np.random.default_rng(seed))) for seed in range(20)}
    assert orders == {(1, 0, 2, 3), (1, 2, 0, 3)}


def test_nobody_votes_where_there_is_no_record() -> None:
    texts = np.zeros((3, 2), dtype=np.float32)
    assert count_votes(np.zeros((0, 2), dtype=np.float32), texts).tolist() == [0, 0, 0]


@pytest.mark.parametrize("cheap", [True, False])
def test_vectors_are_those_of_all_texts_at_once(
    cheap: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    encode = Hashing.encode

    def counted(self: Hashing, texts: list[str]) -> np.ndarray:
        asked.append(list(texts))
        return encode(self, texts)

    monkeypatch.setattr(Hashing, "encode", counted)
    monkeypatch.setattr(Hashing, "cheap", cheap)
    encoder = Hashing()
    vectors = TextVectors(encoder)
    vectors.written(["a cat", "a dog", "a cat"])
    vectors.written(["a dog", "a bird"])
    assert asked == ([["a cat", "a dog"], ["a bird"]] if cheap else [])
    texts = ["a bird", "a fish", "a cat", "a bird"]
    made = vectors.of(texts)
    assert asked[-1] == (["a fish"] if cheap else ["a bird", "a fish", "a cat"])
    assert np.array_equal(made, encode(encoder, texts))
    assert TextVectors(encoder).of([]).shape == (0, made.shape[1])
