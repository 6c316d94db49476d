"""Prior attacks on the same releases, as work: sightings first, then figures (METHOD §9).

Like evidence and figures, what an attack sees of an observation, and what it is worth on a cell,
are kept under keys of all that they were made from.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np

from synthleak.analyses.cells import Cell
from synthleak.analyses.prior import AttackFigures, assess_attack
from synthleak.evidence.attack import Attack, attack_key, strike
from synthleak.evidence.observation import TextSet
from synthleak.evidence.table import get_evidence, put_evidence
from synthleak.identity import digest
from synthleak.metrics.dealt import Dealt, dealt, redeal
from synthleak.plan.plan import Plan, designs
from synthleak.seeds import stream
from synthleak.store import keep, name_of
from synthleak.work.figures import redraws_of
from synthleak.work.observations import observations, observed, put_away
from synthleak.work.releases import open_release
from synthleak.workbench import Workbench

VERSION = 2
NEXT = 4
"""How many releases stand in for references where every release calibrates all others."""


@dataclass(frozen=True)
class StrikeUnit:
    """One observation, the references beside it, and the attacks that have not seen them yet."""

    pool: str
    text: str
    raw: int | None
    references: tuple[str, ...]
    attacks: tuple[str, ...]
    block: int = 0


def reference_positions(plan: Plan, position: int) -> tuple[int, ...]:
    """Return the sets whose releases an attack on this set may use: those of S3.

    Where a set itself calibrates others (`cohort`), these are the four that follow it.
    """
    uses = [b.uses.any(axis=0) for b in plan.baselines if b.scenario == "S3"]
    found = np.flatnonzero(uses[0]) if uses else np.array([], dtype=np.int64)
    if position not in found:
        return tuple(found.tolist())
    place = int(np.searchsorted(found, position))
    following = np.roll(found, -place)[1 : NEXT + 1]
    return tuple(following.tolist())


def _sightings(bench: Workbench, cell: Cell) -> Iterator[tuple[int, StrikeUnit]]:
    """Yield every set that some attack looks at, as units of all the attacks that do."""
    plan = bench.plans[cell.pool]
    scored = int(plan.trials.set.max()) + 1
    there = observations(bench, cell)
    for position, (text, raw) in enumerate(there):
        references = (
            tuple(there[other][0] for other in reference_positions(plan, position))
            if position < scored
            else ()
        )
        wanted = tuple(
            attack.kind
            for attack in attacks_on(bench, cell)
            if position < scored or not attack.scores_only
        )
        for block in range(len(bench.targets(cell.pool).blocks())):
            yield position, StrikeUnit(cell.pool, text, raw, references, wanted, block)


def _key(bench: Workbench, attack: Attack, unit: StrikeUnit) -> str:
    encoder = bench.plugins.encoder.identity()
    targets = bench.targets(unit.pool).blocks()[unit.block]
    return attack_key(attack, encoder, targets, unit.text, unit.references)


def missing_strikes(bench: Workbench) -> list[StrikeUnit]:
    """Return the observations that some attack has not looked at, each once."""
    units: dict[StrikeUnit, StrikeUnit] = {}
    for cell in bench.cells:
        for _, unit in _sightings(bench, cell):
            if unit in units:
                continue
            missing = tuple(
                attack.kind
                for attack in bench.plugins.attacks
                if attack.kind in unit.attacks
                and not bench.store.exists(name_of("evidence", _key(bench, attack, unit)))
            )
            units[unit] = replace(unit, attacks=missing)
    return [unit for unit in units.values() if unit.attacks]


def strike_at(bench: Workbench, unit: StrikeUnit) -> int:
    """Let the attacks of a unit look at its observation."""
    targets = bench.targets(unit.pool).blocks()[unit.block]
    observation = observed(bench, unit.pool, unit.text, unit.raw)
    for attack in bench.plugins.attacks:
        if attack.kind in unit.attacks:
            references = (
                _references(bench, unit) if attack.uses_references and unit.references else None
            )
            values = strike(attack, targets, observation, references)
            put_evidence(bench.store, _key(bench, attack, unit), values)
    put_away(bench, unit.pool, targets, observation)
    return 1


def _references(bench: Workbench, unit: StrikeUnit) -> TextSet:
    """Return the references of a unit; all sets of a `lone` cell share them, so keep the last."""
    last: dict[tuple[str, ...], TextSet] = bench.targets(unit.pool).remember("references", dict)
    if unit.references not in last:
        texts = [record.text for text in unit.references for record in open_release(bench, text)]
        last.clear()
        last[unit.references] = TextSet(texts, bench.encode)
    return last[unit.references]


def rivals_of(bench: Workbench, cell: Cell) -> list[AttackFigures]:
    """Return the figures of every prior attack on a cell, made now only if they never were."""
    plan = bench.plans[cell.pool]
    design = designs.get(plan.design).plugin

    @cache
    def hands() -> list[Dealt]:
        rng, redraws = stream(*_name(bench, cell)), redraws_of(bench, cell.pool)
        drawn = redeal(design, plan, bench.spec.game, rng, redraws)
        return [dealt(plan.trials, len(plan.targets)), *drawn]

    def make(attack: Attack) -> AttackFigures:
        values = np.zeros((len(plan.sets), len(plan.targets), attack.columns))
        done = [0] * len(plan.sets)
        for position, key in _keys(bench, cell, attack):
            block = get_evidence(bench.store, key)
            values[position, done[position] : done[position] + len(block)] = block
            done[position] += len(block)
        return assess_attack(attack, values, design, plan, hands())

    return [
        keep(
            bench.store,
            "figures",
            rivals_key(bench, cell, attack),
            partial(make, attack),
            AttackFigures.to_bytes,
            AttackFigures.from_bytes,
        )
        for attack in attacks_on(bench, cell)
    ]


def attacks_on(bench: Workbench, cell: Cell) -> list[Attack]:
    """Return the attacks that some attacker of the plan can mount: DOMIAS needs a reference."""
    played = {baseline.scenario for baseline in bench.plans[cell.pool].baselines}
    return [
        attack
        for attack in bench.plugins.attacks
        if any(arm.scenario in played for arm in attack.arms)
    ]


def rivals_key(bench: Workbench, cell: Cell, attack: Attack) -> str:
    """Return the key of an attack's figures on a cell: plan, what it saw, streams, redraws."""
    plan = bench.plans[cell.pool]
    return digest(
        "rivals",
        VERSION,
        attack.identity(),
        [designs.get(plan.design).version, plan.fingerprint],
        bench.spec.game.model_dump(),
        _name(bench, cell),
        redraws_of(bench, cell.pool),
        [key for _, key in _keys(bench, cell, attack)],
    )


def missing_rivals(bench: Workbench) -> list[Cell]:
    """Return the cells on which some attack's figures are not in the store."""
    return [
        cell
        for cell in bench.cells
        if not all(
            bench.store.exists(name_of("figures", rivals_key(bench, cell, attack)))
            for attack in attacks_on(bench, cell)
        )
    ]


def assess_rivals(bench: Workbench, cell: Cell) -> int:
    """Make the figures of the prior attacks on one cell."""
    rivals_of(bench, cell)
    return 1


def _keys(bench: Workbench, cell: Cell, attack: Attack) -> list[tuple[int, str]]:
    """Return (set, key) for every set of a cell that an attack looks at."""
    return [
        (position, _key(bench, attack, unit))
        for position, unit in _sightings(bench, cell)
        if attack.kind in unit.attacks
    ]


def _name(bench: Workbench, cell: Cell) -> tuple[int | str, ...]:
    budget = repr(cell.epsilon)
    return (bench.spec.seed, "rivals", cell.corpus, cell.pool, cell.generator, budget)
