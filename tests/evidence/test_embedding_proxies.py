"""Every embedding proxy against its slow oracle; the isolation forest against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.covariance import ledoit_wolf as sklearn_ledoit_wolf
from sklearn.ensemble import IsolationForest
from sklearn.ensemble._iforest import _average_path_length
from sklearn.neighbors import LocalOutlierFactor

from support.oracles.evidence_embedding import embedding
from synthleak.core.seeds import stream
from synthleak.corpus.readers.demo import write_demo
from synthleak.encoders import Vectors
from synthleak.encoders.builtin.static import Static
from synthleak.evidence import Floats, Observation, Targets, families
from synthleak.evidence.fast.forest import expected_path, fit_forest
from synthleak.evidence.fast.nearest import fit_factor, ledoit_wolf, smallest_places
from synthleak.evidence.table import look

EMBEDDING = [entry.plugin for entry in families if entry.plugin.view == "embedding"]


def places(count: int, dimensions: int, seed: int, *, duplicates: int = 0) -> Floats:
    """Vectors in single precision, some of them twice."""
    rng = stream(seed, "vectors")
    vectors = rng.normal(size=(count, dimensions)) * np.linspace(0.2, 2, dimensions) + 0.3
    vectors[:duplicates] = vectors[count - duplicates :]
    return vectors.astype(np.float32).astype(np.float64)


def seen(targets: Floats, texts: Floats) -> list[dict[str, float]]:
    """Return {proxy: value} for each target, texts standing for their vectors by number."""

    def encode(names: list[str]) -> Vectors:
        both = {"t": targets, "o": texts}
        return np.array([both[n[0]][int(n[1:])] for n in names], dtype=np.float32)

    asked = Targets([f"t{i}" for i in range(len(targets))], encode)
    observation = Observation([f"o{i}" for i in range(len(texts))], encode)
    tables = [look(member, asked, observation) for member in EMBEDDING]
    names = [proxy.name for member in EMBEDDING for proxy in member.proxies]
    return [dict(zip(names, row, strict=True)) for row in np.hstack(tables).tolist()]


@pytest.mark.parametrize(
    ("count", "dimensions", "duplicates"),
    [(60, 3, 0), (25, 40, 0), (40, 8, 12), (7, 5, 0), (3, 4, 0), (70, 2, 30)],
)
def test_the_oracle_agrees_with_every_embedding_proxy(
    count: int, dimensions: int, duplicates: int
) -> None:
    texts = places(count, dimensions, 1, duplicates=duplicates)
    targets = np.vstack([places(6, dimensions, 2), texts[:2], 3 * texts[:1]])
    targets = targets.astype(np.float32).astype(np.float64)
    for target, values in zip(targets, seen(targets, texts), strict=True):
        assert 0 <= values.pop("isolation") <= 1
        assert values == pytest.approx(embedding(target, list(texts)), rel=1e-6, abs=1e-9)


def test_the_oracle_agrees_on_real_looking_text() -> None:
    texts = [record.text for record in write_demo(45, seed=7)]
    vectors = Static().encode(texts)[:, :48].astype(np.float64)
    for target, values in zip(vectors[:4], seen(vectors[:4], vectors[2:]), strict=True):
        values.pop("isolation")
        assert values == pytest.approx(embedding(target, list(vectors[2:])), rel=1e-5, abs=1e-6)


def test_oracle_covers_the_embedding_proxies() -> None:
    values = seen(places(1, 3, 1), places(9, 3, 2))[0]
    assert len(values) == 15
    assert set(values) - {"isolation"} == set(embedding(np.ones(3), list(places(9, 3, 2))))


@pytest.mark.parametrize(("count", "dimensions"), [(300, 6), (150, 40), (20, 3)])
def test_forest_converges_to_scikit_learn(count: int, dimensions: int) -> None:
    points = places(count, dimensions, 3)
    queries = np.vstack([points[:10], 2 * places(10, dimensions, 4)])
    ours = fit_forest(points, stream("forest"), trees=1000).normality(queries)
    theirs = 1 + IsolationForest(n_estimators=1000, random_state=1).fit(points).score_samples(
        queries
    )
    assert ours == pytest.approx(theirs, abs=0.02)
    assert abs(np.mean(ours - theirs)) < 0.005


def test_expected_paths_are_those_of_scikit_learn() -> None:
    sizes = np.array([0, 1, 2, 3, 10, 256])
    assert expected_path(sizes) == pytest.approx(_average_path_length(sizes))


def test_the_forest_copes_with_points_that_hardly_differ() -> None:
    points = np.zeros((40, 50))
    points[::2, 17] = 1.0  # a single feature varies
    inside, outside = fit_forest(points, stream("f")).normality(
        np.stack([points[0], points[0] + 9])
    )
    assert 0 < inside <= 1
    assert inside == outside  # one cut on that feature is all that can be made
    same = fit_forest(np.zeros((40, 5)), stream("f")).normality(np.ones((3, 5)))
    assert len(set(same.tolist())) == 1
    alone = fit_forest(np.zeros((1, 5)), stream("f")).normality(np.ones((3, 5)))
    assert alone.tolist() == [0.5] * 3


def test_forest_depends_on_the_observation_alone() -> None:
    texts, targets = places(50, 4, 5), places(4, 4, 6)
    first = [row["isolation"] for row in seen(targets, texts)]
    assert first == [row["isolation"] for row in seen(targets, texts)]
    alone = seen(targets[:1], texts)[0]["isolation"]
    assert alone == first[0]


def test_the_outlier_factor_is_that_of_scikit_learn() -> None:
    from scipy.spatial.distance import cdist

    points, queries = places(80, 5, 8, duplicates=25), places(20, 5, 9)
    theirs = -LocalOutlierFactor(n_neighbors=20, novelty=True).fit(points).score_samples(queries)
    every = np.tile(np.arange(len(points)), (len(queries), 1))
    apart = cdist(points, points)
    np.fill_diagonal(apart, np.inf)
    near = smallest_places(apart, 20)
    factor = fit_factor(np.take_along_axis(apart, near, axis=1), near)
    ours = factor.of(cdist(queries, points), every)
    assert ours == pytest.approx(theirs, rel=1e-6)


@pytest.mark.parametrize(("count", "dimensions"), [(200, 5), (50, 64), (3, 10), (2, 2), (40, 1)])
def test_the_covariance_is_that_of_scikit_learn(count: int, dimensions: int) -> None:
    vectors = places(count, dimensions, 10)
    theirs, _ = sklearn_ledoit_wolf(vectors)
    centred = vectors - vectors.mean(axis=0)
    fourth = float(((centred**2).sum(axis=1) ** 2).sum())
    assert ledoit_wolf(centred.T @ centred / count, fourth, count) == pytest.approx(theirs)


def test_duplicates_do_not_shrink_the_radius() -> None:
    texts = np.array([[0.0, 1.0], [0.0, 3.0], [0.0, 6.0]])
    many = np.vstack([texts, np.repeat(texts[:1], 5, axis=0)])
    near = seen(np.array([[0.0, 2.0]]), many)[0]["euclid_radius"]
    assert near == pytest.approx(7 / 8)  # all but the text at 6; a radius of 0 would leave none


def test_a_text_is_not_its_own_neighbour() -> None:
    texts = np.array([[1.0, 0.0], [0.0, 1.0]])
    # r(x) = 1/2 and r(c) = 0: counting itself, r(c) would be 1/2.
    assert seen(texts[:1], texts)[0]["csls_max"] == pytest.approx((2 - 0.5 + 4) / 8)
