"""Evidence: every proxy looks at every observation of every target (docs/method.md §6)."""

from __future__ import annotations

from dataclasses import dataclass

from synthleak.audit.setup import Setup
from synthleak.audit.steps.releases import header_of, open_release
from synthleak.core.cell import Cell
from synthleak.core.store import name_of
from synthleak.evidence.family import Family
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.table import evidence_key, look, put_evidence


@dataclass(frozen=True)
class ObservationUnit:
    """One observation, a block of targets, and the families that have not looked at them yet."""

    pool: str
    text: str
    raw: int | None
    families: tuple[str, ...]
    block: int = 0


def observations(setup: Setup, cell: Cell) -> list[tuple[str, int | None]]:
    """Return (content, raw set or none) for every set of a cell's plan, in the plan's order."""
    return [
        (setup.raw_key(item), position)
        if item.form == "raw"
        else (header_of(setup, cell, item).text, None)
        for position, item in enumerate(setup.plans[cell.pool].sets)
    ]


def evidence_keys(setup: Setup, targets: Targets, text: str) -> list[tuple[Family, str]]:
    """Return every family with the key of its values on one observation."""

    def make() -> list[tuple[Family, str]]:
        encoder = setup.plugins.encoder.identity()
        return [
            (member, evidence_key(member, encoder, targets, text))
            for member in setup.plugins.families
        ]

    return targets.remember(f"evidence keys on {text}", make)


def all_evidence_keys(setup: Setup, pool: str, text: str) -> list[str]:
    """Return the keys of all values on one observation: block by block, family by family."""
    return [
        key
        for block in setup.targets(pool).blocks()
        for _, key in evidence_keys(setup, block, text)
    ]


def missing_evidence(setup: Setup) -> list[ObservationUnit]:
    """Return the observations that some family has not looked at, each once."""
    units: dict[tuple[str, str, int], ObservationUnit] = {}
    for cell in setup.cells:
        blocks = setup.targets(cell.pool).blocks()
        for text, raw in observations(setup, cell):
            for number, block in enumerate(blocks):
                if (cell.pool, text, number) in units:
                    continue
                missing = tuple(
                    member.name
                    for member, key in evidence_keys(setup, block, text)
                    if not setup.store.exists(name_of("evidence", key))
                )
                unit = ObservationUnit(cell.pool, text, raw, missing, number)
                units[cell.pool, text, number] = unit
    return [unit for unit in units.values() if unit.families]


def observed(setup: Setup, pool: str, text: str, raw: int | None) -> Observation:
    """Open the observation of a unit: a release, or a raw set of the pool's plan."""

    def texts() -> list[str]:
        if raw is None:
            return [record.text for record in open_release(setup, text)]
        return setup.raw_texts(setup.plans[pool].sets[raw])

    return setup.last("observation", text, lambda: Observation(texts(), setup.encode))


def look_at(setup: Setup, unit: ObservationUnit) -> int:
    """Let the families of a unit look at its observation."""
    targets = setup.targets(unit.pool).blocks()[unit.block]
    observation = observed(setup, unit.pool, unit.text, unit.raw)
    for member, key in evidence_keys(setup, targets, unit.text):
        if member.name in unit.families:
            put_evidence(setup.store, key, look(member, targets, observation))
    put_away(setup, unit.pool, targets, observation)
    return 1


def put_away(setup: Setup, pool: str, targets: Targets, observation: Observation) -> None:
    """Forget a block once it was looked at: all blocks of a large pool would fill the memory."""
    if len(setup.targets(pool).blocks()) > 1:
        observation.forget_targets()
        targets.forget()
