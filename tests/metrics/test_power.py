"""Power: the stated leak is found four times in five, before and after there is data."""

from __future__ import annotations

import numpy as np
import pytest

from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.metrics.power import (
    PlantedLeaks,
    PowerEstimate,
    estimate_power,
    instances_needed,
    smallest_found,
)
from synthleak.plan import Plan, designs
from synthleak.pools import Pool

POOL = Pool("p", tuple(range(20)), ("p",) * 20, tuple(range(20, 220)), tuple(range(220, 420)))


def drawn(design: str, instances: int = 60) -> tuple[Plan, GameSection]:
    game = GameSection(design=design, instances=instances, records=100, rounds=10, candidates=10)
    return designs.get(design).plugin.draw(POOL, game, 1), game


def estimated(design: str, instances: int = 60, *, confirm: bool = True) -> PowerEstimate:
    plan, game = drawn(design, instances)
    values = stream(3, "scores").normal(size=(instances, 20, 8))
    plugin = designs.get(design).plugin
    return estimate_power(values, plugin, plan, game, stream(4), confirm=confirm)


def leaks(design: str, instances: int = 60) -> PlantedLeaks:
    plan, game = drawn(design, instances)
    values = stream(5, "scores").normal(size=(instances, 20, 8))
    return PlantedLeaks(values, designs.get(design).plugin, plan, game, stream(6), 200)


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_the_smallest_leak_is_found_four_times_in_five(design: str) -> None:
    made = estimated(design)
    assert made.ceiling is not None and made.auc is not None and made.confirmed is not None
    assert 0.5 < made.ceiling < made.auc < 1
    assert 0.65 < made.confirmed < 0.97


def test_few_instances_find_copies_that_no_auc_would_show() -> None:
    """Ten members: hardly any AUC is large enough, but a few copied ones are seen in the tail."""
    made = estimated("lone", 20)
    assert made.copied is not None and 0.1 < made.copied < 0.6
    planted = leaks("lone", 20)
    found = planted.power_for_copies(round(made.copied * planted.members) + 1, 0.05, 60)
    assert found > 0.6


def test_cohort_finds_smaller_leaks_than_lone() -> None:
    found = {}
    for design in ("lone", "cohort"):
        made = estimated(design, confirm=False)
        assert made.auc is not None and made.confirmed is None
        found[design] = made.auc - 0.5
    assert found["cohort"] < found["lone"] / 2


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_larger_leaks_are_found_more_often(design: str) -> None:
    planted = leaks(design)
    assert planted.test is not None
    low, high = (0.5, 0.8) if design == "lone" else (0.5, 0.6)
    assert planted.power_for_auc(low, 0.05, 100) < 0.15
    assert planted.power_for_auc(high, 0.05, 100) > 0.9


def test_power_is_none_where_nothing_could_be_found() -> None:
    made = estimated("lone", 2)
    assert made.auc is None and made.confirmed is None and made.copied is None
    assert smallest_found(0.5, 0.2, 3.0) is None
    assert smallest_found(0.5, 0.0, 3.0) is None
    assert smallest_found(0.5, 0.05, np.inf) is None


def test_instances_needed_grow_quadratically() -> None:
    def guess(instances: int) -> PowerEstimate:
        return PowerEstimate(instances, 8, 0.6, 0.5 + 2 / np.sqrt(instances))

    assert instances_needed(guess, 0.7, 100) == 100
    assert instances_needed(guess, 0.6, 100) == 400
    assert instances_needed(guess, 0.52, 100) == 10_000
    assert instances_needed(guess, 0.5, 100) is None
    never = PowerEstimate(10, 8, None, None)
    assert instances_needed(lambda _: never, 0.7, 100) is None
