"""Games of persons: all of a person's records are in or out together."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.errors import PlanError, SpecError
from synthleak.core.spec import GameSection, parse_spec
from synthleak.corpus import Corpus
from synthleak.corpus.readers.demo import write_demo
from synthleak.plan import Plan, designs
from synthleak.pools import Pool
from synthleak.pools.pool import persons_of, split

CORPUS = Corpus("demo", tuple(write_demo(900, 2, persons=True)))
MOST = 6


def pool_of(targets: int = 8, seed: int = 1) -> Pool:
    persons = persons_of(CORPUS, MOST, seed)
    chosen = [own[0] for own in persons.records[:targets]]
    return split(CORPUS, "pool", chosen, auxiliary=0.4, seed=seed, persons=persons)


def game(design: str, adjacency: str, **more: object) -> GameSection:
    settings = {"instances": 12, "records": 300, "unit": "person", "max_records": MOST}
    return GameSection.model_validate(
        {"design": design, "adjacency": adjacency, **settings, **more}
    )


def drawn(design: str, adjacency: str, pool: Pool, seed: int = 5) -> Plan:
    return designs.get(design).plugin.draw(pool, game(design, adjacency), seed)


@pytest.mark.parametrize("adjacency", ["replace", "add"])
@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_a_person_is_in_with_all_records_or_with_none(design: str, adjacency: str) -> None:
    pool = pool_of()
    plan = drawn(design, adjacency, pool)
    joined = {(int(s), int(t)) for s, t, m in _rows(plan) if m}
    for number, item in enumerate(plan.sets[:12]):
        inside = set(item.records)
        assert len(inside) == len(item.records)
        for target in range(len(pool.targets)):
            own = set(pool.records_of(target))
            assert own & inside == (own if (number, target) in joined else set())
        assert inside <= {*pool.asked, *pool.candidates}
        if adjacency == "replace":
            assert len(item.records) == plan.nominal


def _rows(plan: Plan) -> list[tuple[int, int, bool]]:
    trials = plan.coins
    assert trials is not None
    return list(
        zip(trials.set.tolist(), trials.target.tolist(), trials.member.tolist(), strict=True)
    )


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_backgrounds_are_whole_persons_but_for_cuts(design: str) -> None:
    pool = pool_of()
    assert pool.persons is not None
    plan, owned = drawn(design, "add", pool), pool.persons.candidates
    for item in plan.sets[:12]:
        inside = set(item.records)
        cut = [own for own in owned if 0 < len(inside & set(own)) < len(own)]
        assert len(cut) <= 1  # the last person drawn has as many records as fit


def test_without_fillers_the_background_tells_nothing_of_the_target() -> None:
    """Persons differ in size: a background short of the target's own would give it away."""
    pool = pool_of()
    assert len(set(pool.sizes)) > 1
    plan = drawn("lone", "add", pool)
    backgrounds = {len(set(item.records) - set(pool.asked)) for item in plan.sets[:12]}
    assert backgrounds == {300 - round(np.mean(pool.sizes))}


def test_every_person_is_in_half_of_the_references_as_a_whole() -> None:
    pool = pool_of()
    plan = drawn("lone", "replace", pool)
    references = [set(item.records) for item in plan.sets if item.name.endswith("-raw")]
    assert {len(reference) for reference in references} == {300}
    for target in range(len(pool.targets)):
        own = set(pool.records_of(target))
        held = [own & reference for reference in references]
        assert sorted(map(len, held)) == [0, 0, len(own), len(own)]


def test_cohort_counts_records_of_persons() -> None:
    with pytest.raises(PlanError, match=r"targets with \d+ records would be"):
        drawn("cohort", "replace", pool_of(30))


def test_max_records_belongs_to_persons() -> None:
    with pytest.raises(SpecError, match="max_records"):
        parse_spec(
            {
                "corpus": {"reader": "demo"},
                "pool": [{"name": "a", "rule": "outlier"}],
                "game": {"max_records": 5},
                "generator": [{"kind": "echo"}],
            }
        )


def test_keys_of_record_games_do_not_know_persons() -> None:
    assert "unit" not in GameSection().model_dump()
    written = GameSection(unit="person").model_dump()
    assert (written["unit"], written["max_records"]) == ("person", 10)
    assert GameSection.model_validate(written) == GameSection(unit="person")
