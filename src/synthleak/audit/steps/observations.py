"""Evidence: every proxy looks at every observation of every target (docs/method.md §6).

Calibration turns the evidence of a cell into scores, once, and every later stage reads them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.audit.setup import (
    Setup,
    cells_of_all_sizes,
    encoding,
    generator_of,
    last_of,
    memory_of,
    plan_of,
    proxies_of,
    raw_key,
    records_at,
    sets_of,
    targets_in,
)
from synthleak.audit.steps.releases import header_of, open_release
from synthleak.calibration import Scores, calibrate, rounded
from synthleak.core.cell import Cell
from synthleak.core.seeds import digest, stream
from synthleak.core.store import name_of
from synthleak.corpus.corpus import Record
from synthleak.evidence.family import Family
from synthleak.evidence.observation import Floats, Observation, Targets, check_values
from synthleak.evidence.table import (
    Evidence,
    by_person,
    evidence_key,
    get_evidence,
    look,
    put_evidence,
)
from synthleak.plan.plan import RecordSet
from synthleak.releases.release import Synthetic

SCORES = "scores"
"""What a process remembers the scores of its last cell under."""


@dataclass(frozen=True)
class Observed:
    """What is observed of one set: all of a release, the first texts of it, or raw records.

    Attributes:
        key: the content hash of its texts, or what stands for it.
        raw: the position of the set whose records are looked at raw; None for a release.
        release: the content hash of the release.
        size: how many texts of the release are seen; None for all.
        seed: what the order of its rows comes from: of the set, never of a coin. None for the order
            of the release.
    """

    key: str
    raw: int | None = None
    release: str = ""
    size: int | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Look:
    """A block of a pool's targets, and the families that have not looked at them yet."""

    pool: str
    families: tuple[str, ...]
    block: int = 0


@dataclass(frozen=True)
class ObservationUnit:
    """One observation, and who is to be looked for: pools that share releases share the unit."""

    observed: Observed
    looks: tuple[Look, ...]


def observations(setup: Setup, cell: Cell) -> list[Observed]:
    """Return what is observed of every set of a cell's plan, in the plan's order."""
    return [
        Observed(raw_key(setup, item), raw=position)
        if item.form == "raw"
        else observed_release(setup, cell, item)
        for position, item in sets_of(setup, cell)
    ]


def observed_release(setup: Setup, cell: Cell, item: RecordSet) -> Observed:
    """Return the release from a set, or the first of its rows in an order of the set's own.

    A series is looked at in the order in which it was published.
    """
    header = header_of(setup, cell, item)
    size = cell.texts_of(header.size)
    if size == header.size:
        return Observed(header.text, release=header.text)
    seed = None if generator_of(setup, cell).in_order else item.seed
    key = digest("first rows", header.text, size, seed)
    return Observed(key, release=header.text, size=size, seed=seed)


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
        for block in targets_in(setup, pool).blocks()
        for _, key in evidence_keys(setup, block, text)
    ]


def missing_evidence(setup: Setup) -> list[ObservationUnit]:
    return list(each_missing_evidence(setup))


def each_missing_evidence(setup: Setup) -> Iterator[ObservationUnit]:
    """Yield the units of missing evidence, one cell after another: there may be a million."""
    listed: set[tuple[str, str, int]] = set()
    for cells in _on_same_releases(setup):
        looks: defaultdict[tuple[str, int], list[Look]] = defaultdict(list)
        seen_as: dict[str, Observed] = {}
        for cell in cells:
            blocks = targets_in(setup, cell.pool).blocks()
            for seen in observations(setup, cell):
                for number, block in enumerate(blocks):
                    if (cell.pool, seen.key, number) in listed:
                        continue
                    listed.add((cell.pool, seen.key, number))
                    missing = tuple(
                        member.name
                        for member, key in evidence_keys(setup, block, seen.key)
                        if member.model is None and not setup.store.exists(name_of("evidence", key))
                    )
                    if missing:
                        looks[seen.key, number].append(Look(cell.pool, missing, number))
                        seen_as.setdefault(seen.key, seen)
        yield from (ObservationUnit(seen_as[key], tuple(who)) for (key, _), who in looks.items())


def _on_same_releases(setup: Setup) -> Iterator[list[Cell]]:
    """Yield the cells of every size; those of pools that share releases come together."""
    shared = setup.spec.game.share_releases
    together: defaultdict[tuple[Any, ...], list[Cell]] = defaultdict(list)
    for cell in cells_of_all_sizes(setup):
        together[cell.generator, cell.epsilon, cell.size, None if shared else cell.pool].append(
            cell
        )
    yield from together.values()


@dataclass(frozen=True)
class ModelUnit:
    """Observations that a family fits its model to in one call, and the targets to be scored.

    `targets` are (pool, block): pools that share releases share the fitted models too.
    """

    family: str
    sets: tuple[Observed, ...]
    targets: tuple[tuple[str, int], ...]


MODELS_AT_ONCE = 128
"""Observations of one unit: what one fleet could ever hold. What is made is kept unit by unit."""


def missing_models(setup: Setup) -> list[ModelUnit]:
    """Return the observations that a family with a model has not looked at, many to a unit."""
    wanted: dict[tuple[str, str], dict[tuple[str, int], Observed]] = {}
    if not any(member.model for member in setup.plugins.families):
        return []
    for cell in cells_of_all_sizes(setup):
        for number, block in enumerate(targets_in(setup, cell.pool).blocks()):
            for seen in observations(setup, cell):
                for member, key in evidence_keys(setup, block, seen.key):
                    if member.model and not setup.store.exists(name_of("evidence", key)):
                        lookers = wanted.setdefault((member.name, seen.key), {})
                        lookers.setdefault((cell.pool, number), seen)
    together: dict[tuple[str, tuple[tuple[str, int], ...]], list[Observed]] = {}
    for (family, _), lookers in wanted.items():
        seen = next(iter(lookers.values()))  # a raw set has its place in the plan of the first pool
        together.setdefault((family, tuple(lookers)), []).append(seen)
    return [
        ModelUnit(family, tuple(sets[start : start + MODELS_AT_ONCE]), targets)
        for (family, targets), sets in together.items()
        for start in range(0, len(sets), MODELS_AT_ONCE)
    ]


def look_with_models(setup: Setup, unit: ModelUnit) -> int:
    """Let a family fit its model to the observations of a unit, and keep what it sees."""
    blocks = [targets_in(setup, pool).blocks()[number] for pool, number in unit.targets]
    member = next(item for item in setup.plugins.families if item.name == unit.family)
    assert member.model is not None
    first = unit.targets[0][0]
    opened = [open_observation(setup, first, seen) for seen in unit.sets]
    asked = Targets([text for block in blocks for text in block.texts], encoding(setup))
    values = member.model.look_together(asked, opened)
    for seen, table in zip(unit.sets, values, strict=True):
        shape = (len(asked), len(member.proxies))
        checked = check_values(f"the family {member.name!r}", table, shape)
        ends = np.cumsum([len(block) for block in blocks])[:-1]
        for block, of_block in zip(blocks, np.split(checked, ends), strict=True):
            keys = {item.name: key for item, key in evidence_keys(setup, block, seen.key)}
            put_evidence(setup.store, keys[member.name], of_block)
    return len(unit.sets)


def check_models(setup: Setup) -> None:
    """Ask every family with a model whether it can look, before any work."""
    for member in setup.plugins.families:
        if member.model is not None:
            member.model.check()


def last_observation(setup: Setup, pool: str, seen: Observed) -> Observation:
    """Return an observation; the last one stays in memory, for other targets or attacks."""
    return last_of(setup, "observation", seen.key, lambda: open_observation(setup, pool, seen))


def open_observation(setup: Setup, pool: str, seen: Observed) -> Observation:
    """Read the texts of an observation, and their labels.

    Of a release that is seen in part these are the first rows in an order drawn from the seed of
    its set, so that smaller sizes are parts of larger ones (docs/method.md §4.7).
    """
    records: Sequence[Record | Synthetic]
    if seen.raw is not None:
        records = records_at(setup, setup.plans[pool].sets[seen.raw].records)
    else:
        records = open_release(setup, seen.release)
    if seen.seed is not None:
        order = stream(seen.seed, "rows").permutation(len(records)).tolist()
        records = [records[row] for row in order]
    records = records[: seen.size]
    texts, labels = [record.text for record in records], [record.labels for record in records]
    return Observation(texts, encoding(setup), labels)


def look_at(setup: Setup, unit: ObservationUnit) -> int:
    for who in unit.looks:
        targets = targets_in(setup, who.pool).blocks()[who.block]
        observation = last_observation(setup, unit.looks[0].pool, unit.observed)
        keys = evidence_keys(setup, targets, unit.observed.key)
        wanted = [(member, key) for member, key in keys if member.name in who.families]
        for _, of_view in groupby(wanted, key=lambda pair: pair[0].view):
            for member, key in of_view:
                put_evidence(setup.store, key, look(member, targets, observation, counts=True))
            put_away(setup, who.pool, targets, observation)
    return 1


def put_away(setup: Setup, pool: str, targets: Targets, observation: Observation) -> None:
    """Forget a block once it was looked at: all blocks of a large pool would fill the memory."""
    if len(targets_in(setup, pool).blocks()) > 1:
        observation.forget_targets()
        targets.forget()


def evidence_of(setup: Setup, cell: Cell) -> Evidence:
    """Return what every proxy saw of every target on every set of a cell.

    Values of records are rounded before they are taken to persons, so that the order of equal texts
    cannot show in a mean.
    """
    values, proxies = _of_targets(setup, cell, record_values(setup, cell)), proxies_of(setup)
    families = [proxy.family for proxy in proxies]
    counted = {
        member.name: partial(_scores_by_counts, setup, cell, member)
        for member in setup.plugins.families
        if member.counts is not None
    }
    return Evidence(
        values,
        proxies,
        tuple(
            (slice(families.index(name), families.index(name) + families.count(name)), scored)
            for name, scored in counted.items()
        ),
    )


def _of_targets(setup: Setup, cell: Cell, values: Floats) -> Floats:
    """Take `[set, record, proxy]` to persons, where they are asked about."""
    pool = setup.pools[cell.pool]
    return values if pool.persons is None else by_person(rounded(values), pool.sizes)


def _scores_by_counts(setup: Setup, cell: Cell, member: Family, uses: NDArray[np.bool_]) -> Floats:
    """Return the scores of a family that counts: `[set, target, column]`, block by block."""
    pool, start, parts = setup.pools[cell.pool], 0, []
    uses = uses if pool.persons is None else np.repeat(uses, pool.sizes, axis=0)
    assert member.counts is not None
    for block in targets_in(setup, cell.pool).blocks():
        counts = np.stack(
            [
                get_evidence(setup.store, key)
                for seen in observations(setup, cell)
                for item, key in evidence_keys(setup, block, seen.key)
                if item.name == member.name
            ]
        )
        parts.append(member.counts.scores(block, counts, uses[start : start + len(block)]))
        start += len(block)
    return _of_targets(setup, cell, np.concatenate(parts, axis=1))


def record_values(setup: Setup, cell: Cell) -> Floats:
    """Return `[set, record, proxy]`: what every proxy saw of every record of every target."""
    blocks = targets_in(setup, cell.pool).blocks()
    values = []
    for seen in observations(setup, cell):
        by_block = [
            [
                member.values(block, get_evidence(setup.store, key))
                for member, key in evidence_keys(setup, block, seen.key)
            ]
            for block in blocks
        ]
        values.append(np.concatenate([np.concatenate(seen, axis=1) for seen in by_block]))
    return np.stack(values)


def scores_of(setup: Setup, cell: Cell) -> list[Scores]:
    """Return the calibrated scores of a cell, one table per scenario.

    The scores of the last cell stay in memory: on disk they would take three times what the
    evidence takes, which they can always be computed from.
    """
    last = memory_of(setup, SCORES)
    if cell not in last:
        last.clear()  # first: there may not be room for both
        last[cell] = calibrate(evidence_of(setup, cell), plan_of(setup, cell).baselines)
    scores: list[Scores] = last[cell]
    return scores
