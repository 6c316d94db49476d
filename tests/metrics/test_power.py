"""Power: the stated leak is found four times in five, before and after there is data."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.metrics.compare import comparison_of
from synthleak.metrics.dealt import redeal
from synthleak.metrics.power import (
    Foresight,
    foresee,
    instances_needed,
    planted_share,
    shift_for,
    smallest_found,
)
from synthleak.plan.plan import Plan, designs
from synthleak.pools.pool import Pool
from synthleak.seeds import stream
from synthleak.spec import GameSection

POOL = Pool("p", tuple(range(20)), ("p",) * 20, tuple(range(20, 220)), tuple(range(220, 420)))


def drawn(design: str, instances: int = 60) -> tuple[Plan, GameSection]:
    game = GameSection(design=design, instances=instances, records=100, rounds=10, candidates=10)
    return designs.get(design).plugin.draw(POOL, game, 1), game


@pytest.mark.parametrize("design", ["lone", "cohort"])
@pytest.mark.parametrize("alike", [False, True])
def test_the_foreseen_leak_is_found_four_times_in_five(design: str, alike: bool) -> None:
    plan, game = drawn(design)
    made = foresee(designs.get(design).plugin, plan, game, signals=8, alike=alike, seed=3)
    assert made.auc is not None and made.confirmed is not None
    assert 0.5 < made.ceiling < made.auc < 1
    assert 0.65 < made.confirmed < 0.97


def test_a_cohort_sees_smaller_leaks_than_lone_at_equal_releases() -> None:
    found = {}
    for design in ("lone", "cohort"):
        plan, game = drawn(design)
        made = foresee(
            designs.get(design).plugin, plan, game, signals=8, alike=False, seed=3, confirm=False
        )
        assert made.auc is not None and made.confirmed is None
        found[design] = made.auc - 0.5
    assert found["cohort"] < found["lone"] / 2


def test_a_planted_leak_of_the_ceiling_is_found_half_of_the_time() -> None:
    plan, game = drawn("cohort")
    plugin = designs.get("cohort").plugin
    comparison = comparison_of(plugin, plan, stream(1).normal(size=(60, 20, 2)))
    hands = redeal(plugin, plan, game, stream(2), 200)
    assert planted_share(comparison, hands, 1, 0.6, 0.6) == pytest.approx(0.5, abs=0.15)
    assert planted_share(comparison, hands, 1, 0.7, 0.6) > 0.95
    assert comparison.planted(hands, 0, shift_for(0.7)).mean() == pytest.approx(0.7, abs=0.02)


def test_nothing_is_promised_where_nothing_could_be_found() -> None:
    plan, game = drawn("lone", instances=2)
    made = foresee(designs.get("lone").plugin, plan, game, signals=4, alike=False, seed=1)
    assert made.auc is None and made.confirmed is None
    assert smallest_found(0.5, 0.2, np.linspace(0, 3, 200)) is None
    assert smallest_found(0.5, 0.0, np.linspace(0, 3, 200)) is None
    assert smallest_found(0.5, 0.05, np.linspace(0, 3, 10)) is None


def test_instances_grow_with_the_square_of_what_is_wished() -> None:
    def foreseen(instances: int) -> Foresight:
        return Foresight(instances, 8, False, 0.6, 0.5 + 2 / np.sqrt(instances), None)

    assert instances_needed(foreseen, 0.7, 100) == 100
    assert instances_needed(foreseen, 0.6, 100) == 400
    assert instances_needed(foreseen, 0.52, 100) == 10_000
    assert instances_needed(foreseen, 0.5, 100) is None
    never = Foresight(10, 8, False, 1.0, None, None)
    assert instances_needed(lambda _: never, 0.7, 100) is None
