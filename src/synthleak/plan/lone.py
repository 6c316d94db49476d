"""Design `lone`: one target at a time joins a private set, or does not (docs/method.md §4).

The order of the draws is the argument for every null: backgrounds, fillers, references and seeds
come from streams of their own, and the coins (who is designated, whether they joined, whom they are
compared with) from another, so that any redraw of the coins is as likely as the one that was dealt.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import PlanError
from synthleak.core.seeds import derive, stream
from synthleak.core.spec import GameSection
from synthleak.plan.plan import (
    EVERY_ROUND,
    Baseline,
    Design,
    Plan,
    RecordSet,
    Trials,
    designs,
)
from synthleak.plan.sizes import game_size
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

    def draw(self, pool: Pool, game: GameSection, seed: int) -> Plan:
        """Draw backgrounds, fillers, references and seeds; then toss the coins."""
        _check_playable(pool, game)
        size = game_size(pool, game)
        backgrounds = _backgrounds(pool, game, size, seed)
        references = reference_sets(pool, game, size, seed)
        coins = toss(pool.origins, game, stream(seed, "coins", pool.name))
        instances = [
            RecordSet(
                name=f"instance-{i:03d}",
                form="release",
                records=_dealt(pool, background, coins, i, game),
                seed=derive(seed, "release", pool.name, "instance", i),
            )
            for i, background in enumerate(backgrounds)
        ]
        return Plan(
            pool=pool.name,
            design="lone",
            adjacency=game.adjacency,
            nominal=size,
            release_size=size if game.release_size == "auto" else game.release_size,
            targets=pool.targets,
            origins=pool.origins,
            sets=(*instances, *references),
            trials=trials_of(coins),
            baselines=_baselines(len(instances), references, len(pool.targets)),
            coins=designations_of(coins),
        )

    def redraw(self, plan: Plan, game: GameSection, rng: np.random.Generator) -> Trials:
        """Toss again who is designated, who joined, and who is compared."""
        return trials_of(toss(plan.origins, game, rng))


def toss(origins: Sequence[str], game: GameSection, rng: np.random.Generator) -> Coins:
    """Toss the coins of one game, independently of everything else.

    Every record is designated as equally often as can be over all instances, not within the
    positives; in a merged pool the origins share the designations evenly. Members are uniform over
    subsets of half the instances.
    """
    n = game.instances
    target = _designate(origins, n, rng)
    member = np.zeros(n, dtype=np.bool_)
    member[rng.permutation(n)[: n // 2]] = True
    others = len(origins) - 1
    shortlist = np.argsort(rng.random((n, others)), axis=1)[:, : min(game.candidates, others)]
    shortlist += shortlist >= target[:, None]  # positions among the others become pool positions
    pick = rng.integers(shortlist.shape[1], size=(n, game.rounds))
    return Coins(target, member, np.take_along_axis(shortlist, pick, axis=1))


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


def designations_of(coins: Coins) -> Trials:
    """Write one trial per instance: its designated target, also where it stayed out
    (docs/method.md §8)."""
    n = len(coins.target)
    return Trials(
        set=np.arange(n, dtype=np.int64),
        target=coins.target,
        member=coins.member,
        round=np.zeros(n, dtype=np.int64),
        weight=np.ones(n),
    )


def reference_sets(pool: Pool, game: GameSection, size: int, seed: int) -> list[RecordSet]:
    """Draw the references: sets of `size` records, each target in exactly half of them.

    The records come from R and give up their places to the targets, so that a reference is as large
    as a private set. Each set is looked at raw (S2) and handed to the generator (S3).
    """
    rng = stream(seed, "references", pool.name)
    inside = _halves(len(pool.targets), game.references, rng)
    sets = []
    for j, members in enumerate(inside.T):
        targets = [pool.targets[p] for p in np.flatnonzero(members)]
        room = size - len(targets)
        if room < size / 2:
            raise PlanError(
                f"{len(targets)} targets would fill more than half of a reference of {size}",
                "game.records",
                f"give the pool {pool.name!r} a smaller size, or play with more records",
            )
        if room > len(pool.auxiliary):
            raise PlanError(
                f"a reference needs {room} auxiliary records and R has {len(pool.auxiliary)}",
                "game.auxiliary",
                "play with fewer records, or raise game.auxiliary",
            )
        others = rng.choice(pool.auxiliary, room, replace=False).tolist()
        records = tuple(sorted([*targets, *others]))
        seed_of_set = derive(seed, "release", pool.name, "reference", j)
        sets.append(RecordSet(f"reference-{j}", "release", records, seed_of_set))
        sets.append(RecordSet(f"reference-{j}-raw", "raw", records, seed_of_set))
    return sets


def _check_playable(pool: Pool, game: GameSection) -> None:
    if game.instances % 2:
        raise PlanError(
            f"{game.instances} instances cannot be halved",
            "game.instances",
            "use an even number: half are with the target, half without",
        )
    if len(pool.targets) < 2:
        raise PlanError(
            f"the pool {pool.name!r} has one record, and nobody to compare it with",
            "game.design",
            'give it two records or more, or play "cohort"',
        )


def _backgrounds(pool: Pool, game: GameSection, size: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw N records from C per instance; the last is the filler that a target would replace."""
    rng = stream(seed, "backgrounds", pool.name)
    candidates = np.asarray(pool.candidates)
    return [rng.choice(candidates, size, replace=False) for _ in range(game.instances)]


def _dealt(
    pool: Pool, background: NDArray[np.int64], coins: Coins, i: int, game: GameSection
) -> tuple[int, ...]:
    """Return D: the background with the target, or with the filler (or nothing) in its place."""
    *others, filler = background.tolist()
    if coins.member[i]:
        others.append(pool.targets[coins.target[i]])
    elif game.adjacency == "replace":
        others.append(filler)
    return tuple(sorted(others))


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


def _halves(targets: int, references: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    """Put each target into exactly half of the references; neighbours get complements."""
    inside = np.zeros((targets, references), dtype=np.bool_)
    order = rng.permutation(targets)
    for first in range(0, targets, 2):
        half = rng.permutation(references)[: references // 2]
        inside[order[first], half] = True
        if first + 1 < targets:
            inside[order[first + 1]] = ~inside[order[first]]
    return inside


def _baselines(
    instances: int, references: Sequence[RecordSet], targets: int
) -> tuple[Baseline, ...]:
    """S1 calibrates on nothing, S2 on the raw references, S3 on their releases."""
    forms = np.array(["instance"] * instances + [reference.form for reference in references])

    def using(form: str) -> NDArray[np.bool_]:
        return np.tile(forms == form, (targets, 1))

    return (
        Baseline("S1", using("none")),
        Baseline("S2", using("raw")),
        Baseline("S3", using("release")),
    )
