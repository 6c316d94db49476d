"""Large observations and many targets: the same values as from whole tables."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from synthleak.core.seeds import stream
from synthleak.corpus.readers.demo import Demo
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence import observation
from synthleak.evidence.fast import nearest, neighbours, release_neighbours, retrieval, strips
from synthleak.evidence.fast.extremes import top_mean
from synthleak.evidence.fast.outlier_factor import FittedFactor, factor_of_neighbours
from synthleak.evidence.fast.pairs import (
    Best,
    by_length,
    dot_products,
    lowest_cosine,
    product_error,
    read_by_length,
    sort_by_length,
    sure_bound,
    unit_vectors,
    write_by_length,
)
from synthleak.evidence.fast.release_neighbours import (
    ReleaseStatistics,
    first_of_kind,
    release_statistics,
)
from synthleak.evidence.fast.retrieval import first_ranked, retrieve
from synthleak.evidence.observation import Observation, Targets
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
        return found | {"canary": Canary(neighbours=25).look(targets, seen, None)}

    whole = values()
    monkeypatch.setattr(neighbours, "LARGE", 50)
    monkeypatch.setattr(strips, "STRIP", 45)
    monkeypatch.setattr(nearest, "TILE", 40)
    monkeypatch.setattr(nearest, "_WAITING", 500)
    monkeypatch.setattr(retrieval, "TILE", 60)
    monkeypatch.setattr(retrieval, "_WAITING", 500)
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
            patch.setattr(neighbours, "LARGE", 50)
            patch.setattr(retrieval, "TILE", 60)
            targets, seen = Targets(TEXTS[:60], ENCODE), Observation(released, ENCODE)
            found = retrieve(targets, seen)
        assert np.array_equal(found.rows, whole.rows)
        assert np.array_equal(found.scores, whole.scores)
        texts = [[found.texts.texts[place] for place in row] for row in found.places]
        assert texts == [[seen.texts[row] for row in line] for line in whole.rows]


def compared_by_rows(vectors: np.ndarray, same: float) -> ReleaseStatistics:
    """Compare every text with all others in one table: the slow way."""
    n, k = len(vectors), min(20, len(vectors) - 1)
    lengths = np.linalg.norm(vectors, axis=1)
    scale = np.maximum(np.outer(lengths, lengths), 1e-300)
    cosine = np.clip(vectors @ vectors.T / scale, -1, 1)
    distance = np.linalg.norm(vectors[:, None] - vectors[None], axis=2)
    first = np.array([not (distance[i, :i] <= same * lengths.max()).any() for i in range(n)])
    np.fill_diagonal(cosine, -np.inf)
    np.fill_diagonal(distance, np.inf)
    nearest_cosine = cosine[np.ix_(first, first)].max(axis=1)
    nearest_distance = distance[np.ix_(first, first)].min(axis=1)
    alone = first.sum() < 2
    neighbours = np.argsort(distance, axis=1, kind="stable")[:, :k]
    return ReleaseStatistics(
        cosine_radius=0.0 if alone else float(np.median(1 - nearest_cosine)),
        distance_radius=0.0 if alone else float(np.median(nearest_distance)),
        hubness=top_mean(cosine, min(10, n - 1)),
        factor=factor_of_neighbours(neighbours, np.take_along_axis(distance, neighbours, 1), k),
    )


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
@pytest.mark.parametrize("strip", [23, 64, 100, 1000])
def test_texts_are_compared_as_by_rows(
    kind: str, strip: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strips, "STRIP", strip)
    vectors = some_vectors(kind)
    slow = compared_by_rows(vectors.astype(np.float64), 1e-5)
    for waiting in (2**24, 100):
        monkeypatch.setattr(strips, "_WAITING", waiting)
        found = release_statistics(vectors, 1e-5)
        # A radius near 0 is a difference of cosines near 1.
        assert found.cosine_radius == pytest.approx(slow.cosine_radius, rel=1e-9, abs=1e-15)
        assert found.distance_radius == pytest.approx(slow.distance_radius, rel=1e-9)
        assert np.allclose(found.hubness, slow.hubness, rtol=1e-12)
        assert np.allclose(found.factor.reach, slow.factor.reach, rtol=1e-12)
        assert np.allclose(found.factor.density, slow.factor.density, rtol=1e-9)


def test_threads_change_no_digit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strips, "STRIP", 30)
    vectors = some_vectors("repeated")
    one, four = (release_statistics(vectors, 1e-5, threads).to_bytes() for threads in (1, 4))
    assert one == four


def multiplied(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Multiply bytes the slow way."""
    assert rows.dtype == columns.dtype == np.int8
    return rows.astype(np.int32) @ columns.astype(np.int32).T


def many_dimensions(kind: str) -> np.ndarray:
    rng = stream("many dimensions", kind)
    vectors = rng.normal(size=(300, 48))
    if kind == "duplicates":
        vectors[40:160] = vectors[rng.integers(0, 8, size=120)]
    elif kind == "zero":
        vectors[rng.permutation(300)[:50]] = 0
    elif kind == "one direction":
        vectors = 1 + vectors * 1e-3
    elif kind == "one coordinate":
        vectors[:, 1:] *= 1e-2
    elif kind == "clusters":
        vectors = vectors[rng.integers(0, 12, size=300)] + 0.2 * vectors
    elif kind == "of many lengths":
        vectors *= np.exp(rng.normal(size=(300, 1)) * 3)
    elif kind == "few dimensions":
        vectors = vectors[:, :5]
    return vectors.astype(np.float32)


@pytest.mark.parametrize("few", [0, 64])
@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(
    "kind",
    [
        *("plain", "duplicates", "zero", "one direction", "one coordinate", "clusters"),
        *("of many lengths", "few dimensions"),
    ],
)
def test_rounded_vectors_change_no_digit(
    kind: str, threads: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    vectors = many_dimensions(kind)
    monkeypatch.setattr(strips, "STRIP", 40)
    plain = release_statistics(vectors, 1e-5)
    calls = []

    def product(rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        calls.append(len(rows))
        return multiplied(rows, columns)

    monkeypatch.setattr(release_neighbours, "MANY", 300)
    monkeypatch.setattr(release_neighbours, "product_of_bytes", lambda _: nullcontext(product))
    monkeypatch.setattr(strips, "_FEW", few)
    found = release_statistics(vectors, 1e-5, threads)
    assert found.to_bytes() == plain.to_bytes()
    assert bool(calls) == (kind != "few dimensions")
    slow = compared_by_rows(vectors.astype(np.float64), 1e-5)
    assert found.cosine_radius == pytest.approx(slow.cosine_radius, rel=1e-9, abs=1e-15)
    assert found.distance_radius == pytest.approx(slow.distance_radius, rel=1e-9)
    assert np.allclose(found.hubness, slow.hubness, rtol=1e-12)
    assert np.allclose(found.factor.reach, slow.factor.reach, rtol=1e-12)
    assert np.allclose(found.factor.density, slow.factor.density, rtol=1e-9)


def test_statistics_are_read_as_they_were_written() -> None:
    made = release_statistics(some_vectors("plain"), 1e-5)
    read = ReleaseStatistics.from_bytes(made.to_bytes())
    assert (read.cosine_radius, read.distance_radius) == (made.cosine_radius, made.distance_radius)
    assert np.array_equal(read.hubness, made.hubness)
    assert isinstance(read.factor, FittedFactor)
    assert read.factor.k == made.factor.k
    assert np.array_equal(read.factor.reach, made.factor.reach)
    assert np.array_equal(read.factor.density, made.factor.density)


def test_a_product_in_single_precision_is_off_by_less_than_its_error() -> None:
    rng = stream("products")
    for dimensions in (3, 256, 1024):
        vectors = np.abs(rng.normal(size=(300, dimensions))).astype(np.float32)
        lengths = np.linalg.norm(vectors.astype(np.float64), axis=1)
        units = unit_vectors(vectors, lengths)
        exact = vectors.astype(np.float64) @ vectors.astype(np.float64).T
        exact /= np.outer(lengths, lengths)
        assert np.abs(units @ units.T - exact).max() < product_error(dimensions)


def test_products_of_pairs_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    left, right = some_vectors("plain")[:40], some_vectors("repeated")[:50]
    whole = left.astype(np.float64) @ right.astype(np.float64).T
    for at in (np.array([], dtype=np.int64), np.array([3, 77, 1999]), np.arange(0, 2000, 3)):
        assert np.allclose(dot_products(left, right, at), whole.reshape(-1)[at], rtol=1e-14)


def test_no_vector_within_a_distance_is_below_the_lowest_cosine() -> None:
    rng = stream("lowest")
    for _ in range(200):
        own, others = rng.normal(size=3), rng.normal(size=(400, 3)) * rng.exponential(2)
        length, lengths = np.linalg.norm(own), np.linalg.norm(others, axis=1)
        reach = rng.exponential(2)
        near = np.linalg.norm(others - own, axis=1) < reach
        bound = lowest_cosine(np.array([length]), lengths, np.array([reach]))[0]
        cosine = others @ own / (length * lengths)
        assert (cosine[near] >= bound - 1e-12).all()


def test_a_sure_bound_is_reached_by_k() -> None:
    values = stream("bound").normal(size=(50, 700)).astype(np.float32)
    bound = sure_bound(values, 10)
    assert ((values >= bound[:, None]).sum(axis=1) >= 10).all()
    assert np.isneginf(sure_bound(values[:, :100], 10)).all()


def test_the_best_are_those_of_sorting() -> None:
    rng = stream("best")
    values = rng.normal(size=(20, 300)).round(1)
    best = Best(20, 7)
    at = rng.permutation(values.size)
    for part in np.array_split(at[at % 300 < 280], 9):
        best.admit(part // 300, values.reshape(-1)[part], part % 300)
    assert np.array_equal(np.sort(best.values, 1), np.sort(values[:, :280], 1)[:, -7:])
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


def test_processes_share_the_vectors_of_a_large_observation(tmp_path: Path) -> None:
    def refuse(texts: Sequence[str]) -> np.ndarray:
        raise AssertionError("encoded again")

    made = by_length(Observation(TEXTS, ENCODE))
    write_by_length(tmp_path / "shared", made)
    other = Observation(TEXTS, refuse)
    assert read_by_length(other, tmp_path / "shared")
    read = by_length(other)
    for mine, theirs in zip(vars(made).values(), vars(read).values(), strict=True):
        assert mine.dtype == theirs.dtype and np.array_equal(mine, theirs)


def test_vectors_that_were_not_written_whole_are_made_again(tmp_path: Path) -> None:
    made = by_length(Observation(TEXTS, ENCODE))
    assert not read_by_length(Observation(TEXTS, ENCODE), tmp_path / "nowhere")
    write_by_length(tmp_path / "shared", made)
    file = tmp_path / "shared" / "vectors.npy"
    file.write_bytes(file.read_bytes()[:-1])
    assert not read_by_length(Observation(TEXTS, ENCODE), tmp_path / "shared")
    write_by_length(tmp_path / "no" / "such", made)
    assert not (tmp_path / "no").exists()


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
    texts = sort_by_length(vectors)
    found = first_of_kind(texts, 1e-6)
    assert found[np.argsort(texts.order)].tolist() == expected


def test_a_release_of_one_text_has_no_radius() -> None:
    same = np.ones((30, 4))
    made = release_statistics(same, 1e-5)
    assert (made.cosine_radius, made.distance_radius) == (0.0, 0.0)


def test_first_ranked_is_the_start_of_a_stable_sort() -> None:
    rng = stream("ranked")
    for count in (1, 5, 50, 80):
        values = rng.integers(0, 6, size=60).astype(float)
        expected = np.argsort(values, kind="stable")[:count]
        assert first_ranked(values, count).tolist() == expected.tolist()
