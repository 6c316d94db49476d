"""Evidence: every proxy looks at every observation of every target (docs/method.md §6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from synthleak.audit.setup import Setup
from synthleak.audit.steps.releases import header_of, open_release
from synthleak.core.artefact import Artefact
from synthleak.core.cell import Cell
from synthleak.core.identity import digest
from synthleak.core.store import name_of
from synthleak.evidence.family import Family
from synthleak.evidence.fast import neighbours
from synthleak.evidence.fast.pairs import by_length, read_by_length, write_by_length
from synthleak.evidence.fast.release_neighbours import ReleaseStatistics
from synthleak.evidence.observation import Observation, Targets, check_values
from synthleak.evidence.table import evidence_key, look, put_evidence

NEIGHBOURS_VERSION = 1


@dataclass(frozen=True)
class ObservationUnit:
    """One observation, a block of targets, and the families that have not looked at them yet."""

    pool: str
    text: str
    raw: int | None
    families: tuple[str, ...]
    block: int = 0


@dataclass(frozen=True)
class NeighbourUnit:
    """A large observation whose texts are yet to be compared with one another."""

    pool: str
    text: str
    raw: int | None


def observations(setup: Setup, cell: Cell) -> list[tuple[str, int | None]]:
    """Return (content, raw set or none) for every set of a cell's plan, in the plan's order."""
    return [
        (setup.raw_key(item), position)
        if item.form == "raw"
        else (header_of(setup, cell, item).text, None)
        for position, item in setup.sets_of(cell)
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
    return list(each_missing_evidence(setup))


def each_missing_evidence(setup: Setup) -> Iterator[ObservationUnit]:
    """Yield the units of missing evidence, one cell after another: there may be a million."""
    listed: set[tuple[str, str, int]] = set()
    for cell in setup.cells:
        blocks = setup.targets(cell.pool).blocks()
        for text, raw in observations(setup, cell):
            for number, block in enumerate(blocks):
                if (cell.pool, text, number) in listed:
                    continue
                listed.add((cell.pool, text, number))
                missing = tuple(
                    member.name
                    for member, key in evidence_keys(setup, block, text)
                    if member.model is None and not setup.store.exists(name_of("evidence", key))
                )
                if missing:
                    yield ObservationUnit(cell.pool, text, raw, missing, number)


@dataclass(frozen=True)
class ModelUnit:
    """Observations that a family fits its model to in one call, and the targets to be scored.

    `targets` are (pool, block): pools that share releases share the fitted models too.
    """

    family: str
    sets: tuple[tuple[str, int | None], ...]
    targets: tuple[tuple[str, int], ...]


MODELS_AT_ONCE = 128
"""Observations of one unit: what one fleet could ever hold. What is made is kept unit by unit."""


def missing_models(setup: Setup) -> list[ModelUnit]:
    """Return the observations that a family with a model has not looked at, many to a unit."""
    wanted: dict[tuple[str, str], dict[tuple[str, int], int | None]] = {}
    if not any(member.model for member in setup.plugins.families):
        return []
    for cell in setup.cells:
        for number, block in enumerate(setup.targets(cell.pool).blocks()):
            for text, raw in observations(setup, cell):
                for member, key in evidence_keys(setup, block, text):
                    if member.model and not setup.store.exists(name_of("evidence", key)):
                        lookers = wanted.setdefault((member.name, text), {})
                        lookers.setdefault((cell.pool, number), raw)
    together: dict[tuple[str, tuple[tuple[str, int], ...]], list[tuple[str, int | None]]] = {}
    for (family, text), lookers in wanted.items():
        raw = next(iter(lookers.values()))  # its place in the plan of the first pool
        together.setdefault((family, tuple(lookers)), []).append((text, raw))
    return [
        ModelUnit(family, tuple(sets[start : start + MODELS_AT_ONCE]), targets)
        for (family, targets), sets in together.items()
        for start in range(0, len(sets), MODELS_AT_ONCE)
    ]


def look_with_models(setup: Setup, unit: ModelUnit) -> int:
    """Let a family fit its model to the observations of a unit, and keep what it sees."""
    blocks = [setup.targets(pool).blocks()[number] for pool, number in unit.targets]
    member = next(item for item in setup.plugins.families if item.name == unit.family)
    assert member.model is not None
    first = unit.targets[0][0]
    opened = [open_observation(setup, first, text, raw) for text, raw in unit.sets]
    asked = Targets([text for block in blocks for text in block.texts], setup.encode)
    values = member.model.look_together(asked, opened)
    for (text, _), seen in zip(unit.sets, values, strict=True):
        shape = (len(asked), len(member.proxies))
        checked = check_values(f"the family {member.name!r}", seen, shape)
        ends = np.cumsum([len(block) for block in blocks])[:-1]
        for block, own in zip(blocks, np.split(checked, ends), strict=True):
            keys = {item.name: key for item, key in evidence_keys(setup, block, text)}
            put_evidence(setup.store, keys[member.name], own)
    return len(unit.sets)


def check_models(setup: Setup) -> None:
    """Ask every family with a model whether it can look, before any work."""
    for member in setup.plugins.families:
        if member.model is not None:
            member.model.check()


def observed(setup: Setup, pool: str, text: str, raw: int | None) -> Observation:
    """Open the observation of a unit: a release, or a raw set of the pool's plan."""
    return setup.last("observation", text, lambda: open_observation(setup, pool, text, raw))


def open_observation(setup: Setup, pool: str, text: str, raw: int | None) -> Observation:
    """Read the texts of an observation."""
    if raw is None:
        texts = [record.text for record in open_release(setup, text)]
    else:
        texts = setup.raw_texts(setup.plans[pool].sets[raw])
    observation = Observation(texts, setup.encode)
    if setup.shared is not None and neighbours.is_large(observation):
        read_by_length(observation, setup.shared / text)
    return observation


def missing_neighbours(setup: Setup) -> list[NeighbourUnit]:
    """Return the large observations whose texts were not compared with one another, each once.

    Only those that some embedding family has yet to look at: small ones are compared as they are
    looked at, by every worker for itself.
    """
    large: dict[str, NeighbourUnit] = {}
    for cell in setup.cells:
        for position, item in setup.sets_of(cell):
            raw = item.form == "raw"
            header = None if raw else header_of(setup, cell, item)
            if (header.size if header else len(item.records)) <= neighbours.LARGE:
                continue
            text = header.text if header else setup.raw_key(item)
            large.setdefault(text, NeighbourUnit(cell.pool, text, position if raw else None))
    if not large:
        return []
    embedding = {member.name for member in setup.plugins.families if member.view == "embedding"}
    waiting = {unit.text for unit in missing_evidence(setup) if embedding & {*unit.families}}
    return [
        unit
        for unit in large.values()
        if unit.text in waiting and not WITHIN.exists(setup, unit.text, unit.pool, unit.raw)
    ]


def _neighbours_key(setup: Setup, text: str, pool: str, raw: int | None, threads: int = 1) -> str:
    """Leave out where the text lies, and `threads`: the statistics do not depend on them."""
    return digest("neighbours", NEIGHBOURS_VERSION, setup.plugins.encoder.identity(), text)


def _compare(
    setup: Setup, text: str, pool: str, raw: int | None, threads: int = 1
) -> ReleaseStatistics:
    return neighbours.statistics_within(observed(setup, pool, text, raw), threads)


WITHIN = Artefact(
    "neighbours",
    _neighbours_key,
    _compare,
    ReleaseStatistics.to_bytes,
    ReleaseStatistics.from_bytes,
)
"""What the texts of a large observation are to one another: found once, read by all workers."""


def compare_texts(setup: Setup, unit: NeighbourUnit, threads: int = 1) -> int:
    """Compare the texts of a large observation with one another."""
    WITHIN.get(setup, unit.text, unit.pool, unit.raw, threads)
    if threads > 1:  # others look at it
        if setup.shared is not None and setup.shared.is_dir():  # not so on another machine
            opened = observed(setup, unit.pool, unit.text, unit.raw)
            write_by_length(setup.shared / unit.text, by_length(opened))
        setup.forget("observation")
    return 1


def look_at(setup: Setup, unit: ObservationUnit) -> int:
    """Let the families of a unit look at its observation."""
    targets = setup.targets(unit.pool).blocks()[unit.block]
    observation = observed(setup, unit.pool, unit.text, unit.raw)
    if neighbours.is_large(observation) and any(
        member.view == "embedding" and member.name in unit.families
        for member in setup.plugins.families
    ):
        of = unit.text, unit.pool, unit.raw
        neighbours.set_statistics(observation, lambda: WITHIN.get(setup, *of))
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
