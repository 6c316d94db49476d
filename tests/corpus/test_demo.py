"""The demo corpus: what the pool rules and the proxies rely on must really be in it."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import combinations
from statistics import median

import numpy as np
import pytest
from pydantic import ValidationError

from synthleak.core.text import entities, fold, tokens
from synthleak.corpus import Record, assemble, readers
from synthleak.corpus.readers.demo import (
    CLAUSES,
    DETAILS,
    LABELS,
    PLANTED,
    PLANTED_SHARE,
    WORDS,
    Demo,
    write_demo,
)
from synthleak.encoders.builtin.static import Static

SEEDS = (0, 1, 2, 3)


@cache
def demo(size: int = 1200, seed: int = 1) -> tuple[Record, ...]:
    return tuple(write_demo(size, seed))


def words(record: Record) -> int:
    return len(record.text.split())


def trigrams(record: Record) -> set[tuple[str, ...]]:
    parts = tokens(record.text)
    return set(zip(parts, parts[1:], parts[2:], strict=False))


def test_same_size_and_seed_give_the_same_records() -> None:
    assert demo(300, 5) == tuple(write_demo(300, 5))
    assert {r.text for r in demo(300, 5)}.isdisjoint(r.text for r in demo(300, 6))


@pytest.mark.parametrize("size", [50, 51, 1200])
def test_as_many_records_as_asked_with_running_ids(size: int) -> None:
    assert [r.id for r in demo(size)] == [f"demo-{n:04d}" for n in range(1, size + 1)]


def test_no_two_texts_are_equal_after_folding() -> None:
    assert len({fold(r.text) for r in demo(5000)}) == 5000


def test_labels_are_seven_and_sorted() -> None:
    assert len(LABELS) == 7
    assert {label for r in demo() for label in r.labels} == set(LABELS)
    for record in demo():
        assert 1 <= len(record.labels) <= 4
        assert record.labels == tuple(sorted(set(record.labels)))


@pytest.mark.parametrize("seed", SEEDS)
def test_label_combinations_have_a_long_tail(seed: int) -> None:
    counts = Counter(r.labels for r in demo(1200, seed))
    assert 30 <= len(counts) <= 45
    assert 40 <= sum(n for n in counts.values() if n <= 5) <= 60
    assert sum(n for _, n in counts.most_common(5)) > 600


def test_common_labels_do_not_hide_in_one_combination() -> None:
    share = Counter(r.labels for r in demo()).most_common(1)[0][1] / 1200
    assert share < 0.35


@pytest.mark.parametrize("seed", SEEDS)
def test_lengths(seed: int) -> None:
    lengths = [words(r) for r in demo(1200, seed)]
    assert min(lengths) >= 8
    assert max(lengths) <= 35
    assert 15 <= median(lengths) <= 18


def test_planted_share_and_meta() -> None:
    records = demo()
    assert sum(r.meta["planted"] for r in records) == round(PLANTED_SHARE * 1200) == 48
    assert all(type(r.meta["planted"]) is bool for r in records)
    assert {r.meta["site"] for r in records} == {"A", "B", "C"}
    ages = [r.meta["age"] for r in records]
    assert all(type(age) is int for age in ages)
    assert min(ages) >= 18
    assert max(ages) <= 95


@pytest.mark.parametrize("seed", SEEDS)
def test_planted_records_lie_far_out(seed: int) -> None:
    records = demo(1200, seed)
    vectors = Static().encode([r.text for r in records])
    distance = np.linalg.norm(vectors - vectors.mean(axis=0), axis=1)
    planted = np.array([r.meta["planted"] for r in records])
    farthest = np.argsort(-distance)
    # 4% of all records are planted; at least 40% of the outer 5%, and 75% of the outer 1%, are.
    assert planted[farthest[:60]].mean() >= 0.4
    assert planted[farthest[:12]].mean() >= 0.75


def test_random_pairs_share_few_trigrams() -> None:
    rng = np.random.default_rng(0)
    sets = [trigrams(r) for r in demo()]
    pairs = [rng.choice(len(sets), 2, replace=False) for _ in range(5000)]
    shared = np.array([len(sets[i] & sets[j]) / min(len(sets[i]), len(sets[j])) for i, j in pairs])
    assert shared.mean() < 0.01
    assert (shared > 0.5).mean() < 0.001


def test_planted_records_do_not_copy_each_other() -> None:
    sets = [trigrams(r) for r in demo() if r.meta["planted"]]
    shared = [len(a & b) / min(len(a), len(b)) for a, b in combinations(sets, 2)]
    assert max(shared) < 0.8


def test_text_depends_on_labels() -> None:
    ordinary = [r for r in demo() if not r.meta["planted"]]
    assert all(r.text.endswith("?") == ("question" in r.labels) for r in ordinary)
    asleep = re.compile(
        r"sle[ep]|night|awake|nap|nodd|doz|drows|grogg|dream|knocks me out|insomnia"
    )
    said = {kind: [r for r in ordinary if ("sleep" in r.labels) == kind] for kind in (True, False)}
    hits = {
        kind: np.mean([bool(asleep.search(r.text.lower())) for r in rs])
        for kind, rs in said.items()
    }
    assert hits[True] > 0.9
    assert hits[False] < 0.2


def test_texts_hold_names_and_numbers() -> None:
    ordinary = [r.text for r in demo() if not r.meta["planted"]]
    assert np.mean([bool(entities(text)) for text in ordinary]) > 0.8
    assert np.mean([any(c.isdigit() for c in text) for text in ordinary]) > 0.4
    assert sum("Dr " in text for text in ordinary) > 100


def test_phone_numbers_are_fictitious() -> None:
    phones = [p for r in demo(5000) for p in re.findall(r"555-\d+", r.text)]
    assert phones
    assert all(re.fullmatch(r"555-01\d\d", phone) for phone in phones)


def test_every_slot_and_word_list_is_used() -> None:
    blocks = [*CLAUSES.values(), DETAILS, *PLANTED.values(), *WORDS.values()]
    slots = {slot for block in blocks for line in block for slot in re.findall(r"{(\w+)}", line)}
    kept_for_a_message = {"age", "drug", "reason"}
    assert slots - set(WORDS) == kept_for_a_message
    assert set(WORDS) <= slots
    assert not any(re.search(r'[{}|"\n]', r.text) for r in demo(5000))
    assert not any("  " in r.text for r in demo(5000))


def test_reader_is_registered() -> None:
    assert readers.get("demo").plugin is Demo
    assert (Demo().size, Demo().seed) == (1200, 1)
    settings = {"size": 1200, "seed": 1, "persons": False}
    assert Demo().identity() == {"kind": "demo", "version": 1, **settings}
    corpus = assemble(Demo(size=60, seed=4))
    assert (corpus.name, len(corpus), corpus.duplicates) == ("demo", 60, 0)
    assert corpus.records == demo(60, 4)


@pytest.mark.parametrize("settings", [{"size": 49}, {"size": 200_001}, {"seed": -1}])
def test_reader_refuses_what_is_out_of_range(settings: dict[str, int]) -> None:
    with pytest.raises(ValidationError):
        Demo(**settings)
