"""Canary's Echo and DOMIAS against oracles and against scipy (docs/method.md §9)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import gaussian_kde, multivariate_normal
from sklearn.covariance import LedoitWolf
from sklearn.decomposition import PCA

from support.oracles.evidence_prior import ngram_logprob as oracle
from synthleak.core.errors import ContractError
from synthleak.core.seeds import stream
from synthleak.corpus.readers.demo import write_demo
from synthleak.encoders import Vectors
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence import Attack, Floats, Observation, Targets, TextSet, attacks
from synthleak.evidence.attack import attack_key, observe
from synthleak.evidence.fast.nearest import Gaussian
from synthleak.evidence.prior.canary import Canary, ngram_logprob
from synthleak.evidence.prior.domias import Domias, kernel_log_density, log_densities, principal

DEMO = [record.text for record in write_demo(120, seed=3)]
ENCODE = Hashing(dimensions=16).encode
STRANGE = ["", "a", "!!", "a a a a", "病人昨晚头痛", "😀", "red " * 400]


@pytest.mark.parametrize("order", [2, 3, 5])
def test_ngram_model_equals_the_oracle(order: int) -> None:
    asked = [*DEMO[:6], *STRANGE]
    for texts in (DEMO[4:60], STRANGE, [""], DEMO[:1] * 3):
        targets, observation = Targets(asked, ENCODE), Observation(texts, ENCODE)
        values = ngram_logprob(targets, observation, order)
        assert values == pytest.approx([oracle(text, texts, order) for text in asked])


def test_canary_returns_support_and_similarity() -> None:
    targets, observation = Targets(DEMO[:5], ENCODE), Observation(DEMO[3:60], ENCODE)
    values = observe(Canary(order=3, neighbours=7), targets, observation, None)
    assert values[:, 0] == pytest.approx(ngram_logprob(targets, observation, 3))
    cosine = targets.directions @ observation.directions.T
    assert values[:, 1] == pytest.approx(np.sort(cosine, axis=1)[:, -7:].mean(axis=1))
    few = observe(Canary(), targets, Observation(DEMO[:4], ENCODE), None)
    assert np.isfinite(few).all()  # fewer texts than neighbours


def points(count: int, dimensions: int, seed: int) -> Floats:
    rng = stream(seed, "points")
    return rng.normal(size=(count, dimensions)) @ rng.normal(size=(dimensions, dimensions)) + 1


def test_gaussian_and_kernel_agree_with_scipy_in_three_dimensions() -> None:
    fitted, asked = points(80, 3, 1), points(20, 3, 1) * 1.5
    shrunk = LedoitWolf().fit(fitted)
    ours = log_densities(fitted, asked)
    expected = multivariate_normal(shrunk.location_, shrunk.covariance_).logpdf(asked)
    assert ours[:, 0] == pytest.approx(expected, rel=1e-6)
    scott = len(fitted) ** (-2 / 7)
    kernels = [
        multivariate_normal(point, scott * shrunk.covariance_).logpdf(asked) for point in fitted
    ]
    assert ours[:, 1] == pytest.approx(logsumexp(kernels, axis=0) - np.log(80), rel=1e-6)


def test_kernel_density_equals_scipy() -> None:
    fitted, asked = points(60, 3, 2), points(15, 3, 3)
    factor = np.linalg.cholesky(np.cov(fitted.T))
    ours = kernel_log_density(fitted, Gaussian(fitted.mean(axis=0), factor), asked)
    assert ours == pytest.approx(gaussian_kde(fitted.T, "scott").logpdf(asked.T))


@pytest.mark.parametrize(("count", "dimensions"), [(200, 768), (2, 768), (1, 5), (40, 1)])
def test_densities_stay_finite_however_many_dimensions(count: int, dimensions: int) -> None:
    rng = stream("wide")
    fitted = rng.normal(size=(count, dimensions))
    asked = np.vstack([fitted[:1], 9 * rng.normal(size=(3, dimensions))])
    assert np.isfinite(log_densities(fitted, asked)).all()
    assert np.isfinite(log_densities(np.ones((count, dimensions)), asked)).all()


def test_principal_axes_are_those_of_scikit_learn() -> None:
    vectors = points(50, 8, 4)
    basis = principal(vectors, 3)
    theirs = PCA(n_components=3).fit(vectors)
    assert np.abs(basis.reduce(vectors)) == pytest.approx(np.abs(theirs.transform(vectors)))
    assert principal(vectors[:3], 32).axes.shape == (8, 2)
    assert principal(vectors[:1], 32).axes.shape == (8, 1)


def numbered(vectors: Floats) -> tuple[list[str], object]:
    def encode(names: Sequence[str]) -> Vectors:
        return np.array([vectors[int(name)] for name in names], dtype=np.float32)

    return [str(number) for number in range(len(vectors))], encode


def test_domias_compares_release_and_domain_density() -> None:
    names, encode = numbered(points(150, 6, 5).astype(np.float32).astype(np.float64))
    targets = Targets(names[:10], encode, names[10:60])
    observation, references = Observation(names[5:80], encode), TextSet(names[80:], encode)
    values = observe(Domias(components=2), targets, observation, references)
    for place, domain in enumerate((targets.auxiliary, references)):
        ours = values[:, 4 * place : 4 * place + 4]
        whole = log_densities(observation.vectors, targets.vectors)
        whole -= log_densities(domain.vectors, targets.vectors)
        axes = PCA(n_components=2).fit(domain.vectors)
        reduced = log_densities(
            axes.transform(observation.vectors), axes.transform(targets.vectors)
        )
        reduced -= log_densities(axes.transform(domain.vectors), axes.transform(targets.vectors))
        assert ours == pytest.approx(np.hstack([whole, reduced]), rel=1e-6, abs=1e-8)


def test_a_domain_like_the_release_gives_nothing_away() -> None:
    targets = Targets(DEMO[:5], ENCODE, DEMO[20:70])
    values = observe(Domias(), targets, Observation(DEMO[20:70], ENCODE), None)
    assert values[:, :4] == pytest.approx(np.zeros((5, 4)), abs=1e-6)
    assert not values[:, 4:].any()  # no references: these arms are left out of the scenarios


@pytest.mark.parametrize("attack", [Canary(), Domias()], ids=lambda attack: attack.kind)
@pytest.mark.parametrize("texts", [[], ["a"], [""] * 9, STRANGE, ["a red fox"] * 60], ids=repr)
def test_strange_text_gives_finite_values(attack: Attack, texts: list[str]) -> None:
    targets = Targets(STRANGE, ENCODE, ["took 40 mg", "", "a red fox"])
    values = observe(attack, targets, Observation(texts, ENCODE), TextSet(texts or [""], ENCODE))
    assert values.shape == (len(STRANGE), attack.columns)


@pytest.mark.parametrize("attack", [Canary(), Domias()], ids=lambda attack: attack.kind)
def test_the_order_of_the_observation_does_not_matter(attack: Attack) -> None:
    targets, references = Targets(DEMO[:4], ENCODE, DEMO[60:90]), TextSet(DEMO[90:], ENCODE)
    there = observe(attack, targets, Observation(DEMO[4:60], ENCODE), references)
    back = observe(attack, targets, Observation(DEMO[59:3:-1], ENCODE), references)
    assert there.tolist() == back.tolist()


def test_four_arms_each_and_every_column_has_one() -> None:
    by_name = {entry.name: entry.plugin for entry in attacks if entry.built_in}
    assert list(by_name) == ["canary", "domias"]
    canary = [(arm.name, arm.scenario) for arm in Canary.arms]
    assert sorted({name for name, _ in canary}) == ["n", "nR", "s", "sR"]
    assert [pair for pair in canary if pair[1] == "S1"] == [("n", "S1"), ("s", "S1")]
    assert [arm.name for arm in Domias.arms] == ["g", "k", "pg", "pk"] * 2
    for attack in by_name.values():
        assert {arm.column for arm in attack.arms} == set(range(attack.columns))


def test_keys_hold_what_decides_the_values() -> None:
    targets, other = Targets(["a"], ENCODE, ["r"]), Targets(["a"], ENCODE, ["s"])

    def keys(attack: Attack) -> list[str]:
        return [
            attack_key(attack, {"kind": "e"}, targets, "text", ("one",)),
            attack_key(attack, {"kind": "f"}, targets, "text", ("one",)),
            attack_key(attack, {"kind": "e"}, other, "text", ("one",)),
            attack_key(attack, {"kind": "e"}, targets, "text", ("two",)),
            attack_key(attack, {"kind": "e"}, targets, "else", ("one",)),
        ]

    assert len(set(keys(Domias()))) == 5
    assert len(set(keys(Canary()))) == 3  # neither R nor references enter
    assert keys(Canary())[0] != keys(Canary(order=3))[0]


def test_an_attack_that_breaks_its_contract_is_named() -> None:
    class Broken(Canary):
        kind = "broken"

        def look(self, targets: Targets, observation: Observation, references: object) -> Floats:
            return np.array([[np.nan, 1.0]])

    targets, observation = Targets(["a"], ENCODE), Observation(["a"], ENCODE)
    with pytest.raises(ContractError, match=r"'broken' .*not finite"):
        observe(Broken(), targets, observation, None)
    with pytest.raises(ContractError, match=r"'broken' .*\(1, 2\)"):
        observe(Broken(), Targets(["a", "b"], ENCODE), observation, None)
