"""Design `lone`: what is fixed, what chance decides, and that the two are apart."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from synthleak.core.errors import PlanError
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.plan import Plan, designs
from synthleak.plan.lone import toss
from synthleak.plan.plan import EVERY_ROUND
from synthleak.pools import Pool


def pool_of(targets: int = 14, rest: int = 200, origins: tuple[str, ...] = ()) -> Pool:
    names = origins or ("p",) * targets
    positions = range(targets, targets + rest)
    return Pool(
        name="p",
        targets=tuple(range(targets)),
        origins=names,
        candidates=tuple(positions[::2]),
        auxiliary=tuple(positions[1::2]),
    )


def draw(pool: Pool | None = None, seed: int = 1, **game: Any) -> Plan:
    settings = {"instances": 20, "records": 40, "rounds": 6, "candidates": 5} | game
    return designs.get("lone").plugin.draw(pool or pool_of(), GameSection(**settings), seed)


def instances(plan: Plan) -> list[tuple[int, ...]]:
    return [s.records for s in plan.sets if s.name.startswith("instance")]


@pytest.mark.parametrize(("adjacency", "without"), [("replace", 40), ("add", 39)])
def test_designated_target_joins_half_of_the_sets(adjacency: str, without: int) -> None:
    plan = draw(adjacency=adjacency)
    positive = {
        int(s): int(t)
        for s, t, m in zip(plan.trials.set, plan.trials.target, plan.trials.member, strict=True)
        if m
    }
    assert len(positive) == 10
    for position, records in enumerate(instances(plan)):
        inside = [record for record in records if record < 14]
        assert len(set(records)) == len(records)
        if position in positive:
            assert inside == [plan.targets[positive[position]]]
            assert len(records) == 40
        else:
            assert inside == []
            assert len(records) == without


def test_backgrounds_do_not_depend_on_coins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other coins change the target and the filler of an instance, and nothing else."""
    plan = draw(adjacency="replace")
    monkeypatch.setattr(
        "synthleak.plan.lone.toss", lambda origins, game, _: toss(origins, game, stream("other"))
    )
    other = draw(adjacency="replace")
    assert not np.array_equal(plan.trials.target, other.trials.target)
    differing = 0
    for one, two in zip(instances(plan), instances(other), strict=True):
        assert len(set(one) - set(two)) == len(set(two) - set(one)) <= 1
        differing += set(one) != set(two)
    assert differing > 5
    assert [s.seed for s in plan.sets] == [s.seed for s in other.sets]
    assert plan.sets[20:] == other.sets[20:]


def test_adjacencies_differ_by_the_filler_alone() -> None:
    replaced, added = draw(adjacency="replace"), draw(adjacency="add")
    for with_filler, without in zip(instances(replaced), instances(added), strict=True):
        assert set(without) <= set(with_filler)
        assert len(with_filler) - len(without) in (0, 1)
    assert [s.seed for s in replaced.sets] == [s.seed for s in added.sets]
    assert replaced.sets[20:] == added.sets[20:]


def test_raw_and_released_references_share_a_seed() -> None:
    plan = draw()
    releases = [s.seed for s in plan.sets if s.form == "release"]
    assert len(set(releases)) == len(releases) == 24


def test_rounds_share_members_and_redraw_others() -> None:
    plan = draw()
    trials = plan.trials
    assert trials.rounds == 6
    assert (trials.round[trials.member] == EVERY_ROUND).all()
    for number in range(6):
        now = (trials.round == number) & ~trials.member
        assert now.sum() == 10
        assert len(set(trials.set[now].tolist())) == 10
    assert not set(trials.set[trials.member]) & set(trials.set[~trials.member])


def test_designation_is_even_and_excludes_the_target() -> None:
    game = GameSection(instances=100, rounds=50, candidates=20)
    coins = toss(("p",) * 60, game, stream(5))
    counts = Counter(coins.target.tolist())
    assert set(counts.values()) == {1, 2} and len(counts) == 60
    assert coins.member.sum() == 50
    assert not (coins.candidate == coins.target[:, None]).any()
    assert all(len(set(row)) <= 20 for row in coins.candidate.tolist())
    assert coins.candidate.min() >= 0 and coins.candidate.max() < 60


def test_members_are_not_balanced_within_records() -> None:
    """Designation is even over all instances; who of them joined is free (docs/method.md §4)."""
    game = GameSection(instances=40, rounds=2)
    shares = set()
    for seed in range(30):
        coins = toss(("p",) * 10, game, stream(seed))
        shares |= set(Counter(coins.target[coins.member].tolist()).values())
    assert {0, 1, 2, 3, 4} & shares >= {1, 2, 3}


def test_a_small_pool_offers_all_others_as_candidates() -> None:
    coins = toss(("p",) * 3, GameSection(instances=50, rounds=40), stream(2))
    for target, row in zip(coins.target.tolist(), coins.candidate.tolist(), strict=True):
        assert set(row) == {0, 1, 2} - {target}


def test_a_merged_pool_shares_designations_between_origins() -> None:
    origins = ("a",) * 5 + ("b",) * 9
    coins = toss(origins, GameSection(instances=30), stream(1))
    first = (coins.target < 5).sum()
    assert first == 15
    assert set(Counter(coins.target[coins.target < 5].tolist()).values()) == {3}
    assert set(Counter(coins.target[coins.target >= 5].tolist()).values()) <= {1, 2}


def test_the_coins_are_uniform() -> None:
    """Over many tosses every instance joins half of the time and every record is drawn alike."""
    game = GameSection(instances=8, rounds=3, candidates=2)
    member, target = np.zeros(8), np.zeros(4)
    for seed in range(4000):
        coins = toss(("p",) * 4, game, stream(seed, "uniform"))
        member += coins.member
        target += np.bincount(coins.candidate.ravel(), minlength=4)
    assert np.abs(member / 4000 - 0.5).max() < 0.04
    assert np.abs(target / target.sum() - 0.25).max() < 0.01


def test_references_hold_each_target_in_exactly_half() -> None:
    plan = draw(references=4)
    raw = [s for s in plan.sets if s.form == "raw"]
    made = [s for s in plan.sets if s.name in {f"reference-{j}" for j in range(4)}]
    assert [s.records for s in raw] == [s.records for s in made]
    inside = np.array([[t in s.records for s in raw] for t in plan.targets])
    assert (inside.sum(axis=1) == 2).all()
    assert {len(s.records) for s in raw} == {40}
    auxiliary = set(pool_of().auxiliary)
    assert all(set(s.records) - set(plan.targets) <= auxiliary for s in raw)


def test_baselines_name_the_right_observations() -> None:
    plan = draw()
    by_name = {b.scenario: b.uses for b in plan.baselines}
    assert not by_name["S1"].any()
    assert (by_name["S2"] == np.array([s.form == "raw" for s in plan.sets])).all()
    made = np.array([s.name.startswith("reference") and s.form == "release" for s in plan.sets])
    assert (by_name["S3"] == made).all()


def test_a_plan_survives_the_store() -> None:
    plan = draw()
    again = Plan.from_bytes(plan.to_bytes())
    assert again.to_bytes() == plan.to_bytes()
    assert again.sets == plan.sets and again.targets == plan.targets


def test_redraw_keeps_the_shape_of_the_plan() -> None:
    plan = draw()
    design, game = designs.get("lone").plugin, GameSection(instances=20, rounds=6, candidates=5)
    again = design.redraw(plan, game, stream(9))
    assert len(again) == len(plan.trials)
    assert not np.array_equal(again.target, plan.trials.target)


@pytest.mark.parametrize(
    ("game", "pool", "message"),
    [
        ({"records": 150}, pool_of(), "leaves 100 candidates; use at most 100"),
        ({"records": 40}, pool_of(targets=90), "would fill more than half of a reference"),
        ({"records": "auto"}, pool_of(rest=700), None),
    ],
)
def test_a_game_that_cannot_be_played_is_refused(
    game: dict[str, Any], pool: Pool, message: str | None
) -> None:
    if message is None:
        assert draw(pool, **game).nominal == 200
        return
    with pytest.raises(PlanError, match=message):
        draw(pool, **game)
