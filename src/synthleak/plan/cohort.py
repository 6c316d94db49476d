"""Design `cohort`: every release tests every record of the pool (docs/method.md §4).

Each pool record has a fair coin of its own in every instance, never balanced, so that every coin is
independent of all others. Backgrounds and partners are drawn before any coin, from another stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import PlanError
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.plan.plan import Design, Plan, Trials, designs, draw_plan
from synthleak.plan.sets import (
    Placed,
    backgrounds,
    game_size,
    instance_sets,
    placed,
    reference_sets,
)
from synthleak.pools.pool import Pool
from synthleak.pools.selection import SHARED

LARGEST_SHARE = 0.1
"""Of the private set, how much the pool records that join may be: more would change the data."""

Coins = NDArray[np.bool_]
"""`coins[instance, target]`: whether the record joined."""


@designs.place("cohort", version=1)
class Cohort(Design):
    """A fair coin for every pool record in every instance: each release tests the whole pool."""

    in_blocks = True

    def draw(self, pool: Pool, game: GameSection, seed: int) -> Plan:
        """Draw backgrounds, partners, references and seeds; then toss a coin per record."""
        size = game_size(pool, game)
        _check_share(pool, size)
        drawn = backgrounds(pool, game, size, seed)
        references = [s for s in reference_sets(pool, game, size, seed) if s.form == "raw"]
        coins = toss(game.instances, len(pool.targets), stream(seed, "coins", pool.name))
        records = [_private(pool, *pair, game) for pair in zip(drawn, coins, strict=True)]
        trials = Trials.of_coins(coins)
        return draw_plan(
            "cohort",
            pool,
            game,
            size,
            (*instance_sets(pool, records, seed), *references),
            trials,
            baselines=_baselines(game.instances, len(references)),
            coins=trials,
        )

    def draw_shared(
        self, pools: Mapping[str, Pool], game: GameSection, seed: int
    ) -> dict[str, Plan]:
        """Draw one game of all targets, and give every pool the coins of its own.

        To a pool the others' coins are part of the background: they are independent of its own, so
        that a redraw of its own coins is as exact as in a game of its own (docs/method.md §4.3).
        """
        records = {
            target: pool.records_of(number)
            for pool in pools.values()
            for number, target in enumerate(pool.targets)
        }
        targets = tuple(records)
        first = next(iter(pools.values()))
        together = replace(
            first,
            name=SHARED,
            targets=targets,
            origins=(SHARED,) * len(targets),
            persons=first.persons and replace(first.persons, targets=tuple(records.values())),
            written=tuple(item for pool in pools.values() for item in pool.written),
        )
        whole = self.draw(together, game, seed)
        coins = whole.trials.member.reshape(game.instances, len(targets))
        number_of = {target: number for number, target in enumerate(targets)}
        plans = {}
        for name, pool in pools.items():
            columns = [number_of[target] for target in pool.targets]
            trials = Trials.of_coins(coins[:, columns])
            plans[name] = replace(
                whole,
                pool=name,
                targets=pool.targets,
                origins=pool.origins,
                trials=trials,
                coins=trials,
                baselines=tuple(replace(b, uses=b.uses[columns]) for b in whole.baselines),
            )
        return plans

    def redraw(self, plan: Plan, game: GameSection, rng: np.random.Generator) -> Trials:
        return Trials.of_coins(toss(game.instances, len(plan.targets), rng))

    def within_records(self, plan: Plan) -> bool:
        """Compare a record's releases with and without it, which takes two releases at least."""
        return int(plan.trials.set.max()) > 0


def toss(instances: int, targets: int, rng: np.random.Generator) -> Coins:
    """Toss one fair coin for each record in each instance, none balanced against another."""
    return rng.integers(0, 2, size=(instances, targets)).astype(np.bool_)


def _check_share(pool: Pool, size: int) -> None:
    targets, records = len(pool.targets), sum(map(len, pool.joining))
    if records / 2 > LARGEST_SHARE * size:
        copies = ", copies included," * bool(pool.written)
        held = f" with {records} records{copies}" * (records > targets)
        most = size * targets // (5 * records)
        raise PlanError(
            f"{targets} targets{held} would be {records / 2 / size:.0%} of a private set of {size}"
            f" on average, and a cohort may be at most {LARGEST_SHARE:.0%}",
            "game.records",
            f"use at least {5 * records} records, or give "
            + (
                f"the pools together at most {most} targets"
                if pool.name == SHARED
                else f"the pool {pool.name!r} a size of at most {most}"
            ),
        )


def _private(
    pool: Pool, drawn: NDArray[np.int64], coins: NDArray[np.bool_], game: GameSection
) -> tuple[list[int], list[Placed]]:
    """Return D: `replace` puts partners in the places of each absent target, `add` nothing.

    Under `add` the background is short of half of all that joins with targets, so that a private
    set has N records on average.
    """
    joining_records = np.array([record for records in pool.joining for record in records])
    inside = np.repeat(coins, [len(records) for records in pool.joining])
    partners = drawn[-len(joining_records) :]
    joining = placed(pool, joining_records[inside].tolist(), partners[inside].tolist())
    if game.adjacency == "replace":
        return [*drawn[: -len(joining_records)].tolist(), *partners[~inside].tolist()], joining
    return drawn[: len(drawn) - len(joining_records) // 2].tolist(), joining


def _baselines(instances: int, references: int) -> dict[str, NDArray[np.bool_]]:
    """S1 calibrates on nothing, S2 on raw references, S3 on all *other* instances' releases.

    Their coins are ignored: a baseline that knew them would void every bound on ε. One instance
    has no others, so there is no S3.
    """
    is_instance = np.repeat([True, False], [instances, references])
    uses = {"S1": np.zeros_like(is_instance), "S2": ~is_instance}
    return uses | {"S3": is_instance} if instances > 1 else uses
