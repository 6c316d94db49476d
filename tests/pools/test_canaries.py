"""Canaries: written before any coin, apart from every record, each end its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from synthleak.core.errors import PlanError, PoolError
from synthleak.core.seeds import digest
from synthleak.core.spec import GameSection
from synthleak.core.store import MemoryStore
from synthleak.core.text import char_grams, fold, tokens
from synthleak.corpus import Corpus, Record
from synthleak.corpus.corpus import Split
from synthleak.plan import Plan, designs
from synthleak.pools import Pool, rules
from synthleak.pools.selection import PoolOrder, select_all
from synthleak.testing import tiny_corpus

CORPUS = tiny_corpus(500)


def order(name: str = "canaries", rule: str = "canary", **settings: Any) -> PoolOrder:
    settings = {"size": 12, **settings} if rule == "canary" else settings
    return PoolOrder(name, rules.build(rule, settings, key="rule", where=("pool", 0)), "pool[0]")


def select(*orders: PoolOrder, corpus: Corpus = CORPUS, seed: int = 1, **more: Any) -> Any:
    return select_all(
        orders,
        corpus,
        lambda: np.zeros((len(corpus), 2), dtype=np.float32),
        {},
        auxiliary=0.5,
        seed=seed,
        **{"store": MemoryStore(), **more},
    )


def canaries(**settings: Any) -> Pool:
    pool: Pool = select(order(**settings))["canaries"]
    return pool


def jaccard(one: str, two: str) -> float:
    first, second = char_grams(one), char_grams(two)
    return len(first & second) / len(first | second)


def test_no_canary_resembles_a_candidate() -> None:
    pool = canaries()
    texts = [item.record.text for item in pool.written]
    nearest = [
        max(jaccard(text, CORPUS.records[place].text) for place in pool.candidates)
        for text in texts
    ]
    assert max(nearest) < 0.3
    assert not {item.position for item in pool.written} & {*pool.candidates, *pool.auxiliary}


def test_a_beginning_that_a_candidate_has_too_is_drawn_again() -> None:
    """Without the check nearly every canary would begin as some candidate does."""
    repeated = tuple(
        replace(record, id=f"{record.id}-{n}", text=f"{record.text} {n}")
        for record in CORPUS.records[:60]
        for n in range(4)
    )
    corpus = Corpus("c", (*CORPUS.records, *repeated))
    pool = select(order(size=20), corpus=corpus)["canaries"]
    for item in pool.written:
        assert all(
            jaccard(item.record.text, corpus.records[place].text) < 0.3 for place in pool.candidates
        )


def test_a_beginning_is_ordinary_and_an_end_unlikely() -> None:
    pool = canaries(words=10, prefix=0.6)
    known = [CORPUS.records[place].text.split() for place in pool.auxiliary]
    counts = Counter(word for words in known for word in tokens(" ".join(words)))
    ends = []
    for item in pool.written:
        words = item.record.text.split()
        assert len(words) == 10
        assert sum(text[:6] == words[:6] for text in known) >= 1
        ends.append(words[6:])
    assert all(not set(one) & set(two) for one, two in combinations(ends, 2))
    letters = sorted(n for word, n in counts.items() if any(map(str.isalpha, word)))
    limit = letters[round(0.1 * len(letters))]
    assert all(counts[word] <= limit for end in ends for word in end)


def test_words_that_occur_equally_often_are_drawn_and_not_listed() -> None:
    first = {item.record.text.split()[-1][0] for item in canaries(size=20).written}
    assert len(first) > 5  # an alphabetical list would begin with one or two letters


def test_canaries_follow_the_seed_and_nothing_else() -> None:
    assert canaries() == canaries()
    other = select(order(), seed=2)["canaries"]
    assert {i.record.text for i in other.written}.isdisjoint(
        i.record.text for i in canaries().written
    )
    known = set(CORPUS.combinations)
    assert {item.record.labels for item in canaries(size=30).written} <= known


def draw(design: str, pool: Pool, **game: Any) -> Plan:
    settings = {"design": design, "instances": 12, "records": 160, **game}
    return designs.get(design).plugin.draw(pool, GameSection(**settings), 1)


@pytest.mark.parametrize("adjacency", ["replace", "add"])
@pytest.mark.parametrize("design", ["lone", "cohort"])
@pytest.mark.parametrize("repeats", [1, 2])
def test_in_means_all_copies(design: str, adjacency: str, repeats: int) -> None:
    pool = canaries(repeats=repeats)
    plan = draw(design, pool, adjacency=adjacency)
    asked = zip(plan.trials.set, plan.trials.target, plan.trials.member, strict=True)
    for place, target, member in asked:
        inside = Counter(plan.sets[place].records)
        assert inside[plan.targets[target]] == repeats * member
    if adjacency == "replace":
        assert {len(item.records) for item in plan.sets} == {160}
    for item in plan.sets:
        others = [record for record in item.records if record < len(CORPUS)]
        assert len(set(others)) == len(others)


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_canaries_do_not_stand_at_the_end_of_a_set(design: str) -> None:
    """A generator that reads its last records only must not see all canaries."""
    plan = draw(design, canaries(), instances=40)
    places = [
        place / len(item.records)
        for item in plan.sets
        for place, record in enumerate(item.records)
        if record >= len(CORPUS)
    ]
    assert 0.35 < float(np.mean(places)) < 0.65


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_what_surrounds_the_canaries_does_not_depend_on_coins(
    design: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A coin moves its canary's copies and as many fillers, at the same places."""
    plan = draw(design, canaries(repeats=2), adjacency="replace")
    real = designs.get(design).plugin.draw.__globals__["toss"]

    def other(*arguments: Any) -> Any:
        made = real(*arguments)
        return ~made if design == "cohort" else replace(made, member=~made.member)

    monkeypatch.setattr(f"synthleak.plan.{design}.toss", other)
    turned = draw(design, canaries(repeats=2), adjacency="replace")
    for one, two in zip(plan.sets, turned.sets, strict=True):
        assert one.seed == two.seed
        pairs = list(zip(one.records, two.records, strict=True))
        assert all(a == b for a, b in pairs if max(a, b) < len(CORPUS))
        changed = sum(a != b for a, b in pairs)
        expected = 0 if one.name.startswith("reference") else 2 if design == "lone" else 2 * 12
        assert changed == expected


def test_a_pool_survives_the_store() -> None:
    pool = canaries(repeats=4)
    assert Pool.from_bytes(pool.to_bytes()) == pool
    assert pool.copies == (4,) * 12


def test_two_pools_of_canaries_have_positions_of_their_own() -> None:
    pools = select(order("one"), order("two", size=5))
    places = [item.position for pool in pools.values() for item in pool.written]
    assert places == list(range(len(CORPUS), len(CORPUS) + 17))


def test_too_many_copies_are_refused() -> None:
    with pytest.raises(
        PlanError, match=r"12 targets with 96 records, copies included, would be 30%"
    ):
        draw("cohort", canaries(repeats=8))
    with pytest.raises(PlanError, match="32 copies of a canary would be 20%"):
        draw("lone", canaries(repeats=32))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"size": 10**12}, "size = 1,000,000,000,000, and the corpus has"),
        ({"size": 400}, "400 canaries with .* unlikely words each need"),
        ({"size": 200, "prefix": 1.0, "words": 25}, "too few auxiliary records for 200 canaries"),
    ],
)
def test_what_cannot_be_written_is_said_in_a_line(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(PoolError, match=said) as caught:
        canaries(**settings)
    assert caught.value.where == "pool[0]" and caught.value.remedy


def test_canaries_are_written_before_a_release_and_not_after() -> None:
    halves = ("members",) * 250 + ("holdout",) * 250
    given = replace(CORPUS, split=Split(halves[: len(CORPUS)]))
    with pytest.raises(PoolError, match="this release exists already"):
        select(order(), corpus=given)


def test_an_audit_of_people_has_no_canaries() -> None:
    owned = replace(
        CORPUS, records=tuple(replace(r, group=f"p{n % 200}") for n, r in enumerate(CORPUS.records))
    )
    with pytest.raises(PoolError, match="this audit asks about people") as caught:
        select(order(), corpus=owned, max_records=4)
    assert caught.value.where == "pool[0]" and caught.value.remedy


@pytest.mark.parametrize("share", [False, True])
def test_texts_of_canaries_lie_apart_in_the_store(share: bool) -> None:
    """A purge removes that part of the store."""
    store = MemoryStore()
    people = order("people", "random", size=5, draws=1)
    pools = select(people, order(), share=share, store=store)
    texts = [item.record.text for item in pools["canaries"].written]
    holding = [name for name in store.list("") if texts[0].encode() in store.get(name)]
    assert holding and all(name.startswith("written/") for name in holding)


def test_canaries_join_no_pool_of_people() -> None:
    with pytest.raises(PoolError, match="was written for the test"):
        select(
            order(),
            order("people", "random", size=5, draws=1),
            order("both", "union", of=["canaries", "people"]),
        )


def test_an_id_of_the_corpus_is_not_used_again() -> None:
    corpus = Corpus("c", (*CORPUS.records, Record("canaries-03", "a text of its own")))
    with pytest.raises(PoolError, match="'canaries-03'"):
        select(order(), corpus=corpus)


EVERY = "\n".join(fold(record.text) for record in CORPUS.records)


def test_plain_canaries_stay_as_they_were() -> None:
    texts = [[item.record.text, item.record.labels] for item in canaries().written]
    assert digest(texts) == "6000553b4848bc08665aaf074bc2a469"
    assert "kinds" not in order().rule.identity()


def test_a_sign_of_its_own_stands_once_in_a_canary() -> None:
    signs = [
        [letter for letter in item.record.text if fold(letter).strip() and letter not in EVERY]
        for item in canaries(kind="character").written
    ]
    known = set(EVERY) | set(EVERY.upper())
    own = [[letter for letter in found if letter not in known] for found in signs]
    assert {len(found) for found in own} == {1}
    assert len({found[0] for found in own}) == 12


def test_an_unknown_word_is_repeated_often() -> None:
    words = []
    for item in canaries(kind="word").written:
        word, count = Counter(tokens(item.record.text)).most_common(1)[0]
        assert count == 25 and word not in EVERY
        words.append(word)
    assert len(set(words)) == 12


def test_long_canaries_differ_in_their_lengths() -> None:
    longest = max(len(record.text.split()) for record in CORPUS.records)
    lengths = [len(item.record.text.split()) for item in canaries(kind="long").written]
    assert min(lengths) >= 4 * longest and len(set(lengths)) == 12


def test_a_label_of_its_own_is_that_of_no_record() -> None:
    labels = [item.record.labels for item in canaries(kind="label").written]
    assert len(set(labels)) == 12
    assert not {label for (label,) in labels} & set(CORPUS.label_names)
    plain = Corpus("c", tuple(replace(record, labels=()) for record in CORPUS.records))
    with pytest.raises(PoolError, match="no record has a label"):
        select(order(kind="label"), corpus=plain)


def test_kinds_take_turns() -> None:
    pool = canaries(kind=["label", "character"])
    new = [item.record.labels not in CORPUS.combinations for item in pool.written]
    assert new == [True, False] * 6
