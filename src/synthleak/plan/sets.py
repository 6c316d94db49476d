"""Private sets and references: how every design draws them (docs/method.md §4.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import PlanError
from synthleak.core.reading import DRAWS, RECORDS
from synthleak.core.seeds import derive, stream
from synthleak.core.spec import GameSection
from synthleak.plan.plan import RecordSet
from synthleak.pools.pool import Owned, Pool

Placed = tuple[int, int]
"""Where a record stands among the others of a set, and the record."""

DEFAULT_RECORDS = 500
SMALL_RECORDS = 200
SMALL_CORPUS = 600


def game_size(pool: Pool, game: GameSection) -> int:
    """Return N: as the spec says, or 500, or 200 where there are fewer than 600 candidates.

    Fewer than 200 candidates give three quarters of them, so that private sets still differ.
    """
    available = len(pool.candidates)
    if game.records == "auto":
        size = SMALL_RECORDS if available < SMALL_CORPUS else DEFAULT_RECORDS
        if available < size:
            size = max(2, available * 3 // 4)
    else:
        size = game.records
    if size > available:
        raise PlanError(
            f"{size} records are wanted for each private set, and the pool {pool.name!r} leaves"
            f" {available} candidates",
            "game.records",
            f"use at most {available}, or lower game.auxiliary",
        )
    return size


def backgrounds(pool: Pool, game: GameSection, size: int, seed: int) -> list[NDArray[np.int64]]:
    """Draw N records from C for each instance; targets replace the last of them."""
    _check_draws(pool, game, size)
    rng = stream(seed, "backgrounds", pool.name)
    owned = pool.persons.candidates if pool.persons else None
    return [draw_records(pool.candidates, owned, size, rng) for _ in range(game.instances)]


def draw_records(
    records: Sequence[int], owned: Owned | None, size: int, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Draw `size` records without replacement; where they are `owned`, person by person.

    Of the last person only as many records are taken as are wanted (docs/method.md §15).
    """
    if owned is None:
        return rng.choice(np.asarray(records), size, replace=False)
    drawn: list[int] = []
    for person in rng.permutation(len(owned)).tolist():
        if len(drawn) >= size:
            break
        drawn += owned[person]
    return np.asarray(drawn[:size], dtype=np.int64)


def _check_draws(pool: Pool, game: GameSection, size: int) -> None:
    """Refuse a game that would not fit into memory: plans and releases are held as a whole."""
    if game.largest_size != "auto":
        asked = f"a release of {game.largest_size:,}"
        RECORDS.check(game.largest_size, asked, "game.release_size", PlanError)
    each = max(size, len(pool.targets))
    for name, count, times in (
        ("references", game.references, 2 * each),
        ("instances", game.instances, each),
        ("rounds", game.rounds, game.instances),
    ):
        what = f"{count:,}: the plan of the pool {pool.name!r}"
        DRAWS.check(count * times, what, f"game.{name}", PlanError)


def placed(pool: Pool, joining: Sequence[int], instead: Sequence[int]) -> list[Placed]:
    """Say where joining targets stand in a set: where the corpus has them.

    A canary has no place in the corpus. It stands where the record stood that it replaces, so that
    the end of a set tells nothing of who is in it.
    """
    written = {item.position for item in pool.written}
    return [
        (other if target in written else target, target)
        for target, other in zip(joining, instead, strict=True)
    ]


def in_order(records: Iterable[int], targets: Iterable[Placed] = ()) -> tuple[int, ...]:
    """Put the records of a set into the order of the corpus."""
    everybody = [*((record, record) for record in records), *targets]
    return tuple(record for _, record in sorted(everybody))


def instance_sets(
    pool: Pool, records: Sequence[tuple[Sequence[int], Sequence[Placed]]], seed: int
) -> list[RecordSet]:
    """Name the private sets of a game, others and targets of each, and give each its seed."""
    return [
        RecordSet(
            name=f"instance-{i:03d}",
            form="release",
            records=in_order(*inside),
            seed=derive(seed, "release", pool.name, "instance", i),
        )
        for i, inside in enumerate(records)
    ]


def reference_sets(pool: Pool, game: GameSection, size: int, seed: int) -> list[RecordSet]:
    """Draw the references: sets of `size` records, each target in exactly half of them.

    The records come from R and give up their places to the targets, so that a reference is as large
    as a private set. Each set is observed raw (S2) and handed to the generator (S3).
    """
    rng = stream(seed, "references", pool.name)
    inside = _halves(len(pool.targets), game.references, rng)
    owned = pool.persons.auxiliary if pool.persons else None
    sets = []
    for j, members in enumerate(inside.T):
        targets = [record for p in np.flatnonzero(members) for record in pool.joining[p]]
        room = size - len(targets)
        if room < size / 2:
            raise PlanError(
                f"{len(targets)} records of targets would fill more than half of a reference of"
                f" {size}",
                "game.records",
                f"give the pool {pool.name!r} a smaller size, or use more records",
            )
        if room > len(pool.auxiliary):
            raise PlanError(
                f"a reference needs {room} auxiliary records, and there are {len(pool.auxiliary)}",
                "game.auxiliary",
                "use fewer records, or raise game.auxiliary",
            )
        others = draw_records(pool.auxiliary, owned, room, rng).tolist()
        places = rng.choice(pool.auxiliary, len(targets)) if pool.written else targets
        records = in_order(others, placed(pool, targets, np.asarray(places).tolist()))
        seed_of_set = derive(seed, "release", pool.name, "reference", j)
        sets.append(RecordSet(f"reference-{j}", "release", records, seed_of_set))
        sets.append(RecordSet(f"reference-{j}-raw", "raw", records, seed_of_set))
    return sets


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
