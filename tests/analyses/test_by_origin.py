"""Two kinds of records in one game: against an oracle, and over repeated draws."""

from __future__ import annotations

import numpy as np
import pytest

from support.oracles.by_origin import rate, shared, wins
from synthleak.analyses.gaps import (
    RanksByKind,
    against_own,
    against_redraws,
    by_kind,
    origin_measurements,
)
from synthleak.core.spec import GameSection
from synthleak.metrics.membership import Assignment, assignment_of, ranks_of
from synthleak.plan import designs
from synthleak.pools import Pool

TARGETS = 12
FIRST = np.arange(TARGETS) < 5


def hand_of(design: str, seed: int = 1) -> tuple[Assignment, int]:
    origins = tuple("one" if first else "two" for first in FIRST)
    pool = Pool("one+two", tuple(range(TARGETS)), origins, tuple(range(12, 200)), (200,) * 400)
    pool = Pool(pool.name, pool.targets, origins, pool.candidates, tuple(range(200, 400)))
    game = GameSection(design=design, instances=24, records=80, rounds=3, candidates=4)
    plan = designs.get(design).plugin.draw(pool, game, seed)
    return assignment_of(plan.trials, TARGETS), int(plan.trials.set.max()) + 1


def sides_of(design: str, *, levels: int, seed: int = 1) -> tuple[RanksByKind, np.ndarray]:
    assignment, sets = hand_of(design, seed)
    values = np.random.default_rng(seed).integers(levels, size=sets * TARGETS).astype(float)
    return RanksByKind(ranks_of(values[:, None]).low[0], FIRST, assignment), values


@pytest.mark.parametrize("design", ["lone", "cohort"])
@pytest.mark.parametrize("levels", [4, 100_000])
def test_measures_by_kind_agree_with_the_oracle(design: str, levels: int) -> None:
    sides, values = sides_of(design, levels=levels)
    members = values[sides.assignment.members].tolist()
    kinds = FIRST[sides.assignment.members % TARGETS].tolist()
    expected = shared(members, kinds, values[sides.assignment.others].tolist())
    assert np.allclose(by_kind(sides), expected)


@pytest.mark.parametrize("design", ["lone", "cohort"])
@pytest.mark.parametrize("levels", [4, 100_000])
def test_within_kind_measures_agree_with_the_oracle(design: str, levels: int) -> None:
    sides, values = sides_of(design, levels=levels)
    weight = np.random.default_rng(2).integers(0, 3, TARGETS)
    for place, kind in enumerate((True, False)):

        def repeated(cells: np.ndarray, kind: bool = kind) -> list[float]:
            own = [c for c in cells.ravel().tolist() if FIRST[c % TARGETS] == kind]
            return [values[c] for c in own for _ in range(weight[c % TARGETS])]

        inside, outside = repeated(sides.assignment.members), repeated(sides.assignment.others)
        auc = sum(wins(score, outside) for score in inside) / (len(inside) * len(outside))
        found = against_own(sides, weight.astype(float))[place]
        assert np.allclose(found, [auc, rate(inside, outside)])


def test_the_bootstrap_keeps_the_trials_of_a_record_together() -> None:
    sides, _ = sides_of("cohort", levels=100_000)
    doubled = Assignment(np.tile(sides.assignment.members, 2), sides.assignment.others)
    rng = np.random.default_rng
    once = origin_measurements([sides], rng(3))
    twice = origin_measurements([RanksByKind(sides.low, FIRST, doubled)], rng(3))
    for one, two in zip(once, twice, strict=True):
        assert (one["low"], one["high"]) == pytest.approx((two["low"], two["high"]))
        assert one["low"] <= one["delta"] <= one["high"]
        assert one["p"] is None


def test_a_redraw_without_one_origin_counts_as_extreme() -> None:
    assert against_redraws(np.array([9.0, *np.zeros(19)]))[2] == pytest.approx(0.1)
    assert against_redraws(np.array([9.0, np.nan, *np.zeros(18)]))[2] == pytest.approx(0.2)
    assert against_redraws(np.array([9.0, np.nan])) == (None, None, None)


def test_planted_difference_is_found_with_its_sign() -> None:
    for design in ("lone", "cohort"):
        assignment, sets = hand_of(design)
        values = np.random.default_rng(4).normal(size=sets * TARGETS)
        cells = assignment.members
        values[cells[FIRST[cells % TARGETS]]] += 4
        low = ranks_of(values[:, None]).low[0]
        auc, tpr = origin_measurements(
            [RanksByKind(low, FIRST, assignment)], np.random.default_rng(5)
        )
        assert auc["low"] > 0
        assert tpr["low"] > 0
        assert auc["own_low"] is not None
        assert auc["own_low"] > 0
        back = origin_measurements(
            [RanksByKind(low, ~FIRST, assignment)], np.random.default_rng(5)
        )[0]
        assert back["delta"] == pytest.approx(-auc["delta"])
