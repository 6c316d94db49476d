"""What must hold of the proxies whatever the texts."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from synthleak.corpus.readers.demo import write_demo
from synthleak.encoders.builtin.hashing import Hashing
from synthleak.evidence import Floats, Observation, Targets, families
from synthleak.evidence.table import look

FAMILIES = [entry.plugin for entry in families]
NAMES = [proxy.name for member in FAMILIES for proxy in member.proxies]
ENCODE = Hashing(dimensions=16).encode
DEMO = [record.text for record in write_demo(240, seed=11)]

WORDS = st.sampled_from(
    [
        "a",
        "red",
        "fox",
        "Fox",
        "jumps",
        "over",
        "Dr",
        "Olsen",
        "40",
        "mg",
        "it's",
        "été",
        "熊猫",
        "😀",
    ]
)
TEXT = st.lists(WORDS, min_size=1, max_size=9).map(" ".join)
TEXTS = st.lists(TEXT, min_size=1, max_size=12)
# Not a character, word or gram in common with TEXT: what METHOD calls unrelated.
UNRELATED = st.text(alphabet="ψξζ", min_size=1, max_size=30)


def values(targets: Sequence[str], texts: Sequence[str]) -> dict[str, Floats]:
    asked, observation = Targets(targets, ENCODE), Observation(texts, ENCODE)
    table = np.hstack([look(member, asked, observation) for member in FAMILIES])
    return dict(zip(NAMES, table.T, strict=True))


@settings(max_examples=25, deadline=None)
@given(TEXTS, TEXTS, st.randoms(use_true_random=False))
def test_the_order_of_the_observation_never_matters(targets, texts, random) -> None:
    before = values(targets, texts)
    random.shuffle(texts)
    after = values(targets, texts)
    for name in NAMES:
        assert before[name].tolist() == after[name].tolist(), name


@settings(max_examples=25, deadline=None)
@given(TEXTS, TEXT, TEXTS)
def test_the_company_of_a_target_never_matters(before, target, texts) -> None:
    together, alone = values([*before, target], texts), values([target], texts)
    for name in NAMES:
        assert together[name][-1] == pytest.approx(alone[name][0], rel=1e-9, abs=1e-12), name


@settings(max_examples=40, deadline=None)
@given(TEXT, TEXTS)
def test_a_target_copied_into_the_observation_reaches_the_top(target, texts) -> None:
    seen = values([target], [*texts, target])
    for name in ("containment_max", "jaccard_max", "substring_max", "euclid_nn", "mahalanobis_nn"):
        assert seen[name][0] == pytest.approx(1.0, abs=1e-9), name
    assert seen["cos_max"][0] == pytest.approx(1.0) or not ENCODE([target]).any()
    if any(character.isalnum() for character in target):
        assert seen["rouge_l_max"][0] == seen["token_lcs_max"][0] == 1.0
    for name in ("rare_ngram_max", "entity_f1_max"):  # of 0 where there is nothing to share
        assert seen[name][0] in (0.0, pytest.approx(1.0)), name


def test_copy_among_many_is_retrieved_first() -> None:
    seen = values(DEMO[:30], DEMO)
    for name in ("containment_max", "jaccard_max", "rouge_l_max", "token_lcs_max", "substring_max"):
        assert seen[name].tolist() == [1.0] * 30, name
    absent = values(DEMO[:30], DEMO[30:])
    for name in ("bm25_max", "bigram_logprob", "cos_max", "csls_max", "dot_max", "euclid_nn"):
        assert (seen[name] > absent[name]).all(), name


@settings(max_examples=40, deadline=None)
@given(TEXT, TEXTS, UNRELATED)
def test_an_unrelated_text_never_raises_an_overlap(target, texts, unrelated) -> None:
    before, after = values([target], texts), values([target], [*texts, unrelated])
    for kind in ("containment", "jaccard", "rouge_l", "token_lcs", "substring"):
        assert after[f"{kind}_max"] == pytest.approx(before[f"{kind}_max"]), kind
        assert after[f"{kind}_mean"][0] <= before[f"{kind}_mean"][0] + 1e-12, kind


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(0, 10_000))
def test_a_dissimilar_text_never_raises_cos_max(count, seed) -> None:
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count + 2, 6)).astype(np.float32)
    vectors[1] = -vectors[0]

    def encode(names: Sequence[str]) -> np.ndarray:
        return vectors[[int(name) for name in names]]

    cos = next(member for member in FAMILIES if member.name == "cos")
    target, texts = Targets(["0"], encode), [str(i + 2) for i in range(count)]
    before = look(cos, target, Observation(texts, encode))[0, 0]
    after = look(cos, target, Observation([*texts, "1"], encode))[0, 0]
    assert after == pytest.approx(before)


@settings(max_examples=30, deadline=None)
@given(TEXTS, TEXTS)
def test_ratios_lie_between_nothing_and_one(targets, texts) -> None:
    seen = values(targets, texts)
    unbounded = {"bm25_max", "bm25_mean", "lof"}
    for member in FAMILIES:
        for proxy in member.proxies:
            column = seen[proxy.name]
            assert np.isfinite(column).all()
            if proxy.scale == "ratio":
                assert (column >= 0).all(), proxy.name
                assert (column <= 1 + 1e-9).all() or proxy.name in unbounded, proxy.name
            elif proxy.name == "bigram_logprob":
                assert (column < 0).all()
