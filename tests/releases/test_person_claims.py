"""Claims about persons: groups of records, and mechanisms that bound persons themselves."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest

from synthleak.corpus import Record
from synthleak.releases import Claim, GaussianEvent, Request, gaussian_sigma, stated_claim
from synthleak.releases.exchange import dump_training
from synthleak.releases.generator import bounded_contributions
from synthleak.releases.generators.dpsgd import DpSgd
from synthleak.releases.generators.ngram import Ngram, bounded_sum, public_support
from synthleak.releases.release import public_side

DELTA = 1e-5


def gaussian(epsilon: float = 1.0) -> Claim:
    event = GaussianEvent("sum", gaussian_sigma(epsilon, DELTA), replace_sensitivity=math.sqrt(2))
    return Claim(epsilon, DELTA, (event,))


def exact_delta(mu: float, epsilon: float) -> float:
    """δ(ε) of a Gaussian that moves by μ standard deviations (Balle and Wang 2018)."""
    from scipy.stats import norm

    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    )


@pytest.mark.parametrize("adjacency", ["add", "replace"])
@pytest.mark.parametrize("group", [1, 3, 8])
def test_a_group_of_records_moves_a_gaussian_sum_that_many_times(
    group: int, adjacency: str
) -> None:
    claim = gaussian().for_persons(group)
    moved = group * (1.0 if adjacency == "add" else math.sqrt(2)) / claim.events[0].sigma
    epsilon = claim.epsilon_at(DELTA, adjacency)  # type: ignore[arg-type]
    assert exact_delta(moved, epsilon) == pytest.approx(DELTA, rel=0.02)


def test_a_sampled_group_lies_between_one_record_and_one_that_is_always_in() -> None:
    event = GaussianEvent("steps", 1.2, replace_sensitivity=2.0, count=20, rate=0.1)
    claim = Claim(1.0, DELTA, (event,))
    group = claim.for_persons(3).epsilon_at(DELTA)
    single = claim.epsilon_at(DELTA)
    always = Claim(1.0, DELTA, (GaussianEvent("steps", 0.4, count=20),)).epsilon_at(DELTA)
    assert 2 * single < group < always


def test_a_stated_point_grows_as_group_privacy_says() -> None:
    claim = stated_claim(0.5, 1e-6)
    epsilon, delta = claim.for_persons(4).point("add")
    assert (epsilon, delta) == (2.0, pytest.approx(1e-6 * sum(math.exp(0.5 * i) for i in range(4))))
    assert claim.point("replace") == (1.0, pytest.approx((1 + math.exp(0.5)) * 1e-6))
    assert claim.for_persons(4).point("replace")[0] == 4.0


def test_a_claim_about_persons_holds_as_it_is_under_add() -> None:
    claim = Claim(**{**gaussian().__dict__, "unit": "person"})
    held = claim.for_persons(3)
    assert held.epsilon_at(DELTA) == claim.epsilon_at(DELTA)
    assert held.loose and not claim.loose
    steps = gaussian().for_persons(7).epsilon_at(DELTA)  # three others changed, and the target
    assert held.epsilon_at(DELTA, "replace") == pytest.approx(steps)


def test_claims_about_records_are_written_as_before() -> None:
    assert set(gaussian().to_json()) == {
        "epsilon",
        "delta",
        "events",
        "adjacency",
        "accountant",
        "public",
        "void",
    }
    person = Claim(1.0, DELTA, unit="person")
    assert Claim.from_json(person.to_json()) == person


WORDS = ["took it and slept", "slept badly", "it and it", "badly badly it", "took took it"]


def records(owners: str) -> tuple[Record, ...]:
    return tuple(
        Record(str(n), f"{WORDS[n % len(WORDS)]} {n % 3}", (), None if owner == "-" else owner)
        for n, owner in enumerate(owners)
    )


def request(private: tuple[Record, ...], epsilon: float = 1.0) -> Request:
    side = public_side([Record(f"a{n}", text) for n, text in enumerate(WORDS)], {(): 1})
    return Request(private, 20, 10, epsilon, 1 / 400, side, 1)


def test_one_person_moves_the_sum_of_ngram_by_one_at_most() -> None:
    private, generator = records("aabbbbab-b-a"), Ngram(unit="person", max_records=4)
    support = public_support(request(private).public)

    def total(kept: tuple[Record, ...]) -> np.ndarray:
        return bounded_sum(generator.contributions(request(kept)), support)

    for person in ("a", "b", None):
        without = tuple(r for r in private if r.group != person or (person is None and r.id != "8"))
        assert np.linalg.norm(total(private) - total(without)) <= 1 + 1e-9
    alone = [(record,) for record in private if record.group == "b"]
    assert np.linalg.norm(bounded_sum(alone, support)) > 2  # record by record it would be more


def test_the_records_that_are_kept_depend_on_the_person_alone() -> None:
    private = records("aaaaaabbbbbb")
    kept = dict(enumerate(bounded_contributions(private, 3, seed=7)))
    assert [len(own) for own in kept.values()] == [3, 3]
    only = bounded_contributions(private[6:], 3, seed=7)
    assert only[0] == kept[1]
    shuffled = bounded_contributions(private[::-1], 3, seed=7)
    assert {record.id for record in shuffled[0]} == {record.id for record in kept[1]}


@pytest.mark.parametrize("kind", [Ngram, DpSgd])
def test_claims_say_whom_they_protect(kind: type[Ngram] | type[DpSgd]) -> None:
    asked = request(records("aab"))
    assert kind().claim(asked).unit == "record"
    person = kind(unit="person").claim(asked)
    assert person.unit == "person"
    assert "person" in person.events[0].what
    assert person.events[0].sigma == kind().claim(asked).events[0].sigma
    assert "unit" not in kind().identity()
    assert kind(unit="person").identity()["max_records"] == 10


def test_training_files_say_whose_record_is_whose_only_for_persons() -> None:
    private = records("ab-a")
    assert b"person" not in dump_training(private)
    lines = dump_training(private, persons=True).splitlines()
    assert [line.rpartition(b'"person": ')[2] for line in lines] == [b"1}", b"2}", b"3}", b"1}"]


def test_groups_and_budgets_are_monotone() -> None:
    found = [
        gaussian(epsilon).for_persons(group).epsilon_at(DELTA)
        for epsilon, group in product((0.5, 2.0), (1, 2, 4))
    ]
    assert found[:3] == sorted(found[:3]) and found[3:] == sorted(found[3:])
