"""The timed probes behind `synthleak plan cost`: a little of every kind of work.

Probes run in workers, as the audit does, and several at a time, so that the workers' effect on each
other is measured too.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

from synthleak.audit.setup import Setup
from synthleak.audit.steps.releases import (
    ReleaseUnit,
    digest_of,
    header_of,
    make_releases,
    release_name,
    wanted_sets,
)
from synthleak.audit.steps.work import AFTER_RELEASES
from synthleak.core.artefact import as_json
from synthleak.core.cell import Cell
from synthleak.core.store import Store, name_of
from synthleak.plan.plan import RecordSet
from synthleak.preflight.doctor import peak_memory
from synthleak.releases.release import Header, Synthetic, dump_texts

NOTES = "probe/"
STANDING_IN = 4
"""The number of different releases that stand in for all releases of a probed cell."""

SMALL_BATCH = 8
"""Up to this size, a batch is assumed to cost as much as its releases one by one."""


@dataclass(frozen=True)
class ReleaseProbe:
    """Releases to make in three calls: one, one more, then two at once."""

    cell: Cell
    sets: tuple[int, int, int, int]

    @property
    def calls(self) -> tuple[tuple[int, ...], ...]:
        """The sets of each call."""
        return self.sets[:1], self.sets[1:2], self.sets[2:]


@dataclass(frozen=True)
class UnitProbe:
    """One unit of a later stage."""

    stage: int
    unit: Any
    number: int


@dataclass(frozen=True)
class Note:
    """What one probe measured, and in which process."""

    stage: str
    pool: str
    generator: str
    epsilon: float
    took: tuple[float, ...]
    process: int
    began: float
    peak_bytes: int
    gpu: bool


_dump, _load = as_json(Note)


@dataclass(frozen=True)
class Timing:
    """Seconds for the first release in a process, for one more, and for two at once."""

    first: float
    one: float
    two: float

    @property
    def each(self) -> float:
        """The cost of one more."""
        return (self.one + self.two) / 3

    @property
    def once(self) -> float:
        """The start-up cost of a process."""
        return max(0.0, self.first - self.each)

    def batch(self, size: int) -> float:
        """Return the cost of a batch; the models of a fleet share most of the work.

        >>> Timing(first=9, one=2, two=4).batch(5), Timing(first=9, one=2, two=2.5).batch(21)
        (10.0, 12.0)
        """
        if size <= SMALL_BATCH:
            return self.each * size
        return self.one + max(self.two - self.one, 0.02 * self.one) * (size - 1)


def choose(setup: Setup, cells: Iterable[Cell], copies: int) -> list[ReleaseProbe]:
    """Return `copies` probes of each cell, on different sets as far as possible."""
    probes = []
    for cell in cells:
        there = [position for position, _ in wanted_sets(setup, cell)]
        for copy in range(copies):
            a, b, c, d = (there[(4 * copy + i) % len(there)] for i in range(4))
            probes.append(ReleaseProbe(cell, (a, b, c, d)))
    return probes


def start_worker(setup: Setup, number: int) -> int:
    """Do nothing; this times the start of a worker."""
    return 1


def time_releases(setup: Setup, probe: ReleaseProbe) -> int:
    """Make releases, and note the seconds."""
    began = time.perf_counter()
    units = [ReleaseUnit(probe.cell, sets) for sets in probe.calls]
    took = [seconds(partial(make_releases, setup, unit)) for unit in units]
    _note(setup.store, "releases", probe.cell, began, took, probe.sets[0])
    return 1


def time_unit(setup: Setup, probe: UnitProbe) -> int:
    """Do one unit of a stage, and note the seconds."""
    stage = AFTER_RELEASES[probe.stage]
    began = time.perf_counter()
    took = seconds(lambda: stage.task(setup, probe.unit))
    _note(setup.store, stage.title, _cell_of(probe.unit), began, [took], probe.number)
    return 1


def _cell_of(unit: Any) -> Cell:
    """Return the cell of a unit; a unit that is one observation has a pool only."""
    if isinstance(unit, Cell):
        return unit
    cell = getattr(unit, "cell", None)
    return cell if isinstance(cell, Cell) else Cell("", unit.pool, "", 0.0)


def stand_in(setup: Setup, cell: Cell) -> None:
    """Use a few releases for all of a cell; training sets, where none can be made here."""
    sets = [item for _, item in wanted_sets(setup, cell)]
    there = [item for item in sets if setup.store.exists(release_name(setup, cell, item))]
    headers = [
        header_of(setup, cell, item) if item in there else _borrowed(setup, cell, item)
        for item in (there or sets)[:STANDING_IN]
    ]
    for number, item in enumerate(sets):
        header = headers[number % len(headers)]
        setup.store.put(release_name(setup, cell, item), header.to_bytes())


def _borrowed(setup: Setup, cell: Cell, item: RecordSet) -> Header:
    request = setup.request(cell, item)
    release = [Synthetic(record.text, record.labels) for record in request.records]
    text = digest_of(release)
    setup.store.put(name_of("text", text), dump_texts(release))
    return Header(text, len(release), setup.generator_of(cell)[1].claim(request))


def seconds(call: Callable[[], Any]) -> float:
    """Return the seconds that a call took."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _note(
    store: Store, stage: str, cell: Cell, began: float, took: Sequence[float], number: int
) -> None:
    note = Note(
        stage=stage,
        pool=cell.pool,
        generator=cell.generator,
        epsilon=cell.epsilon,
        took=tuple(took),
        process=os.getpid(),
        began=began,
        peak_bytes=peak_memory(),
        gpu=uses_gpu(),
    )
    name = f"{NOTES}{stage}-{cell.pool}-{cell.generator}-{cell.epsilon}-{number}.json"
    store.put(name, _dump(note))


def uses_gpu() -> bool:
    """Say whether this process has used a GPU."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.max_memory_reserved() > 0


def read_notes(store: Store, stage: str | None = None) -> list[Note]:
    """Return the measurements of the probes of a stage, or of all."""
    notes = [_load(store.get(name)) for name in store.list(NOTES)]
    return [note for note in notes if stage in (None, note.stage)]


def release_timings(notes: Iterable[Note]) -> dict[Cell, Timing]:
    """Return the timing of each cell: the slowest first release, and means of the others."""
    groups: dict[Cell, list[tuple[float, ...]]] = {}
    for note in notes:
        cell = Cell("", note.pool, note.generator, note.epsilon)
        groups.setdefault(cell, []).append(note.took)
    columns = {cell: list(zip(*group, strict=True)) for cell, group in groups.items()}
    return {
        cell: Timing(max(first), mean(one), mean(two))
        for cell, (first, one, two) in columns.items()
    }


def unit_timings(notes: Iterable[Note]) -> dict[str, tuple[float, float]]:
    """Return, per pool, the cost of one more unit and the start-up cost of a process."""
    groups: dict[str, list[Note]] = {}
    for note in sorted(notes, key=lambda note: note.began):
        groups.setdefault(note.pool, []).append(note)
    found = {}
    for pool, group in groups.items():
        opened: set[int] = set()
        first: list[float] = []
        later: list[float] = []
        for note in group:
            (later if note.process in opened else first).append(note.took[0])
            opened.add(note.process)
        each = mean(later) if later else min(first)
        found[pool] = (each, max(0.0, max(first) - each))
    return found
