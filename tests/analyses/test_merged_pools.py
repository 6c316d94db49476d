"""Merged pools: planted differences are found, and chance gives none beyond its band."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from synthleak.analyses.analysis import Signal
from synthleak.analyses.gaps import MergedRow, merged_rows
from synthleak.core.cell import Cell
from synthleak.core.spec import GameSection
from synthleak.plan import Plan, designs
from synthleak.pools import Pool

SIGNALS = (
    Signal("S1", "a", "lexical"),
    Signal("S1", "b", "embedding"),
    Signal("S2", "a", "lexical"),
)
TARGETS = 24
FIRST = np.arange(TARGETS) < 12


def game_of(design: str) -> GameSection:
    instances = 40 if design == "cohort" else 100
    return GameSection(design=design, instances=instances, records=130, rounds=4, candidates=6)


def plan_of(design: str, seed: int) -> Plan:
    origins = tuple("odd" if first else "plain" for first in FIRST)
    everyone = range(TARGETS)
    pool = Pool(
        "odd+plain", tuple(everyone), origins, tuple(range(24, 324)), tuple(range(324, 624))
    )
    return designs.get(design).plugin.draw(pool, game_of(design), seed)


def rows_of(
    design: str, seed: int, *, level: float = 0.0, odd: float = 0.0, plain: float = 0.0, **more: Any
) -> list[MergedRow]:
    """Play once: odd records score higher by `level`, in or out; members are raised by kind."""
    plan = plan_of(design, seed)
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(len(plan.sets), TARGETS, len(SIGNALS)))
    values += level * FIRST[None, :, None]
    trials = plan.trials
    place, who = trials.set[trials.member], trials.target[trials.member]
    copied = rng.random(len(who)) < np.where(FIRST[who], odd, plain)
    values[place[copied], who[copied]] += 9
    cell = Cell("corpus", "odd+plain", "copies", math.inf)
    plugin = designs.get(design).plugin
    order = ("odd", "plain")
    return merged_rows(cell, values, SIGNALS, plugin, plan, game_of(design), order, **more)


def by_measure(rows: list[MergedRow], scenario: str = "S1") -> dict[str, MergedRow]:
    return {row.measure: row for row in rows if row.scenario == scenario}


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_records_that_are_copied_twice_as_often_stand_out(design: str) -> None:
    rows = rows_of(design, 1, odd=0.9, plain=0.45, redraws=199)
    assert [row.scenario for row in rows] == ["S1", "S1", "S2", "S2"]
    assert {(row.first, row.second) for row in rows} == {("odd", "plain")}
    for row in rows:
        assert row.low > 0, row.measure
        assert row.p is not None
        assert row.p < 0.05
        assert row.own_low is not None
        assert row.own_low > 0
        assert row.delta == pytest.approx(row.first_value - row.second_value)
    found = by_measure(rows)
    assert found["auc"].first_value == pytest.approx(0.95, abs=0.08)
    assert found["tpr_at_fpr05"].first_value == pytest.approx(0.9, abs=0.15)
    assert found["tpr_at_fpr05"].second_value == pytest.approx(0.45, abs=0.2)
    assert found["auc"].first_members + found["auc"].second_members > 10


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_distinctive_records_do_not_count_as_leaking(design: str) -> None:
    """Odd records score higher in or out: Δ is large, inside its band, and 0 to their own."""
    row = by_measure(rows_of(design, 2, level=3.0, redraws=199))["auc"]
    assert row.delta > 0.3
    assert row.low > 0
    assert row.null_low is not None
    assert row.null_high is not None
    assert row.null_low <= row.delta <= row.null_high
    assert row.own_low is not None
    assert row.own_high is not None
    assert row.own_low < 0 < row.own_high


def test_an_even_leak_shows_no_difference_to_their_own() -> None:
    row = by_measure(rows_of("cohort", 3, level=3.0, odd=0.6, plain=0.6, redraws=99))["auc"]
    assert row.own_delta == pytest.approx(0.0, abs=0.06)
    assert row.own_first == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_difference_stays_in_its_band_without_a_leak(design: str) -> None:
    runs = 60
    outside = {"auc": 0, "tpr_at_fpr05": 0}
    for seed in range(runs):
        for row in rows_of(design, 100 + seed, level=1.0, redraws=39, draws=2):
            if row.scenario == "S1":
                outside[row.measure] += row.p is not None and row.p <= 0.05
    most = binom.ppf(0.999, runs, 0.05)
    assert outside["auc"] <= most
    assert outside["tpr_at_fpr05"] <= most


def test_an_origin_that_never_joined_has_no_rows() -> None:
    plan = plan_of("lone", 1)
    values = np.zeros((len(plan.sets), TARGETS, len(SIGNALS)))
    cell = Cell("corpus", "odd+plain", "copies", math.inf)
    plugin = designs.get("lone").plugin
    nobody = ("nobody", "plain")
    assert merged_rows(cell, values, SIGNALS, plugin, plan, game_of("lone"), nobody) == []


def test_the_same_game_gives_the_same_rows() -> None:
    assert rows_of("lone", 5, odd=0.5, redraws=19) == rows_of("lone", 5, odd=0.5, redraws=19)
