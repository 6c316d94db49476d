"""The plan: three tables that carry every design (docs/method.md §4).

`sets` says which records go to the generator or are observed as they are, `trials` what is scored
and what it counts for, `baselines` which observations calibrate which target. No later stage asks
which design is used.
"""

from __future__ import annotations

import gzip
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, FiniteFloat, NonNegativeInt

from synthleak.core.errors import PlanError
from synthleak.core.identity import digest
from synthleak.core.registry import Entry, Registry
from synthleak.core.spec_sections import Adjacency, GameSection
from synthleak.core.store import Store, keep, unpacked
from synthleak.pools.pool import Pool

Form = Literal["release", "raw"]
EVERY_ROUND = -1


@dataclass(frozen=True)
class RecordSet:
    """A set of records: handed to a generator (`release`) or observed as it is (`raw`).

    A generator is never told whether a set is an instance of the game or a reference.
    """

    name: str
    form: Form
    records: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Trials:
    """What is scored: row i asks of `target[i]` on `set[i]`, and `member[i]` is the truth.

    `round` is EVERY_ROUND for a trial that counts in each round; `target` is a position in the
    pool; `weight` is what the trial counts for within its round.
    """

    set: NDArray[np.int64]
    target: NDArray[np.int64]
    member: NDArray[np.bool_]
    round: NDArray[np.int64]
    weight: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.set)

    @property
    def rounds(self) -> int:
        """The number of rounds."""
        return int(max(self.round.max(initial=EVERY_ROUND), 0)) + 1

    def to_json(self) -> dict[str, list[Any]]:
        """Return the columns for the store."""
        return {column: getattr(self, column).tolist() for column in Trials.__dataclass_fields__}

    @classmethod
    def from_json(cls, columns: dict[str, list[Any]]) -> Trials:
        """Read columns written by `to_json`."""
        kinds = {"member": np.bool_, "weight": np.float64}
        return cls(**{c: np.array(columns[c], kinds.get(c, np.int64)) for c in columns})

    @classmethod
    def once(
        cls, sets: NDArray[np.int64], target: NDArray[np.int64], member: NDArray[np.bool_]
    ) -> Trials:
        """Return trials of a single round, each counting once."""
        return cls(sets, target, member, np.zeros(len(sets), np.int64), np.ones(len(sets)))

    def take(self, which: NDArray[np.bool_]) -> Trials:
        """Return some of the trials."""
        return Trials(*(getattr(self, c)[which] for c in Trials.__dataclass_fields__))


@dataclass(frozen=True)
class Baseline:
    """Which sets calibrate which target in one scenario; a set never calibrates itself.

    `uses[target, set]`; no set at all means that the scenario is uncalibrated.
    """

    scenario: str
    uses: NDArray[np.bool_]


@dataclass(frozen=True)
class Plan:
    """One game as drawn; it never depends on generator or ε.

    `coins` are the trials that a bound on ε may count: one for each independent decision about one
    record. A design without such decisions has none. Redraws move targets of one of the `blocks`
    together; without blocks each target moves alone. Where `either` may be what was drawn, both are
    redrawn, and the larger p counts (docs/method.md §11).
    """

    pool: str
    design: str
    adjacency: Adjacency
    nominal: int
    release_size: int
    targets: tuple[int, ...]
    origins: tuple[str, ...]
    sets: tuple[RecordSet, ...]
    trials: Trials
    baselines: tuple[Baseline, ...]
    coins: Trials | None = None
    blocks: tuple[int, ...] = ()
    either: bool = False

    @property
    def readings(self) -> tuple[Plan, ...]:
        """The plan for each unit that may have been drawn: one, or whole blocks and targets."""
        if not self.either:
            return (self,)
        return replace(self, either=False), replace(self, either=False, blocks=())

    @property
    def block_of(self) -> NDArray[np.int64]:
        """The number of each target's block; its own where it moves alone."""
        return np.asarray(self.blocks or range(len(self.targets)), dtype=np.int64)

    def first(self, instances: int) -> Plan:
        """Return the game of the first instances, with all references (docs/method.md §4.6)."""
        played = int(self.trials.set.max()) + 1
        if instances >= played:
            return self
        kept = [place for place in range(len(self.sets)) if not instances <= place < played]
        return replace(
            self,
            sets=tuple(self.sets[place] for place in kept),
            trials=self.trials.take(self.trials.set < instances),
            baselines=tuple(Baseline(b.scenario, b.uses[:, kept]) for b in self.baselines),
            coins=None if self.coins is None else self.coins.take(self.coins.set < instances),
        )

    @cached_property
    def fingerprint(self) -> str:
        """The content hash of the plan."""
        return digest(self.to_bytes().hex())

    def to_bytes(self) -> bytes:
        """Write the plan for the store."""
        content = {
            "pool": self.pool,
            "design": self.design,
            "adjacency": self.adjacency,
            "nominal": self.nominal,
            "release_size": self.release_size,
            "targets": self.targets,
            "origins": self.origins,
            "sets": [[s.name, s.form, s.records, s.seed] for s in self.sets],
            "trials": self.trials.to_json(),
            "baselines": [[b.scenario, b.uses.astype(int).tolist()] for b in self.baselines],
            "coins": None if self.coins is None else self.coins.to_json(),
        }
        if self.blocks:
            content["blocks"] = self.blocks
        if self.either:
            content["either"] = True
        return gzip.compress(json.dumps(content).encode(), mtime=0)

    @classmethod
    def from_bytes(cls, data: bytes) -> Plan:
        """Read a plan from the store."""
        content: dict[str, Any] = dict(_Content.model_validate_json(unpacked(data)))
        coins = content["coins"]
        content |= {
            "sets": tuple(
                RecordSet(name, form, records, seed)
                for name, form, records, seed in content["sets"]
            ),
            "trials": Trials.from_json(dict(content["trials"])),
            "coins": None if coins is None else Trials.from_json(dict(coins)),
            "baselines": tuple(
                Baseline(scenario, np.array(uses, dtype=np.bool_))
                for scenario, uses in content["baselines"]
            ),
        }
        plan = cls(**content)
        shape = len(plan.targets), len(plan.sets)
        for trials in filter(None, (plan.trials, plan.coins)):
            sizes = {len(getattr(trials, column)) for column in Trials.__dataclass_fields__}
            inside = (trials.set < shape[1]).all() and (trials.target < shape[0]).all()
            if len(sizes) != 1 or not inside:
                raise ValueError("trials of no target, or on no set")
        if any(baseline.uses.shape != shape for baseline in plan.baselines):
            raise ValueError("a baseline of other targets or sets")
        return plan


class _Columns(BaseModel):
    set: list[NonNegativeInt]
    target: list[NonNegativeInt]
    member: list[bool]
    round: list[int]
    weight: list[FiniteFloat]


class _Content(BaseModel):
    """What a plan is written as."""

    pool: str
    design: str
    adjacency: Adjacency
    nominal: NonNegativeInt
    release_size: NonNegativeInt
    targets: tuple[NonNegativeInt, ...]
    origins: tuple[str, ...]
    sets: list[tuple[str, Form, tuple[NonNegativeInt, ...], int]]
    trials: _Columns
    baselines: list[tuple[str, list[list[bool]]]]
    coins: _Columns | None
    blocks: tuple[int, ...] = ()
    either: bool = False


def draw_plan(
    design: str,
    pool: Pool,
    game: GameSection,
    size: int,
    sets: Sequence[RecordSet],
    trials: Trials,
    *,
    baselines: Mapping[str, NDArray[np.bool_]],
    coins: Trials | None,
    blocks: tuple[int, ...] = (),
) -> Plan:
    """Return the plan of a game with private sets of `size` records.

    `baselines` says for each scenario which sets calibrate it, the same for every target.
    """
    return Plan(
        pool=pool.name,
        design=design,
        adjacency=game.adjacency,
        nominal=size,
        release_size=size if game.release_size == "auto" else game.release_size,
        targets=pool.targets,
        origins=pool.origins,
        sets=tuple(sets),
        trials=trials,
        baselines=tuple(
            Baseline(scenario, np.tile(uses, (len(pool.targets), 1)))
            for scenario, uses in baselines.items()
        ),
        coins=coins,
        blocks=blocks,
    )


class Design(ABC):
    """A design of the game. Coins are tossed last and apart, so that they can be tossed again.

    A design of `given` files needs a corpus that says who was a member; the others need one that
    does not.
    """

    given: ClassVar[bool] = False
    in_blocks: ClassVar[bool] = False
    """Whether coins are tossed apart for each of `game.blocks`, which looks need."""

    @abstractmethod
    def draw(self, pool: Pool, game: GameSection, seed: int) -> Plan:
        """Draw the plan of one pool: backgrounds, references and seeds first, coins after them."""

    @abstractmethod
    def redraw(self, plan: Plan, game: GameSection, rng: np.random.Generator) -> Trials:
        """Toss the coins of a plan again, by the same sampler."""

    def draw_shared(
        self, pools: Mapping[str, Pool], game: GameSection, seed: int
    ) -> dict[str, Plan]:
        """Draw one plan for all pools: the same sets, each pool with the coins of its own."""
        raise PlanError(
            f"{game.design!r} cannot test several pools on one set of releases",
            "game.share_releases",
            'use design = "cohort", or leave share_releases out',
        )

    def within_records(self, plan: Plan) -> bool:
        """Say whether a record is compared with itself over releases, or with the whole pool."""
        return False

    def many_others(self, plan: Plan) -> bool:
        """Say whether enough non-members are planned for the far tail of the ROC.

        It may depend on anything but the coins: the statistics of redraws must be the same ones.
        """
        return False

    def ranks_members(self, plan: Plan) -> bool:
        """Say whether members are ranked against one release's holdout (docs/method.md §11)."""
        return False


designs: Registry[Design] = Registry("design", "synthleak.plan")


def draw_once(pool: Pool, game: GameSection, seed: int, store: Store) -> Plan:
    """Return the plan of a pool, drawn once per (pool, game, seed)."""
    entry = _playable(pool, game)
    key = digest("plan", entry.version, pool.to_bytes().decode(), game.model_dump(), seed)
    return keep(
        store,
        "plan",
        key,
        lambda: entry.plugin.draw(pool, game, seed),
        Plan.to_bytes,
        Plan.from_bytes,
    )


def draw_all(
    pools: Mapping[str, Pool], game: GameSection, seed: int, store: Store
) -> dict[str, Plan]:
    """Return the plan of every pool; with `share_releases` all are parts of one game."""
    if not game.share_releases:
        return {name: draw_once(pool, game, seed, store) for name, pool in pools.items()}
    entry = _playable(next(iter(pools.values())), game)
    whole = [entry.version, [pool.to_bytes().decode() for pool in pools.values()]]
    drawn: dict[str, Plan] = {}

    def make(name: str) -> Plan:
        if not drawn:
            drawn.update(entry.plugin.draw_shared(pools, game, seed))
        return drawn[name]

    return {
        name: keep(
            store,
            "plan",
            digest("plan", "shared", name, whole, game.model_dump(), seed),
            partial(make, name),
            Plan.to_bytes,
            Plan.from_bytes,
        )
        for name in pools
    }


def _playable(pool: Pool, game: GameSection) -> Entry[Design]:
    """Return the design of a game, or say why this corpus cannot be played with it."""
    entry = designs.get(game.design, "game.design")
    if entry.plugin.given and pool.given is None:
        raise PlanError(
            f"{game.design!r} needs a corpus that says who was a member",
            "game.design",
            'read members and holdout with reader = "split"',
        )
    if pool.given is not None and not entry.plugin.given:
        raise PlanError(
            f"{game.design!r} draws private sets, and this corpus brings its own",
            "game.design",
            'use "given" with the reader "split"',
        )
    if game.looks and not entry.plugin.in_blocks:
        raise PlanError(
            f"{game.design!r} cannot be looked at before its end",
            "game.looks",
            'use design = "cohort" or "lone", or leave looks out',
        )
    return entry
