"""Design `cohort`: a fair coin for every record, partners drawn before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from synthleak.calibration import expectation
from synthleak.core.errors import PlanError
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.plan import Plan, designs
from synthleak.plan.cohort import toss
from synthleak.pools import Pool


def cohort_pool(targets: int = 8) -> Pool:
    rest = range(targets, targets + 240)
    return Pool("p", tuple(range(targets)), ("p",) * targets, tuple(rest[::2]), tuple(rest[1::2]))


def draw(pool: Pool | None = None, seed: int = 1, **game: Any) -> Plan:
    settings = {"design": "cohort", "instances": 12, "records": 40} | game
    return designs.get("cohort").plugin.draw(pool or cohort_pool(), GameSection(**settings), seed)


def coins_of(plan: Plan) -> np.ndarray:
    return plan.trials.member.reshape(-1, len(plan.targets))


def test_partners_replace_the_absent_records() -> None:
    plan = draw(adjacency="replace")
    for records, coins in zip(plan.sets, coins_of(plan), strict=False):
        inside = {record for record in records.records if record < 8}
        assert inside == set(np.flatnonzero(coins).tolist())
        assert len(records.records) == len(set(records.records)) == 40


def draw_with(coins: np.ndarray, monkeypatch: pytest.MonkeyPatch, **game: Any) -> Plan:
    monkeypatch.setattr("synthleak.plan.cohort.toss", lambda *_: coins)
    return draw(**game)


@pytest.mark.parametrize("adjacency", ["replace", "add"])
def test_backgrounds_and_partners_do_not_depend_on_coins(
    adjacency: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each coin swaps one record for its partner (or for nothing), whatever the other coins."""
    everybody = np.ones((12, 8), dtype=bool)
    full = draw_with(everybody, monkeypatch, adjacency=adjacency)
    without = [
        draw_with(everybody & (np.arange(8) != j), monkeypatch, adjacency=adjacency)
        for j in range(8)
    ]
    coins = stream("coins").random((12, 8)) < 0.5
    mixed = draw_with(coins, monkeypatch, adjacency=adjacency)
    assert (coins_of(mixed) == coins).all()
    for i, (complete, some) in enumerate(zip(full.sets[:12], mixed.sets[:12], strict=True)):
        expected = set(complete.records)
        for j in np.flatnonzero(~coins[i]).tolist():
            partner = set(without[j].sets[i].records) - set(complete.records)
            assert len(partner) == (adjacency == "replace")
            expected = (expected - {j}) | partner
        assert set(some.records) == expected and some.seed == complete.seed
    assert full.sets[12:] == mixed.sets[12:]


def test_adjacencies_share_backgrounds_and_coins() -> None:
    plan, added = draw(adjacency="replace"), draw(adjacency="add")
    assert coins_of(plan).tolist() == coins_of(added).tolist()
    for replaced, joined, coins in zip(plan.sets, added.sets, coins_of(plan), strict=False):
        background = set(joined.records) - set(range(8))
        assert len(background) == 40 - 4
        # N records were drawn: 32 of background and 8 partners; `add` keeps the first 36 of them.
        partners = set(replaced.records) - set(range(8)) - background
        assert len(partners) <= (~coins).sum()
        assert replaced.seed == joined.seed


def test_added_records_leave_the_nominal_size_alone() -> None:
    plan = draw(adjacency="add")
    sizes = [len(s.records) for s in plan.sets if s.form == "release"]
    assert plan.nominal == 40 and len(set(sizes)) > 1
    assert sizes == [36 + n for n in coins_of(plan).sum(axis=1).tolist()]


def test_every_trial_is_a_coin() -> None:
    plan = draw()
    assert len(plan.trials) == 12 * 8 and plan.trials.rounds == 1
    assert plan.coins is plan.trials
    assert Plan.from_bytes(plan.to_bytes()).to_bytes() == plan.to_bytes()


def test_coins_are_fair_and_independent_not_balanced() -> None:
    rng = stream(5)
    tosses = np.array([toss(4, 3, rng) for _ in range(3000)])
    assert np.abs(tosses.mean(axis=0) - 0.5).max() < 0.04
    flat = tosses.reshape(3000, 12).astype(float)
    apart = np.corrcoef(flat.T) - np.eye(12)
    assert np.abs(apart).max() < 0.08
    heads = tosses.sum(axis=(1, 2))
    assert heads.min() <= 2 and heads.max() >= 10


def test_s2_is_raw_references_and_s3_every_other_instance() -> None:
    plan = draw()
    assert [s.form for s in plan.sets] == ["release"] * 12 + ["raw"] * 4
    uses = {b.scenario: b.uses for b in plan.baselines}
    assert not uses["S1"].any()
    assert (uses["S2"] == (np.arange(16) >= 12)).all()
    assert (uses["S3"] == (np.arange(16) < 12)).all()
    raw = plan.sets[12:]
    inside = np.array([[t in s.records for s in raw] for t in plan.targets])
    assert (inside.sum(axis=1) == 2).all()
    values = stream(1).normal(size=(16, 8, 2))
    expected = expectation(values, plan.baselines[2])
    others = np.delete(values[:12], 3, axis=0)
    assert expected[3] == pytest.approx(others.mean(axis=0))


def test_one_instance_has_no_others_to_calibrate_on() -> None:
    plan = draw(instances=1)
    assert [b.scenario for b in plan.baselines] == ["S1", "S2"]
    assert len(plan.trials) == 8
    assert not designs.get("cohort").plugin.within_records(plan)
    assert designs.get("cohort").plugin.within_records(draw(instances=2))


def test_a_redraw_tosses_every_coin_again() -> None:
    plan = draw()
    game = GameSection(design="cohort", instances=12, records=40)
    again = designs.get("cohort").plugin.redraw(plan, game, stream(3))
    assert (again.set == plan.trials.set).all() and (again.target == plan.trials.target).all()
    assert 20 < (again.member != plan.trials.member).sum() < 76


def test_a_too_large_pool_is_refused_with_the_limit() -> None:
    with pytest.raises(PlanError, match=r"9 .*45 .* 8") as error:
        draw(cohort_pool(9))
    assert error.value.where == "game.records"
    assert draw(cohort_pool(8)).nominal == 40


@pytest.mark.parametrize(
    ("instances", "targets", "key"), [(7, 8, "game.instances"), (8, 1, "game.design")]
)
def test_lone_needs_even_instances_and_two_records(instances: int, targets: int, key: str) -> None:
    game = GameSection(instances=instances, records=40)
    with pytest.raises(PlanError) as error:
        designs.get("lone").plugin.draw(cohort_pool(targets), game, 1)
    assert error.value.where == key
    assert draw(cohort_pool(targets), instances=instances).nominal == 40


def test_lone_writes_down_its_designations() -> None:
    plan = designs.get("lone").plugin.draw(
        cohort_pool(), GameSection(instances=16, records=40, rounds=3), 1
    )
    coins = plan.coins
    assert coins is not None and len(coins) == 16
    assert np.bincount(coins.target).tolist() == [2] * 8
    members = plan.trials.member
    assert (coins.target[coins.member] == plan.trials.target[members]).all()
    assert (np.flatnonzero(coins.member) == plan.trials.set[members]).all()
    for i in np.flatnonzero(~coins.member):
        mine = (plan.trials.set == i) & ~members
        assert coins.target[i] not in plan.trials.target[mine]
