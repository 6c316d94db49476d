"""The privacy claim of `ngram`: sensitivity, noise on every cell, and σ against the accountant."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.oracles import ngram as oracle
from synthleak.core.seeds import stream
from synthleak.corpus import Record
from synthleak.releases import Public, Request, gaussian_sigma
from synthleak.releases.generators.ngram import (
    Model,
    Ngram,
    bounded_sum,
    continuations,
    grams_of,
    noised_sum,
    plain_counts,
    public_support,
)
from synthleak.releases.release import public_side

WORDS = ["took", "it", "and", "slept", "badly", "."]


def records(texts: list[str]) -> tuple[Record, ...]:
    return tuple(Record(str(i), text, ("x",) if i % 2 else ()) for i, text in enumerate(texts))


def public(texts: list[str]) -> Public:
    return public_side(records(texts), {("x",): 1, (): 1})


def request(private: tuple[Record, ...], epsilon: float, seed: int = 1, size: int = 30) -> Request:
    side = public(["took it and slept badly .", "slept and took it", "it slept badly and badly"])
    return Request(private, 20, size, epsilon, 1 / 400, side, seed)


sentences = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)


@given(st.lists(sentences, min_size=1, max_size=5), st.lists(sentences, min_size=2, max_size=6))
@settings(max_examples=60, deadline=None)
def test_sensitivity_by_brute_force(private: list[str], auxiliary: list[str]) -> None:
    """Remove or replace any one record: the sum moves by at most 1, or √2."""
    support = public_support(public(auxiliary))
    data = [(record,) for record in records(private)]
    whole = bounded_sum(data, support)
    for position, stranger in itertools.product(range(len(data)), records(auxiliary)):
        without = [*data[:position], *data[position + 1 :]]
        assert np.linalg.norm(whole - bounded_sum(without, support)) <= 1 + 1e-9
        replaced = bounded_sum([*without, (stranger,)], support)
        assert np.linalg.norm(whole - replaced) <= math.sqrt(2) + 1e-9


def test_the_bounds_are_reached_so_the_claim_is_not_slack() -> None:
    support = public_support(public(["a b c d e f", "g h i j k l"]))
    one, two = records(["a b c d e f", "g h i j k l"])
    assert np.linalg.norm(bounded_sum([[one]], support)) == pytest.approx(1)
    two_unlabelled = Record("2", two.text)
    moved = bounded_sum([[one]], support) - bounded_sum([[two_unlabelled]], support)
    assert np.linalg.norm(moved) > 1.3


def test_support_comes_from_auxiliary_records_alone() -> None:
    side = public(["took it", "slept badly"])
    support = public_support(side)
    expected = {gram for record in side.auxiliary for gram in grams_of(record)}
    assert set(support) == expected
    stranger = Record("s", "zebra took zebra it zebra")
    assert bounded_sum([[stranger]], support).sum() > 0
    assert not any("zebra" in gram for gram in support)


def test_every_cell_gets_noise_of_the_stated_scale() -> None:
    side = public([f"w{i} w{i + 1} w{i + 2}" for i in range(5000)])
    support = public_support(side)
    sigma = 2.5
    empty = noised_sum([], support, sigma, stream(1))
    # Negatives are cut, so half of the untouched cells are positive: none is left out.
    assert (empty > 0).mean() == pytest.approx(0.5, abs=0.04)
    assert np.sqrt((empty**2).sum() / (len(support) / 2)) == pytest.approx(sigma, rel=0.05)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.5, 1e-5), (1, 1 / 200**2), (4, 1 / 500**2)])
def test_sigma_meets_the_closed_form_of_the_gaussian_mechanism(
    epsilon: float, delta: float
) -> None:
    """Balle and Wang's analytic δ(ε) of the Gaussian mechanism, an independent derivation."""
    from scipy.stats import norm

    def exact(sigma: float) -> float:
        a, b = 1 / (2 * sigma) - epsilon * sigma, -1 / (2 * sigma) - epsilon * sigma
        return float(norm.cdf(a) - math.exp(epsilon) * norm.cdf(b))

    sigma = gaussian_sigma(epsilon, delta)
    assert exact(sigma) == pytest.approx(delta, rel=0.01)
    assert exact(sigma * 0.98) > delta


def test_the_claim_states_one_event_and_both_adjacencies() -> None:
    claim = Ngram().claim(request(records(["took it"]), 2.0))
    (event,) = claim.events
    assert (event.sensitivity, event.replace_sensitivity) == (1.0, math.sqrt(2))
    assert claim.epsilon_at(claim.delta) == pytest.approx(2.0, abs=0.01)
    assert claim.epsilon_at(claim.delta, "replace") > 2.5
    assert "class sizes of R" in claim.public
    assert not Ngram().claim(request(records(["took it"]), math.inf)).promises


def test_private_class_sizes_void_the_claim() -> None:
    from dataclasses import replace

    asked = replace(request(records(["took it"]), 2.0), label_prior="private")
    claim = Ngram().claim(asked)
    assert claim.void and not claim.promises
    assert {s.labels for s in Ngram().generate(asked)} == {()}


def test_seed_decides_the_noise() -> None:
    private = records(["took it and slept", "slept badly ."])
    made = [tuple(Ngram().generate(request(private, 1.0, seed))) for seed in (1, 1, 2)]
    assert made[0] == made[1] != made[2]


def test_one_record_hardly_moves_a_private_release() -> None:
    odd = Record("odd", "quartz zebra took violet helium")
    private = (*records(["took it and slept", "slept badly ."]), odd)
    leaking = " ".join(s.text for s in Ngram().generate(request(private, math.inf)))
    quiet = " ".join(s.text for s in Ngram().generate(request(private, 1.0)))
    assert "quartz zebra" in leaking
    assert "zebra" not in quiet and "helium" not in quiet


def test_without_privacy_the_support_is_the_private_set_s_own() -> None:
    private = records(["took it took it"])
    counts = plain_counts(private)
    assert counts["took", "it"] == 2
    assert counts["it", "took", "it"] == 1


def test_sizes_never_tell_how_many_records_there_were() -> None:
    for size in (1, 2, 40):
        private = records([f"took it {i}" for i in range(size)])
        assert len(Ngram().generate(request(private, 1.0))) == 30
        assert Ngram().claim(request(private, 1.0)) == Ngram().claim(request((), 1.0))


@given(st.lists(sentences, min_size=1, max_size=8), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_model_samples_what_the_slow_one_does(texts: list[str], seed: int) -> None:
    """Cells of no weight, contexts that nothing follows, and every mixture of known orders."""
    support = public_support(public(texts))
    rng = np.random.default_rng(seed)
    weights = np.maximum(rng.normal(0.2, 1.0, len(support)), 0.0).tolist()
    for mixture in ((0.02, 0.08, 0.9), (0.5, 0.0, 0.5), (0.0, 0.0, 1.0)):
        fast, slow = (
            [
                model.sample(labels, 12, stream(seed, "texts"))
                for labels in [("x",), (), ("new",)] * 5
            ]
            for model in (
                Model(continuations(support), weights, mixture),
                oracle.Model(support, weights, mixture),
            )
        )
        assert fast == slow


@given(sentences)
@settings(max_examples=60, deadline=None)
def test_grams_come_in_the_order_of_the_slow_count(text: str) -> None:
    record = Record("1", text, ("x",))
    assert list(grams_of(record).items()) == list(oracle.grams_of(record).items())
