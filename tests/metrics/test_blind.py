"""The blind test: exact under a random split, sharp where a split is not random."""

from __future__ import annotations

import numpy as np

from synthleak.core.seeds import stream
from synthleak.corpus.readers.demo import Demo
from synthleak.metrics.blind import blind_test

RECORDS = list(Demo(size=400, seed=2).read())
TEXTS = [record.text for record in RECORDS]
LABELS = [record.labels for record in RECORDS]
APART = [np.arange(len(RECORDS))]


def test_random_splits_pass() -> None:
    low = 0
    for draw in range(40):
        rng = stream("blind", draw)
        member = rng.permutation(np.arange(len(TEXTS)) % 2 == 0)
        low += blind_test(TEXTS, LABELS, member, APART, rng, 99).p <= 0.05
    assert low <= 7  # 40 at 5%: more than 7 happens once in a thousand times


def test_a_topical_split_is_caught() -> None:
    member = np.array(["sleep" in record.labels for record in RECORDS])
    nothing = [() for _ in RECORDS]
    found = blind_test(TEXTS, nothing, member, APART, stream("topic"), 199)
    assert found.unfair and found.auc > 0.6 > found.ceiling


def test_a_temporal_split_is_caught() -> None:
    later = [f"{text} Since the 2024 update." if i % 3 else text for i, text in enumerate(TEXTS)]
    member = np.arange(len(TEXTS)) < 200
    texts = [*TEXTS[:200], *later[200:]]
    assert blind_test(texts, LABELS, member, APART, stream("time"), 199).unfair


def test_labels_alone_can_give_a_split_away() -> None:
    member = np.arange(len(TEXTS)) % 2 == 0
    labels = [("A",) if was else ("B",) for was in member]
    assert blind_test(TEXTS, labels, member, APART, stream("labels"), 199).unfair


def test_undeclared_groups_are_caught_and_declared_ones_are_not() -> None:
    rng = stream("persons")
    person = np.repeat(np.arange(40), 10)
    texts = [f"{text} signed writer{who}" for text, who in zip(TEXTS, person, strict=True)]
    member = rng.permutation(np.arange(40) < 20)[person]
    assert blind_test(texts, LABELS, member, APART, rng, 199).unfair
    assert not blind_test(texts, LABELS, member, [person], rng, 199).unfair


def with_halves_swapped(text: str) -> str:
    words = text.split()
    return " ".join([*words[len(words) // 2 :], *words[: len(words) // 2]])


def test_swapped_halves_are_caught() -> None:
    """Every word and every letter is the same on both sides: only the order tells them apart."""
    for draw in range(5):
        rng = stream("swapped", draw)
        member = rng.permutation(np.arange(len(TEXTS)) % 2 == 0)
        texts = [
            text if was else with_halves_swapped(text)
            for text, was in zip(TEXTS, member, strict=True)
        ]
        assert blind_test(texts, LABELS, member, APART, rng, 199).unfair


def test_the_order_of_texts_does_not_change_the_test() -> None:
    rng = stream("order")
    member = rng.permutation(np.arange(len(TEXTS)) % 2 == 0)
    order = rng.permutation(len(TEXTS))
    fair = blind_test(TEXTS, LABELS, member, APART, stream("same"), 1).words
    shuffled = [[column[place] for place in order] for column in (TEXTS, LABELS)]
    assert blind_test(*shuffled, member[order], APART, stream("same"), 1).words == fair


def test_of_two_readings_the_larger_p_counts() -> None:
    rng = stream("persons")
    person = np.repeat(np.arange(40), 10)
    texts = [f"{text} signed writer{who}" for text, who in zip(TEXTS, person, strict=True)]
    member = rng.permutation(np.arange(40) < 20)[person]
    assert not blind_test(texts, LABELS, member, [person, *APART], rng, 199).unfair
