"""Large observations and many targets: the same values as from whole tables."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.seeds import stream
from synthleak.corpus.readers.demo import Demo
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence import observation
from synthleak.evidence.fast import neighbours
from synthleak.evidence.fast.neighbours import nearest_distance
from synthleak.evidence.fast.release_neighbours import first_of_kind, release_statistics
from synthleak.evidence.fast.retrieval import first_ranked
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.table import chosen_families, look

TEXTS = [record.text for record in Demo(size=260, seed=4).read()]
ENCODE = Hashing().encode


def test_every_proxy_sees_the_same_in_a_large_observation(monkeypatch: pytest.MonkeyPatch) -> None:
    released = [*TEXTS[60:], *TEXTS[60:64], *TEXTS[:5]]

    def values() -> np.ndarray:
        targets, seen = Targets(TEXTS[:60], ENCODE), Observation(released, ENCODE)
        return np.hstack([look(member, targets, seen) for member in chosen_families("all")])

    whole = values()
    monkeypatch.setattr(neighbours, "LARGE", 50)
    monkeypatch.setattr("synthleak.evidence.fast.release_neighbours.CELLS", 1000)
    assert np.allclose(values(), whole, rtol=1e-9, atol=1e-9)


def test_blocks_of_targets_give_equal_values(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(observation, "BLOCK", 16)
    targets = Targets(TEXTS[:60], ENCODE, TEXTS[:20])
    blocks = targets.blocks()
    assert [len(block) for block in blocks] == [16, 16, 16, 12]
    assert all(block.auxiliary is targets.auxiliary for block in blocks)
    seen = Observation(TEXTS[60:], ENCODE)
    for member in chosen_families("all"):
        parts = np.concatenate([look(member, block, seen) for block in blocks])
        assert np.allclose(parts, look(member, targets, seen), rtol=1e-9, atol=1e-12)


def test_few_targets_are_one_block() -> None:
    targets = Targets(TEXTS[:60], ENCODE)
    assert targets.blocks() == [targets]


def test_what_was_forgotten_is_made_again() -> None:
    targets, seen = Targets(TEXTS[:9], ENCODE), Observation(TEXTS[60:], ENCODE)
    member = chosen_families("all")[0]
    before = look(member, targets, seen)
    targets.forget()
    seen.forget_targets()
    assert np.array_equal(look(member, targets, seen), before)


def test_first_of_kind_is_that_of_all_pairs() -> None:
    rng = stream("kinds")
    vectors = rng.normal(size=(120, 6))
    vectors[50:70] = vectors[10:30]
    vectors[90] = vectors[3] + 1e-9
    expected = [
        not any(np.linalg.norm(vectors[i] - vectors[j]) <= 1e-6 for j in range(i))
        for i in range(len(vectors))
    ]
    assert first_of_kind(vectors, 1e-6).tolist() == expected


def test_a_release_of_one_text_has_no_radius() -> None:
    same = np.ones((30, 4))
    made = release_statistics(same / 2, same, 1e-5, cells=60)
    assert (made.cosine_radius, made.distance_radius) == (0.0, 0.0)


def test_first_ranked_is_the_start_of_a_stable_sort() -> None:
    rng = stream("ranked")
    for count in (1, 5, 50, 80):
        values = rng.integers(0, 6, size=60).astype(float)
        expected = np.argsort(values, kind="stable")[:count]
        assert first_ranked(values, count).tolist() == expected.tolist()


def test_the_nearest_distance_is_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = stream("nearest")
    points, others = rng.normal(size=(20, 5)), rng.normal(size=(90, 5))
    others[7] = points[3]
    whole = nearest_distance(points, others)
    monkeypatch.setattr(neighbours, "LARGE", 50)
    assert np.array_equal(nearest_distance(points, others), whole)
    assert whole[3] == 0
