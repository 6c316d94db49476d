"""Prior attacks on the same releases: what each sees, then what it is worth (docs/method.md §9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from synthleak.analyses.prior import AttackMeasurements, measure_attack
from synthleak.audit.setup import (
    Setup,
    encoding,
    game_of,
    last_of,
    plan_identity,
    plan_of,
    stream_name,
    targets_in,
)
from synthleak.audit.steps.measurements import redraws_of
from synthleak.audit.steps.observations import (
    Observed,
    last_observation,
    observations,
    put_away,
)
from synthleak.audit.steps.releases import open_release
from synthleak.calibration import rounded
from synthleak.core.artefact import Artefact, Need, as_json
from synthleak.core.cell import Cell
from synthleak.core.seeds import digest, stream
from synthleak.core.store import name_of
from synthleak.evidence.attack import Attack, attack_key, observe
from synthleak.evidence.observation import Floats, TextSet
from synthleak.evidence.table import by_person, get_evidence, person_arms, put_evidence
from synthleak.metrics.measure import over_looks
from synthleak.metrics.membership import Assignment, assignment_of, redraw_assignments
from synthleak.metrics.verdict_statistics import STATISTICS_VERSION
from synthleak.plan.plan import Plan, designs

VERSION = 1 + STATISTICS_VERSION
NEXT = 4
"""How many releases stand in for references where every release calibrates all others."""


@dataclass(frozen=True)
class AttackUnit:
    """One observation, the references beside it, and the attacks that have not seen them yet."""

    pool: str
    observed: Observed
    references: tuple[str, ...]
    attacks: tuple[str, ...]
    block: int = 0


def reference_positions(plan: Plan, position: int) -> tuple[int, ...]:
    """Return the sets whose releases an attack on this set may use: those of S3.

    Where a set itself calibrates others (`cohort`), these are the four that follow it.
    """
    uses = [b.uses.any(axis=0) for b in plan.baselines if b.scenario == "S3"]
    references = np.flatnonzero(uses[0]) if uses else np.array([], dtype=np.int64)
    if position not in references:
        return tuple(references.tolist())
    place = int(np.searchsorted(references, position))
    following = np.roll(references, -place)[1 : NEXT + 1]
    return tuple(following.tolist())


def _attack_units(setup: Setup, cell: Cell) -> Iterator[tuple[int, AttackUnit]]:
    """Yield every set that some attack looks at, as units of all the attacks that do."""
    plan = plan_of(setup, cell)
    scored = int(plan.trials.set.max()) + 1
    observed_sets = observations(setup, cell)
    for position, seen in enumerate(observed_sets):
        references = (
            tuple(observed_sets[other].key for other in reference_positions(plan, position))
            if position < scored
            else ()
        )
        wanted = tuple(
            attack.kind
            for attack in attacks_on(setup, cell)
            if position < scored or not attack.scores_only
        )
        for block in range(len(targets_in(setup, cell.pool).blocks())):
            yield position, AttackUnit(cell.pool, seen, references, wanted, block)


def _key(setup: Setup, attack: Attack, unit: AttackUnit) -> str:
    encoder = setup.plugins.encoder.identity()
    targets = targets_in(setup, unit.pool).blocks()[unit.block]
    return attack_key(attack, encoder, targets, unit.observed.key, unit.references)


def each_missing_attack(setup: Setup) -> Iterator[AttackUnit]:
    """Yield the observations that some attack has not looked at, each once, cell after cell."""
    listed: set[AttackUnit] = set()
    for cell in setup.cells:
        for _, unit in _attack_units(setup, cell):
            if unit in listed:
                continue
            listed.add(unit)
            missing = tuple(
                attack.kind
                for attack in setup.plugins.attacks
                if attack.kind in unit.attacks
                and not setup.store.exists(name_of("evidence", _key(setup, attack, unit)))
            )
            if missing:
                yield replace(unit, attacks=missing)


def attack_observation(setup: Setup, unit: AttackUnit) -> int:
    """Let the attacks of a unit look at its observation."""
    targets = targets_in(setup, unit.pool).blocks()[unit.block]
    observation = last_observation(setup, unit.pool, unit.observed)
    for attack in setup.plugins.attacks:
        if attack.kind in unit.attacks:
            references = (
                _references(setup, unit) if attack.uses_references and unit.references else None
            )
            values = observe(attack, targets, observation, references)
            put_evidence(setup.store, _key(setup, attack, unit), values)
    put_away(setup, unit.pool, targets, observation)
    return 1


def _references(setup: Setup, unit: AttackUnit) -> TextSet:
    """Return the references of a unit; all sets of a `lone` cell share them."""

    def make() -> TextSet:
        texts = [record.text for text in unit.references for record in open_release(setup, text)]
        return TextSet(texts, encoding(setup))

    return last_of(setup, "references", unit.references, make)


def attacks_on(setup: Setup, cell: Cell) -> list[Attack]:
    """Return the attacks that some attacker of the plan can mount: DOMIAS needs a reference."""
    scenarios = {baseline.scenario for baseline in plan_of(setup, cell).baselines}
    return [
        attack
        for attack in setup.plugins.attacks
        if any(arm.scenario in scenarios for arm in attack.arms)
    ]


def _keys(setup: Setup, cell: Cell, attack: Attack) -> list[tuple[int, str]]:
    """Return (set, key) for every set of a cell that an attack looks at."""
    return [
        (position, _key(setup, attack, unit))
        for position, unit in _attack_units(setup, cell)
        if attack.kind in unit.attacks
    ]


def prior_key(setup: Setup, cell: Cell, attack: Attack) -> str:
    """Return the key of an attack's measurements on a cell: plan, what it saw, streams, redraws."""
    # Strings of a key stay as they are, whatever the code is called: stored runs depend on them.
    return digest(
        "rivals",
        VERSION,
        attack.identity(),
        plan_identity(setup, cell),
        game_of(setup, cell).model_dump(),
        stream_name(setup, "rivals", cell),
        redraws_of(setup, cell.pool),
        [key for _, key in _keys(setup, cell, attack)],
    )


def seen_by(setup: Setup, cell: Cell, attack: Attack) -> Floats:
    """Return `[set, target, column]`: what an attack saw on the sets of a cell."""
    plan = plan_of(setup, cell)
    pool = setup.pools[cell.pool]
    values = np.zeros((len(plan.sets), len(pool.asked), attack.columns))
    done = [0] * len(plan.sets)
    for position, key in _keys(setup, cell, attack):
        block = get_evidence(setup.store, key)
        values[position, done[position] : done[position] + len(block)] = block
        done[position] += len(block)
    return by_person(rounded(values), pool.sizes) if pool.persons is not None else values


def _measure(setup: Setup, cell: Cell, attack: Attack) -> AttackMeasurements:
    plan = plan_of(setup, cell)
    values = seen_by(setup, cell, attack)
    arms = person_arms(attack.arms) if setup.spec.game.persons else attack.arms
    design = designs.get(plan.design).plugin
    measured = measure_attack(attack, values, design, plan, _assignments(setup, cell), arms)
    looks = setup.spec.game.number_of_looks
    return replace(measured, p=None if measured.p is None else over_looks(measured.p, looks))


def _assignments(setup: Setup, cell: Cell) -> list[Assignment]:
    """Return the assignment that was played, and the redraws that all attacks on a cell share."""
    plan = plan_of(setup, cell)

    def draw() -> list[Assignment]:
        rng, redraws = stream(*stream_name(setup, "rivals", cell)), redraws_of(setup, cell.pool)
        design = designs.get(plan.design).plugin
        drawn = redraw_assignments(design, plan, game_of(setup, cell), rng, redraws)
        return [assignment_of(plan.trials, len(plan.targets)), *drawn]

    return last_of(setup, "redraws", cell, draw)


PRIOR = Artefact("figures", prior_key, _measure, *as_json(AttackMeasurements))
"""The measurements of one prior attack on a cell."""


def prior_attack_needs(setup: Setup, cell: Cell) -> list[Need]:
    return [(PRIOR, (cell, attack)) for attack in attacks_on(setup, cell)]
