"""Design `given`: one existing release, with members and holdout as split (docs/method.md §11).

Nothing is drawn here: the null permutes who was in, group by group, or tosses recorded coins again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import PlanError
from synthleak.core.seeds import derive
from synthleak.core.spec import GameSection
from synthleak.plan.plan import Design, Plan, RecordSet, Trials, designs, draw_plan
from synthleak.pools.pool import Given, Pool

MANY_OTHERS = 500
"""Held-out records that make a false-positive rate of 0.2% meaningful (docs/method.md §8)."""
UNLIKELY = 1e-6
"""Fair coins fall as unevenly as this less than once in a million times."""


@designs.place("given", version=2)
class GivenSplit(Design):
    """One existing release: members against holdout, as they were split.

    A record that was left out had nobody in its place, so the adjacency is always `add`.
    """

    given: ClassVar[bool] = True

    def draw(self, pool: Pool, game: GameSection, seed: int) -> Plan:
        """Write down who was in; the release is one set, the reference another."""
        assert pool.given is not None
        given = pool.given
        if given.coins:
            check_coins(given)
        sets = [RecordSet("release", "release", pool.candidates, _seed(pool, seed, "release"))]
        baselines = {"S1": np.array([False])}
        if pool.auxiliary:
            reference = _seed(pool, seed, "reference")
            sets.append(RecordSet("reference", "raw", pool.auxiliary, reference))
            baselines = {"S1": np.array([False, False]), "S2": np.array([False, True])}
        trials = Trials.of_coins(np.array([given.member]))
        plan = draw_plan(
            "given",
            pool,
            game,
            len(pool.candidates),
            sets,
            trials,
            baselines=baselines,
            coins=trials if given.coins else None,
            blocks=given.block if len(set(given.block)) < len(given.block) else (),
        )
        return replace(plan, adjacency="add", either=given.either and bool(plan.blocks))

    def redraw(self, plan: Plan, game: GameSection, rng: np.random.Generator) -> Trials:
        """Permute who was in, whole groups at a time; or toss every coin again."""
        was = plan.trials.member
        if plan.coins is not None:
            return Trials.of_coins(rng.integers(0, 2, size=(1, len(was))).astype(np.bool_))
        return Trials.of_coins(permuted(was, plan.block_of, rng)[None])

    def many_others(self, plan: Plan) -> bool:
        """Say whether 500 records or more are held out, as planned and not as the coins fell."""
        if plan.coins is not None:
            return len(plan.targets) >= 2 * MANY_OTHERS
        if plan.either:  # no number of held-out records stays the same in redraws of both kinds
            return False
        held = ~plan.trials.member
        if plan.blocks:  # groups differ in size: a share of the groups, not of the records
            blocks = np.asarray(plan.blocks)
            share = len(np.unique(blocks[held])) / len(np.unique(blocks))
            return share * len(held) >= MANY_OTHERS
        return int(held.sum()) >= MANY_OTHERS

    def ranks_members(self, plan: Plan) -> bool:
        return True


def permuted(
    member: NDArray[np.bool_], block: NDArray[np.integer], rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Permute membership; records of one block stay together.

    A block with records on both sides was torn by mistake: its records stay where they are, and the
    others are exchangeable given that.

    >>> permuted(np.array([True, True, False]), np.array([0, 0, 1]), np.random.default_rng(4))
    array([False, False,  True])
    """
    count = int(block.max()) + 1
    inside, outside = (np.bincount(block[side], minlength=count) > 0 for side in (member, ~member))
    whole = inside != outside
    drawn = inside.copy()
    drawn[whole] = rng.permutation(inside[whole])
    return np.where(whole[block], drawn[block], member)


def _seed(pool: Pool, seed: int, use: str) -> int:
    return derive(seed, use, pool.name, "given")


def check_coins(given: Given) -> None:
    """Refuse coins that were not fair, or that several records shared: a bound would not hold."""
    from scipy.stats import binomtest

    heads, tossed = sum(given.member), len(given.member)
    if len(set(given.block)) < tossed:
        raise PlanError(
            "records of one group share a coin, and a bound on ε needs one for each record",
            "corpus.declared",
            'use "random", or name no group field',
        )
    if binomtest(heads, tossed, 0.5).pvalue < UNLIKELY:
        raise PlanError(
            f"{heads:,} of {tossed:,} records are members, which fair coins almost never give",
            "corpus.declared",
            'use "random" where a share of the records was drawn',
        )
