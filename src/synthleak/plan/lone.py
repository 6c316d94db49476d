"""Design `lone`: one target at a time joins a private set, or does not (docs/method.md §4).

The order of the draws is the argument for every null: backgrounds, fillers, references and seeds
come from streams of their own, and the coins (who is designated, whether they joined, whom they are
compared with) from another, so that any redraw of the coins is as likely as the observed ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.cell import noun
from synthleak.core.errors import PlanError
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.plan.plan import EVERY_ROUND, Design, Plan, Trials, designs, draw_plan
from synthleak.plan.sets import (
    Placed,
    backgrounds,
    game_size,
    instance_sets,
    placed,
    reference_sets,
)
from synthleak.pools.pool import Pool


@dataclass(frozen=True)
class Coins:
    """All that chance decides: `target[i]`, `member[i]`, `candidate[i, round]` (pool positions)."""

    target: NDArray[np.int64]
    member: NDArray[np.bool_]
    candidate: NDArray[np.int64]


@designs.place("lone", version=2)
class Lone(Design):
    """One designated target per instance, present in half of them: the paper's game."""

    in_blocks = True

    def draw(self, pool: Pool, game: GameSection, seed: int) -> Plan:
        """Draw backgrounds, fillers, references and seeds; then toss the coins."""
        _check_playable(pool, game)
        size = game_size(pool, game)
        _check_largest(pool, size)
        drawn = backgrounds(pool, game, size, seed)
        references = reference_sets(pool, game, size, seed)
        coins = toss(pool.origins, game, stream(seed, "coins", pool.name))
        records = [_private(pool, background, coins, i, game) for i, background in enumerate(drawn)]
        sets = (*instance_sets(pool, records, seed), *references)
        forms = np.array(["instance"] * len(drawn) + [reference.form for reference in references])
        return draw_plan(
            "lone",
            pool,
            game,
            size,
            sets,
            trials_of(coins),
            baselines={"S1": forms == "none", "S2": forms == "raw", "S3": forms == "release"},
            coins=Trials.once(np.arange(len(coins.target)), coins.target, coins.member),
        )

    def redraw(self, plan: Plan, game: GameSection, rng: np.random.Generator) -> Trials:
        """Toss again who is designated, who joined, and who is compared."""
        return trials_of(toss(plan.origins, game, rng))


def toss(origins: Sequence[str], game: GameSection, rng: np.random.Generator) -> Coins:
    """Toss the coins of one game, independently of everything else.

    Between two looks the coins are those of a game of its own, so that the first blocks can be
    redrawn without the later ones (docs/method.md §4.6).
    """
    blocks = [_toss_block(origins, game, n, rng) for n in game.blocks]
    return Coins(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def _toss_block(
    origins: Sequence[str], game: GameSection, n: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.bool_], NDArray[np.int64]]:
    """Toss the coins of n instances: designated targets, members, candidates.

    Every record is designated as equally often as can be over these instances, not within the
    positives; in a merged pool the origins share the designations evenly. Members are uniform over
    subsets of half the instances.
    """
    target = _designate(origins, n, rng)
    member = np.zeros(n, dtype=np.bool_)
    member[rng.permutation(n)[: n // 2]] = True
    others = len(origins) - 1
    shortlist = np.argsort(rng.random((n, others)), axis=1)[:, : min(game.candidates, others)]
    shortlist += shortlist >= target[:, None]  # positions among the others become pool positions
    pick = rng.integers(shortlist.shape[1], size=(n, game.rounds))
    return target, member, np.take_along_axis(shortlist, pick, axis=1)


def trials_of(coins: Coins) -> Trials:
    """Write the coins as trials: members once for all rounds, a fresh non-member in each round."""
    positive = np.flatnonzero(coins.member)
    negative = np.flatnonzero(~coins.member)
    rounds = coins.candidate.shape[1]
    return Trials(
        set=np.concatenate([positive, np.tile(negative, rounds)]),
        target=np.concatenate([coins.target[positive], coins.candidate[negative].T.ravel()]),
        member=np.repeat([True, False], [len(positive), rounds * len(negative)]),
        round=np.concatenate(
            [
                np.full(len(positive), EVERY_ROUND, dtype=np.int64),
                np.repeat(np.arange(rounds, dtype=np.int64), len(negative)),
            ]
        ),
        weight=np.ones(len(positive) + rounds * len(negative)),
    )


def _check_playable(pool: Pool, game: GameSection) -> None:
    if game.instances % 2:
        raise PlanError(
            f"{game.instances} instances cannot be halved",
            "game.instances",
            "use an even number: half are with the target, half without",
        )
    odd = [look for look in game.looks if look % 2]
    if odd:
        raise PlanError(
            f"a look at {odd[0]} instances, which cannot be halved",
            "game.looks",
            "use even numbers: half of the instances are with the target, half without",
        )
    if len(pool.targets) < 2:
        raise PlanError(
            f"the pool {pool.name!r} has one {game.unit}, and no other to compare it with",
            "game.design",
            f'give it two {noun(game.unit)} or more, or use "cohort"',
        )


def _check_largest(pool: Pool, size: int) -> None:
    """Refuse a target that would be much of a private set: half, or a tenth if it is a canary."""
    most = max(map(len, pool.joining))
    if pool.written and most > max(1, size / 10):
        raise PlanError(
            f"{most} copies of a canary would be {most / size:.0%} of a private set of {size}",
            "game.records",
            f"use at least {10 * most} records, or give the pool {pool.name!r} fewer repeats",
        )
    if most > size / 2:
        raise PlanError(
            f"a target has {most} records, more than half of a private set of {size}",
            "game.max_records",
            "use more records, or lower game.max_records",
        )


def _private(
    pool: Pool, background: NDArray[np.int64], coins: Coins, i: int, game: GameSection
) -> tuple[list[int], list[Placed]]:
    """Return D: the background with the target, or with the filler (or nothing) in its place.

    A person's records, or the copies of a canary, take the places of as many fillers. Without
    fillers the background does not depend on the target: it is shorter by as many records as a
    target brings on average.
    """
    joining, member = pool.joining[coins.target[i]], coins.member[i]
    if game.adjacency == "add":
        stay = len(background) - round(np.mean([len(records) for records in pool.joining]))
    else:
        stay = len(background) - len(joining) * member
    instead = background[-len(joining) :].tolist()
    return background[:stay].tolist(), placed(pool, joining, instead) if member else []


def _designate(origins: Sequence[str], n: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Share n designations evenly over origins, and evenly over the records of each."""
    kinds = list(dict.fromkeys(origins))
    shares = np.full(len(kinds), n // len(kinds))
    shares[rng.permutation(len(kinds))[: n % len(kinds)]] += 1
    chosen: list[int] = []
    for kind, share in zip(kinds, shares.tolist(), strict=True):
        members = np.flatnonzero([origin == kind for origin in origins])
        whole, rest = divmod(share, len(members))
        chosen += np.tile(members, whole).tolist()
        chosen += rng.permutation(members)[:rest].tolist()
    return rng.permutation(np.asarray(chosen, dtype=np.int64))
