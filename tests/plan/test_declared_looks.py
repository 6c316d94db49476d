"""Looks as declared in a spec, and plans that can be looked at before their end."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest

from synthleak.core.errors import PlanError, SpecError
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.core.store import MemoryStore
from synthleak.metrics.membership import assignment_of
from synthleak.metrics.null import min_p_test
from synthleak.metrics.scored_cell import comparison_of
from synthleak.plan import Plan, designs, lone
from synthleak.plan.plan import draw_all
from synthleak.pools import Pool
from synthleak.pools.pool import Given


def pool(targets: int = 6) -> Pool:
    rest = tuple(range(targets, targets + 200))
    return Pool("p", tuple(range(targets)), ("p",) * targets, rest[:100], rest[100:])


def game(**settings: Any) -> GameSection:
    return GameSection(**{"instances": 20, "records": 40, "rounds": 3, "candidates": 4} | settings)


def test_instances_is_the_last_look_named_or_not() -> None:
    assert game(looks=[4, 10]).looks == game(looks=[4, 10, 20]).looks == (4, 10, 20)
    assert game(looks=[4, 10]).model_dump() == game(looks=[4, 10, 20]).model_dump()
    assert game(looks=[20]) == game(looks=[]) == game()
    assert "looks" not in game().model_dump()
    assert game().blocks == (20,) and game(looks=[4, 10]).blocks == (4, 6, 10)


@pytest.mark.parametrize(
    ("looks", "said"),
    [
        ([10, 4], "looks do not rise"),
        ([4, 4], "looks do not rise"),
        ([4, 30], "a look at 30 instances, and there are 20"),
    ],
)
def test_looks_that_make_no_sense_are_refused(looks: list[int], said: str) -> None:
    with pytest.raises(SpecError, match=said) as refused:
        game(looks=looks)
    assert refused.value.where == "game.looks"


def test_a_look_needs_two_instances_and_there_are_ten_at_most() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 2"):
        game(looks=[1, 4])
    with pytest.raises(ValueError, match="at most 10 items"):
        game(looks=[*range(2, 20)])


def test_a_look_of_lone_is_even() -> None:
    with pytest.raises(PlanError, match="a look at 5 instances, which cannot be halved"):
        designs.get("lone").plugin.draw(pool(), game(looks=[5]), 1)
    designs.get("cohort").plugin.draw(pool(), game(looks=[5], design="cohort"), 1)


def test_one_existing_release_has_no_looks() -> None:
    split = Given((True, False) * 3, tuple(range(6)), coins=False)
    given = Pool("p", tuple(range(6)), ("p",) * 6, (0, 2, 4), (), split)
    with pytest.raises(PlanError, match="'given' cannot be looked at before its end"):
        draw_all({"p": given}, game(design="given", looks=[4]), 1, MemoryStore())


@pytest.mark.parametrize("design", ["lone", "cohort"])
def test_a_look_is_the_beginning_of_the_plan(design: str) -> None:
    settings = game(design=design, looks=[4, 10])
    plan = designs.get(design).plugin.draw(pool(), settings, 1)
    assert plan.first(20) is plan and plan.first(100) is plan
    part = plan.first(10)
    names = [item.name for item in part.sets]
    assert names[:10] == [f"instance-{i:03d}" for i in range(10)]
    assert names[10:] == [item.name for item in plan.sets[20:]]
    assert part.trials.set.max() == 9 and part.trials.rounds == plan.trials.rounds
    assert part.coins is not None and set(part.coins.set.tolist()) == set(range(10))
    for whole, some in zip(plan.baselines, part.baselines, strict=True):
        assert some.uses.shape == (6, len(part.sets))
        assert (some.uses[:, 10:] == whole.uses[:, 20:]).all()
    assert Plan.from_bytes(part.to_bytes()).fingerprint == part.fingerprint


@pytest.mark.parametrize("looks", [[4, 10], [2, 4, 6, 8]])
def test_first_coins_of_lone_are_those_of_a_shorter_game(looks: list[int]) -> None:
    """So a redraw at a look is a draw from what the observed coins come from."""
    whole = game(looks=looks)
    long = lone.toss(("p",) * 6, whole, stream(5, "coins"))
    for look in looks:
        short = lone.toss(
            ("p",) * 6, whole.model_copy(update={"instances": look}), stream(5, "coins")
        )
        for column in ("target", "member", "candidate"):
            assert (getattr(long, column)[:look] == getattr(short, column)).all()
    for start, end in pairwise([0, *looks, 20]):
        assert long.member[start:end].sum() == (end - start) // 2


def test_without_blocks_the_beginning_is_another_game() -> None:
    """Coins that are balanced over all instances are not balanced at a look."""
    heads = [lone.toss(("p",) * 6, game(), stream(n)).member[:4].sum() for n in range(50)]
    assert set(heads) != {2}


@pytest.mark.parametrize("look", [4, 8])
def test_p_at_a_look_is_exact(look: int) -> None:
    """All outcomes of the coins at a look of a tiny cohort: P(p ≤ α) ≤ α for any scores."""
    design = designs.get("cohort").plugin
    plan = design.draw(pool(2), game(design="cohort", looks=[4]), 1).first(look)
    values = stream(look, "scores").normal(size=(look, 2, 3)).round(1)
    coins = np.array([*product([False, True], repeat=2 * look)])
    if len(coins) > 300:  # an exact test of a random part of all outcomes is exact, too
        coins = coins[stream("part").permutation(len(coins))[:300]]
    trials = plan.trials
    outcomes = [
        assignment_of(type(trials).once(trials.set, trials.target, one), 2) for one in coins
    ]
    statistics = comparison_of(design, plan, values).statistics(outcomes).values
    p_values = []
    for place in range(len(outcomes)):
        order = [place, *(other for other in range(len(outcomes)) if other != place)]
        test = min_p_test(statistics[:, order])
        assert test is not None
        p_values.append(test.p)
    for level in (0.0125, 0.025, 0.05, 0.2):
        assert np.mean(np.array(p_values) <= level) <= level
