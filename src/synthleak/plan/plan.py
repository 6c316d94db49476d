"""The plan: three tables that carry every design (docs/method.md §4).

`sets` says which records go to the generator or are observed as they are, `trials` what is scored
and what it counts for, `baselines` which observations calibrate which target. No later stage asks
which design is used. `lone.py`, `cohort.py` and `given.py` are the designs; `sets.py` is how they
draw private sets and references.
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
from synthleak.core.registry import Entry, Registry
from synthleak.core.seeds import digest
from synthleak.core.spec import Adjacency, GameSection
from synthleak.core.store import Store, keep, unpacked
from synthleak.pools.pool import Pool

Form = Literal["release", "raw"]
EVERY_ROUND = -1


@dataclass(frozen=True)
class RecordSet:
    """A set of records: handed to a generator (`release`) or observed as it is (`raw`).

    A generator is never told whether a set is an instance of the game or a reference.

    Attributes:
        name: what tables call it.
        form: how it is observed.
        records: the positions of its records.
        seed: that of its release.
    """

    name: str
    form: Form
    records: tuple[int, ...]
    seed: int


@dataclass(frozen=True)
class Trials:
    """What is scored: row i asks of `target[i]` on `set[i]`, and `member[i]` is the truth.

    Attributes:
        set: the number of the set.
        target: the position of the target in the pool.
        member: whether the set holds it.
        round: the round that the trial counts in; EVERY_ROUND for each of them.
        weight: what it counts for within its round.
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
        return int(max(self.round.max(initial=EVERY_ROUND), 0)) + 1

    def to_json(self) -> dict[str, list[Any]]:
        """Return the columns as JSON has them."""
        return {column: getattr(self, column).tolist() for column in Trials.__dataclass_fields__}

    @classmethod
    def from_json(cls, columns: dict[str, list[Any]]) -> Trials:
        """Return the trials of some JSON.

        Args:
            columns: what `to_json` returned.
        """
        kinds = {"member": np.bool_, "weight": np.float64}
        return cls(**{c: np.array(columns[c], kinds.get(c, np.int64)) for c in columns})

    @classmethod
    def once(
        cls, sets: NDArray[np.int64], target: NDArray[np.int64], member: NDArray[np.bool_]
    ) -> Trials:
        """Return trials of a single round, each counting once.

        Args:
            sets: the set of each trial.
            target: the target of each.
            member: whether the set holds it.
        """
        return cls(sets, target, member, np.zeros(len(sets), np.int64), np.ones(len(sets)))

    @classmethod
    def of_coins(cls, coins: NDArray[np.bool_]) -> Trials:
        """Return trials of every target on every set, once.

        Args:
            coins: who is in which set, `[set, target]`.
        """
        sets, targets = coins.shape
        return cls.once(
            np.repeat(np.arange(sets), targets), np.tile(np.arange(targets), sets), coins.ravel()
        )

    def take(self, which: NDArray[np.bool_]) -> Trials:
        """Return some of the trials.

        Args:
            which: whether to keep each.
        """
        return Trials(*(getattr(self, c)[which] for c in Trials.__dataclass_fields__))


@dataclass(frozen=True)
class Baseline:
    """Which sets calibrate which target in one scenario; a set never calibrates itself.

    Attributes:
        scenario: the attacker.
        uses: whether a set calibrates a target, `[target, set]`; no set at all means that the
            scenario is uncalibrated.
    """

    scenario: str
    uses: NDArray[np.bool_]


@dataclass(frozen=True)
class Plan:
    """One game as drawn; it never depends on generator or ε.

    Attributes:
        pool: the name of the pool.
        design: the name of the design.
        adjacency: what stands in a set where a target is out.
        nominal: N, the nominal size of a private set.
        release_size: how many texts a release has.
        targets: the positions of the targets in the corpus; of a person, its first record.
        origins: the pool that each target was selected by.
        sets: all record sets, instances first.
        trials: what is scored.
        baselines: which sets calibrate which target, for each scenario.
        coins: the trials that a bound on ε may count: one for each independent decision about one
            record. A design without such decisions has None.
        blocks: the block of each target, which redraws move together; none if each moves alone.
        either: whether blocks or single targets may have been drawn: both are redrawn then, and the
            larger p counts (docs/method.md §11).
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
        """Return the game of the first instances, with all references (docs/method.md §4.6).

        Args:
            instances: how many.
        """
        played = int(self.trials.set.max()) + 1
        if instances >= played:
            return self
        kept = [number for number in range(len(self.sets)) if not instances <= number < played]
        return replace(
            self,
            sets=tuple(self.sets[number] for number in kept),
            trials=self.trials.take(self.trials.set < instances),
            baselines=tuple(Baseline(b.scenario, b.uses[:, kept]) for b in self.baselines),
            coins=None if self.coins is None else self.coins.take(self.coins.set < instances),
        )

    @cached_property
    def fingerprint(self) -> str:
        return digest(self.to_bytes().hex())

    def to_bytes(self) -> bytes:
        """Return the plan as it is stored."""
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
        """Return a stored plan.

        Args:
            data: what `to_bytes` returned.

        Raises:
            ValueError: it is no plan.
        """
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
    """Return the plan of a game.

    Args:
        design: the name of the design.
        pool: the pool that is played.
        game: the `[game]` section of the spec.
        size: the nominal number of records in a private set.
        sets: all record sets: instances first, then references.
        trials: what is scored.
        baselines: for each scenario, which sets calibrate it, the same for every target.
        coins: the trials that a bound on ε may count, if any.
        blocks: the block of each target that redraws move as a whole, if any.
    """
    return Plan(
        pool=pool.name,
        design=design,
        adjacency=game.adjacency,
        nominal=size,
        release_size=size if game.largest_size == "auto" else game.largest_size,
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
    """Whether the files say who was a member."""
    in_blocks: ClassVar[bool] = False
    """Whether coins are tossed apart for each of `game.blocks`, which looks need."""

    @abstractmethod
    def draw(self, pool: Pool, game: GameSection, seed: int) -> Plan:
        """Draw the plan of one pool: backgrounds, references and seeds first, coins after them.

        Args:
            pool: the targets, and the records that are left for private sets and references.
            game: the `[game]` section of the spec.
            seed: the seed of the audit; each use takes a random stream of its own name.

        Raises:
            PlanError: the pool cannot be played in this way.
        """

    @abstractmethod
    def redraw(self, plan: Plan, game: GameSection, rng: np.random.Generator) -> Trials:
        """Toss the coins of a plan again, by the same sampler.

        Args:
            plan: what `draw` returned, or its first instances.
            game: the `[game]` section that it was drawn by.
            rng: draws the coins.

        Returns:
            Trials on the same sets that were as likely as those of the plan.
        """

    def draw_shared(
        self, pools: Mapping[str, Pool], game: GameSection, seed: int
    ) -> dict[str, Plan]:
        """Draw one plan for all pools: the same sets, each pool with the coins of its own.

        Args:
            pools: pools by name, which share C and R.
            game: the `[game]` section of the spec.
            seed: the seed of the audit.

        Raises:
            PlanError: the design cannot, or not with these pools.
        """
        raise PlanError(
            f"{game.design!r} cannot test several pools on one set of releases",
            "game.share_releases",
            'use design = "cohort", or leave share_releases out',
        )

    def within_records(self, plan: Plan) -> bool:
        """Say whether a record is compared with itself over releases, or with the whole pool.

        Args:
            plan: the plan.
        """
        return False

    def many_others(self, plan: Plan) -> bool:
        """Say whether enough non-members are planned for the far tail of the ROC.

        It may depend on anything but the coins: the statistics of redraws must be the same ones.

        Args:
            plan: the plan.
        """
        return False

    def ranks_members(self, plan: Plan) -> bool:
        """Say whether members are ranked against one release's holdout (docs/method.md §11).

        Args:
            plan: the plan.
        """
        return False


designs: Registry[Design] = Registry("design", "synthleak.plan")


def draw_all(
    pools: Mapping[str, Pool], game: GameSection, seed: int, store: Store
) -> dict[str, Plan]:
    """Return the plan of every pool, drawn once; all are one game with `share_releases`."""
    entries = {name: _playable(pool, game) for name, pool in pools.items()}
    contents = {name: pool.to_bytes().decode() for name, pool in pools.items()}
    shared: dict[str, Plan] = {}

    def make(name: str) -> Plan:
        design = entries[name].plugin
        if not game.share_releases:
            return design.draw(pools[name], game, seed)
        if not shared:
            shared.update(design.draw_shared(pools, game, seed))
        return shared[name]

    def key(name: str) -> str:
        version = entries[name].version
        if not game.share_releases:
            return digest("plan", version, contents[name], game.model_dump(), seed)
        whole = [version, list(contents.values())]
        return digest("plan", "shared", name, whole, game.model_dump(), seed)

    return {
        name: keep(store, "plan", key(name), partial(make, name), Plan.to_bytes, Plan.from_bytes)
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
