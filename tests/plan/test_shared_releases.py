"""Pools that share releases: one game, each pool with coins of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from synthleak.audit.setup import Setup
from synthleak.audit.stages import set_up
from synthleak.audit.steps.releases import count_releases, make_releases, missing_releases
from synthleak.audit.steps.work import say_news
from synthleak.core.engine.progress import Silent
from synthleak.core.errors import PlanError
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection, LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.plan import designs
from synthleak.preflight.preview import count_observations

POOLS = [
    {"name": "outlier", "rule": "outlier", "percentile": 90, "size": 10},
    {"name": "rare", "rule": "rare", "max_frequency": 3, "size": 8},
    {"name": "canaries", "rule": "canary", "size": 6, "repeats": 2},
]


def setup_of(parts: dict[str, Any] | None = None, **game: Any) -> Setup:
    spec = {
        "seed": 3,
        "corpus": {"reader": "demo", "size": 600},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": POOLS,
        "game": {"design": "cohort", "instances": 6, "records": 200, "share_releases": True} | game,
        "generator": [{"kind": "bystander"}],
        **(parts or {}),
    }
    return set_up(LoadedSpec(parse_spec(spec)), MemoryStore())


def test_one_set_of_releases_serves_all_pools() -> None:
    setup = setup_of()
    assert sum(len(unit.sets) for unit in missing_releases(setup)) == 6
    for unit in missing_releases(setup):
        make_releases(setup, unit)
    assert missing_releases(setup) == []
    first, *others = (plan.sets for plan in setup.plans.values())
    assert all(sets == first for sets in others)
    separate = setup_of(share_releases=False)
    assert sum(len(unit.sets) for unit in missing_releases(separate)) == 18
    assert (count_releases(setup), count_releases(separate)) == (6, 18)
    assert count_observations(setup) == count_observations(separate)


def test_releases_that_pools_share_are_counted_once_as_kept() -> None:
    setup, said = setup_of(), []
    notes = Silent()
    notes.say = said.append  # type: ignore[method-assign]
    say_news(setup, notes, ["pool outlier is new"])
    make_releases(setup, next(iter(missing_releases(setup))))
    say_news(setup, notes, ["pool outlier is new"])
    assert said[1::2] == ["to make: 6 releases; kept: 0", "to make: 0 releases; kept: 6"]


def test_no_target_of_any_pool_is_background() -> None:
    setup = setup_of()
    targets = {target for pool in setup.pools.values() for target in pool.targets}
    for pool in setup.pools.values():
        assert not targets & {*pool.candidates, *pool.auxiliary}
    canaries = setup.pools["canaries"].written
    assert {item.position for item in canaries} <= targets


def test_trials_tell_the_truth_about_every_pool() -> None:
    setup = setup_of()
    for plan in setup.plans.values():
        asked = zip(plan.trials.set, plan.trials.target, plan.trials.member, strict=True)
        for place, target, member in asked:
            assert (plan.targets[target] in plan.sets[place].records) == member
        for baseline in plan.baselines:
            assert baseline.uses.shape == (len(plan.targets), len(plan.sets))
        assert plan.coins is not None and len(plan.coins) == 6 * len(plan.targets)


def test_a_record_of_two_pools_has_one_coin() -> None:
    setup = setup_of()
    coins = {}
    for plan in setup.plans.values():
        table = plan.trials.member.reshape(6, -1)
        for column, target in enumerate(plan.targets):
            assert np.array_equal(coins.setdefault(target, table[:, column]), table[:, column])


PEOPLE = {
    "corpus": {"reader": "demo", "size": 900, "persons": True},
    "pool": [
        {"name": "outlier", "rule": "outlier", "percentile": 80, "size": 4},
        {"name": "random", "rule": "random", "size": 6, "draws": 1},
        {"name": "again", "rule": "union", "of": ["outlier", "random"], "shared": "first"},
    ],
}


def test_people_share_releases_with_all_their_records() -> None:
    setup = setup_of(PEOPLE, unit="person", max_records=6, records=300)
    coins: dict[int, Any] = {}
    for name, plan in setup.plans.items():
        pool = setup.pools[name]
        assert plan.sets == setup.plans["outlier"].sets and max(pool.sizes) > 1
        assert not {*pool.asked} & {*pool.candidates, *pool.auxiliary}
        table = plan.trials.member.reshape(6, -1)
        for number, target in enumerate(plan.targets):
            own = set(pool.records_of(number))
            assert np.array_equal(coins.setdefault(target, table[:, number]), table[:, number])
            for item, member in zip(plan.sets, table[:, number], strict=False):
                assert own & set(item.records) == (own if member else set())


def test_an_optional_pool_of_nobody_is_left_out() -> None:
    nobody = {"name": "nobody", "rule": "outlier", "size": 1, "optional": True}
    pools = [nobody, *POOLS]
    assert list(setup_of({"pool": pools}).pools) == ["outlier", "rare", "canaries"]


def test_redraws_toss_the_coins_of_one_pool() -> None:
    setup = setup_of()
    plan = setup.plans["rare"]
    again = designs.get("cohort").plugin.redraw(plan, setup.spec.game, stream(1, "redraw"))
    assert len(again) == len(plan.trials) == 6 * len(plan.targets)


def test_all_pools_together_must_be_few() -> None:
    said = "24 targets with 30 records, copies included, would be 15% of a private set of 100"
    with pytest.raises(PlanError, match=said):
        setup_of(records=100)


def test_one_target_at_a_time_shares_nothing() -> None:
    with pytest.raises(PlanError, match="cannot test several pools on one set of releases"):
        setup_of(design="lone", instances=4)


def test_the_key_of_a_game_stays_where_nothing_is_shared() -> None:
    assert "share_releases" not in GameSection().model_dump()
    assert GameSection(share_releases=True).model_dump()["share_releases"] is True
    written = GameSection(share_releases=True).model_dump()
    assert GameSection.model_validate(written).share_releases
