"""Large observations and many targets: the same values as from whole tables."""

from __future__ import annotations

from itertools import groupby
from types import SimpleNamespace

import numpy as np
import pytest

from synthleak.audit.steps import observations
from synthleak.audit.steps.observations import Look, ObservationUnit, Observed, look_at
from synthleak.core.seeds import stream
from synthleak.corpus.readers.demo import Demo
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence import Observation, Targets, observation
from synthleak.evidence.fast import nearest, retrieval, words
from synthleak.evidence.fast.nearest import OutlierFactor, fit_factor
from synthleak.evidence.fast.retrieval import first_ranked, retrieve
from synthleak.evidence.models.coverage import Coverage
from synthleak.evidence.models.style import Style
from synthleak.evidence.prior.canary import Canary
from synthleak.evidence.table import chosen_families, look

TEXTS = [record.text for record in Demo(size=260, seed=4).read()]
ENCODE = Hashing().encode


RELEASES = {
    "plain": TEXTS[60:],
    "duplicates": [*TEXTS[60:], *TEXTS[60:64], *[TEXTS[70]] * 40, *TEXTS[:5]],
    "blank texts": [*TEXTS[60:], "", "", " ", "!"],
    "one text": [TEXTS[3]] * 80,
    "blank texts only": [""] * 60,
    "form letters": [f"{' '.join(TEXTS[:9])} {TEXTS[60 + n]}" for n in range(120)],
    "nothing in common": [f"zq{n} xv{n % 7}" for n in range(90)],
}


@pytest.mark.parametrize("name", RELEASES)
def test_every_proxy_sees_the_same_in_a_large_observation(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = [*TEXTS[:60], "", TEXTS[70]]

    def values() -> dict[str, np.ndarray]:
        targets, seen = Targets(asked, ENCODE), Observation(RELEASES[name], ENCODE)
        found = {member.name: look(member, targets, seen) for member in chosen_families("all")}
        found |= {family.kind: family.count(targets, seen) for family in (Coverage(), Style())}
        return found | {"canary": Canary(neighbours=25).look(targets, seen, None)}

    whole = values()
    monkeypatch.setattr(observation, "LARGE", 50)
    monkeypatch.setattr(nearest, "TILE", 40)
    monkeypatch.setattr(nearest, "CHUNK", 50)
    monkeypatch.setattr(retrieval, "TILE", 60)
    monkeypatch.setattr(retrieval, "_WAITING", 500)
    monkeypatch.setattr(words, "CHUNK", 30)
    monkeypatch.setattr(words, "ROWS", 20)
    for title, found in values().items():
        # Distances within a small release come from a product, which equal texts leave at 1e-8.
        off = 1e-7 if title == "anomaly" else 1e-12
        if (name, title) == ("nothing in common", "anomaly"):
            # Many texts are equally far: which of them is the 20th neighbour is left open.
            assert np.allclose(found[:, 0], whole[title][:, 0], rtol=off)
            continue
        assert np.allclose(found, whole[title], rtol=off, atol=off), title


def test_candidates_of_a_large_observation_are_those_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for released in RELEASES.values():
        targets, seen = Targets(TEXTS[:60], ENCODE), Observation(released, ENCODE)
        whole = retrieve(targets, seen)
        with monkeypatch.context() as patch:
            patch.setattr(observation, "LARGE", 50)
            patch.setattr(retrieval, "TILE", 60)
            targets, seen = Targets(TEXTS[:60], ENCODE), Observation(released, ENCODE)
            found = retrieve(targets, seen)
        assert np.array_equal(found.rows, whole.rows)
        assert np.array_equal(found.scores, whole.scores)
        texts = [[found.texts.texts[place] for place in row] for row in found.places]
        assert texts == [[seen.texts[row] for row in line] for line in whole.rows]


def compared_with_sample(vectors: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, OutlierFactor]:
    """Return hubness and outlier factor, every text compared with those of the sample in a loop."""
    hubness, near, apart = [], [], []
    for row, own in enumerate(vectors):
        others = [other for other in rows if other != row]
        scale = [np.linalg.norm(own) * np.linalg.norm(vectors[other]) for other in others]
        cosines = [
            own @ vectors[other] / by if by else 0.0
            for other, by in zip(others, scale, strict=True)
        ]
        distances = np.array([np.linalg.norm(own - vectors[other]) for other in others])
        hubness.append(np.mean(sorted(cosines)[-10:]))
        first = np.argsort(distances, kind="stable")[:20]
        near.append([others[place] for place in first])
        apart.append(distances[first])
    return np.array(hubness), fit_factor(np.array(apart), np.array(near))


def some_vectors(kind: str) -> np.ndarray:
    vectors = stream("within", kind).normal(size=(230, 6)).astype(np.float32)
    if kind == "of many lengths":
        vectors *= np.exp(stream("lengths").normal(size=(230, 1)) * 2).astype(np.float32)
    elif kind == "repeated":
        vectors[50:110] = vectors[0]
        vectors[150:160] = vectors[20:30]
    elif kind == "zero":
        vectors[10:40] = 0
    elif kind == "alike":
        vectors = 1 + vectors * np.float32(1e-4)
    elif kind == "all repeated":
        vectors = np.repeat(vectors[:10], 23, axis=0)
    return vectors


KINDS = ("plain", "of many lengths", "repeated", "zero", "alike", "all repeated")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at_once", [7, 1000])
def test_texts_of_a_large_observation_meet_its_sample(
    kind: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = some_vectors(kind)
    monkeypatch.setattr(observation, "LARGE", 60)
    monkeypatch.setattr(nearest, "SAMPLE", 60)
    monkeypatch.setattr(nearest, "_ROWS", at_once)
    monkeypatch.setattr(nearest, "CHUNK", at_once)
    seen = Observation([f"{number:03}" for number in range(len(vectors))], lambda texts: vectors)
    rows = nearest.sample_rows(seen)
    assert len(rows) == len(set(rows.tolist())) == 60
    hubness, factor = compared_with_sample(vectors.astype(np.float64), rows)
    drawn = Observation([f"{number:03}" for number in range(60)], lambda texts: vectors[rows])
    with monkeypatch.context() as patch:
        patch.setattr(observation, "LARGE", 100)
        expected = nearest.within(drawn)
    known = nearest.within(seen)
    assert known.cosine_radius == pytest.approx(expected.cosine_radius, rel=1e-6, abs=1e-12)
    assert known.distance_radius == pytest.approx(expected.distance_radius, rel=1e-6, abs=1e-12)
    assert np.allclose(known.hubness, hubness, atol=1e-9)
    # Distances come from products, which leave equal vectors 1e-7 of their length apart.
    close = 3e-7 * np.linalg.norm(vectors, axis=1).max()
    assert np.allclose(known.factor.reach, factor.reach, atol=close)
    assert np.allclose(1 / known.factor.density, 1 / factor.density, atol=close)


def test_a_sample_is_drawn_by_content_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observation, "LARGE", 60)
    monkeypatch.setattr(nearest, "SAMPLE", 60)
    first = Observation(TEXTS, ENCODE)
    turned = Observation(TEXTS[::-1], ENCODE)
    other = Observation([*TEXTS, "one more"], ENCODE)
    rows = [nearest.sample_rows(seen).tolist() for seen in (first, turned, other)]
    assert rows[0] == rows[1] != rows[2]


def test_the_best_are_those_of_sorting() -> None:
    values = stream("best").normal(size=(20, 300)).round(1)
    best = nearest._Best(20, 7)
    for start in (0, 5, 120, 240):
        end = {0: 5, 5: 120, 120: 240, 240: 300}[start]
        best.admit(values[:, start:end], start)
    assert np.array_equal(np.sort(best.values, 1), np.sort(values, 1)[:, -7:])
    assert np.array_equal(np.take_along_axis(values, best.places, 1), best.values)


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


def test_first_ranked_is_the_start_of_a_stable_sort() -> None:
    rng = stream("ranked")
    for count in (1, 5, 50, 80):
        values = rng.integers(0, 6, size=60).astype(float)
        expected = np.argsort(values, kind="stable")[:count]
        assert first_ranked(values, count).tolist() == expected.tolist()


def test_word_tables_of_a_block_are_dropped_before_vectors_are_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    members, blocks = chosen_families("all"), SimpleNamespace(blocks=lambda: [None, None])
    monkeypatch.setattr(observations, "targets_in", lambda setup, pool: blocks)
    monkeypatch.setattr(observations, "last_observation", lambda setup, pool, seen: None)
    monkeypatch.setattr(observations, "evidence_keys", lambda *_: [(m, m.name) for m in members])
    monkeypatch.setattr(observations, "look", lambda member, *_, **__: done.append(member.view))
    monkeypatch.setattr(observations, "put_evidence", lambda *_: None)
    monkeypatch.setattr(observations, "put_away", lambda *_: done.append("put away"))
    names = tuple(member.name for member in members)
    unit = ObservationUnit(Observed("key"), (Look("pool", names, block=1),))
    look_at(SimpleNamespace(store=None), unit)
    assert [key for key, _ in groupby(done)] == ["lexical", "put away", "embedding", "put away"]
