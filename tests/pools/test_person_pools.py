"""Persons as targets: who is selected, who is left, and which of their records take part."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from synthleak.core.errors import PoolError
from synthleak.core.store import MemoryStore
from synthleak.corpus import Corpus, Record
from synthleak.corpus.corpus import Split
from synthleak.corpus.readers.demo import write_demo
from synthleak.pools import Filter, Ground, Pool, Rule, rules
from synthleak.pools.pool import persons_of
from synthleak.pools.selection import PoolOrder, select_all


def corpus(size: int = 400, seed: int = 1) -> Corpus:
    return Corpus("demo", tuple(write_demo(size, seed, persons=True)))


def pools_of(
    found: Corpus, *sections: tuple[str, str, dict[str, Any]], most: int | None = 5, seed: int = 3
) -> dict[str, Pool]:
    orders = [
        PoolOrder(name, rules.build(rule, settings, key="rule", where=("pool", 0)), "pool[0]")
        for name, rule, settings in sections
    ]
    vectors = np.random.default_rng(1).normal(size=(len(found), 8)).astype(np.float32)
    return select_all(
        orders,
        found,
        lambda: vectors,
        {},
        auxiliary=0.5,
        seed=seed,
        store=MemoryStore(),
        max_records=most,
    )


RANDOM = ("random", "random", {"size": 12, "draws": 1})


def test_targets_candidates_and_auxiliary_share_no_person() -> None:
    found = corpus()
    pool = pools_of(found, RANDOM)["random"]
    assert pool.persons is not None
    sides = [pool.asked, pool.candidates, pool.auxiliary]
    owners = [{found.records[place].group for place in side} for side in sides]
    assert not owners[0] & owners[1] and not owners[0] & owners[2] and not owners[1] & owners[2]
    assert len(owners[0]) == len(pool.targets) == 12
    assert len(pool.auxiliary) == pytest.approx(len(pool.candidates), rel=0.05)
    assert Pool.from_bytes(pool.to_bytes()) == pool


def test_at_most_max_records_of_a_person_take_part() -> None:
    found = corpus()
    whole = Counter(record.group for record in found.records)
    pool = pools_of(found, RANDOM, most=3)["random"]
    assert pool.persons is not None
    for side in (pool.persons.targets, pool.persons.candidates, pool.persons.auxiliary):
        for own in side:
            assert len(own) == min(3, whole[found.records[own[0]].group])
    drawn = persons_of(found, 3, seed=3).records
    assert drawn == persons_of(found, 3, seed=3).records
    assert drawn != persons_of(found, 3, seed=4).records


def test_a_person_is_selected_who_owns_a_selected_record() -> None:
    found = corpus()
    planted = [place for place, record in enumerate(found.records) if record.meta["planted"]]
    pool = pools_of(found, ("odd", "where", {"where": "planted == true"}), most=2)["odd"]
    names = {found.person_names[target] for target in pool.targets}
    assert names == {found.records[place].group for place in planted}


def test_size_counts_persons_and_keeps_the_most_extreme() -> None:
    found = corpus(200)
    persons = persons_of(found, 5, seed=1)

    class Late(Filter):
        """The later a record, the more extreme."""

        def matches(self, ground: Ground) -> dict[int, float]:
            return {place: float(place) for place in range(len(ground.corpus))}

    ground = Ground(
        found, lambda: np.zeros((1, 1), np.float32), {}, np.random.default_rng(1), persons
    )
    chosen = Late(size=4).select(ground)
    last = {number: max(own) for number, own in enumerate(persons.owned)}
    expected = sorted(last, key=lambda number: -last[number])[:4]
    assert sorted(chosen) == sorted(persons.records[number][0] for number in expected)


def test_a_rule_that_selects_by_itself_may_name_any_record() -> None:
    found = corpus(200)
    several = next(own for own in persons_of(found, 9, 1).records if len(own) > 2)
    other = next(place for place in range(200) if place not in several)

    class Named(Rule):
        """Two records of one person, and one of another."""

        kind = "named"

        def select(self, ground: Ground) -> list[int]:
            return [several[1], several[2], other]

    order = PoolOrder("named", Named(), "pool[0]")
    made = select_all(
        [order],
        found,
        lambda: np.zeros((1, 1), np.float32),
        {},
        auxiliary=0.5,
        seed=1,
        store=MemoryStore(),
        max_records=9,
    )["named"]
    assert len(made.targets) == 2
    assert several in (made.persons.targets if made.persons else ())


def test_controls_are_disjoint_as_persons() -> None:
    pools = pools_of(corpus(), RANDOM, ("control", "random", {"match": "random", "draws": 2}))
    owners = [{pool.targets[t] for t in range(12)} for pool in pools.values()]
    assert [len(pool.targets) for pool in pools.values()] == [12, 12, 12]
    assert not owners[0] & owners[1] and not owners[1] & owners[2]


def test_records_without_a_group_are_persons_of_their_own() -> None:
    records = [Record(str(n), f"text {n}", (), "1" if n in (4, 5) else None) for n in range(8)]
    found = Corpus("mixed", tuple(records))
    assert [len(own) for own in persons_of(found, 5, 1).records] == [1, 1, 1, 1, 2, 1, 1]
    assert len(set(found.person_names)) == 7  # the record "1" is not the person "1"


def test_a_corpus_that_names_nobody_is_refused() -> None:
    nobody = Corpus("demo", tuple(write_demo(60, 1)))
    with pytest.raises(PoolError, match="no record says whose it is"):
        persons_of(nobody, 5, 1)


def test_a_split_of_single_records_has_no_persons() -> None:
    found = corpus(300)
    rng = np.random.default_rng(1)
    roles = tuple(rng.permutation(["members", "holdout"] * 150).tolist())
    torn = Corpus("torn", found.records, split=Split(roles, "random"))
    with pytest.raises(PoolError, match="on both sides"):
        persons_of(torn, 5, 1)


def test_a_reference_holds_no_record_of_the_people_asked_about() -> None:
    """Other records of the holdout's people in the baseline would look like a leak of members."""
    owners = ["a", "a", "b", "c", "c", "d", "a", "d", "e", None]
    roles = ["members"] * 3 + ["holdout"] * 3 + ["reference"] * 4
    records = tuple(Record(str(n), f"text {n}", (), who) for n, who in enumerate(owners))
    found = Corpus("given", records, split=Split(tuple(roles), "random"))  # type: ignore[arg-type]
    pool = pools_of(found, ("all", "all", {}))["all"]
    assert pool.auxiliary == (8, 9)
    assert len(pool.targets) == 4
    assert pools_of(found, ("all", "all", {}), most=None)["all"].auxiliary == (6, 7, 8, 9)
