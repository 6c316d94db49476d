"""The timed probe behind `synthleak plan cost`: a little of every kind of work, really done.

Each probe runs in a worker like the audit's own, several at a time, so that what workers take from
each other is part of what is measured.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from synthleak.analyses.cells import Cell
from synthleak.machine import peak_memory
from synthleak.store import Store
from synthleak.work import (
    ObservationUnit,
    ReleaseUnit,
    header_of,
    look_at,
    make_releases,
    wanted_sets,
)
from synthleak.workbench import Workbench

NOTES = "probe/"
SMALL_BATCH = 8
"""Up to here a batch is taken to cost what its releases cost one by one."""


@dataclass(frozen=True)
class Probe:
    """A cell to try: one of its sets first, one more, and two at once."""

    cell: Cell
    sets: tuple[int, int, int, int]

    @property
    def parts(self) -> tuple[tuple[int, ...], ...]:
        """The sets of each call."""
        return self.sets[:1], self.sets[1:2], self.sets[2:]


@dataclass(frozen=True)
class Timing:
    """Seconds for the first of its kind in a process, for one more, for two at once."""

    first: float
    one: float
    two: float

    @property
    def each(self) -> float:
        """The cost of one more."""
        return (self.one + self.two) / 3

    @property
    def once(self) -> float:
        """What a process pays before its first."""
        return max(0.0, self.first - self.each)

    def batch(self, size: int) -> float:
        """Return the cost of a batch: the members of a fleet share most of a step.

        >>> Timing(first=9, one=2, two=4).batch(5), Timing(first=9, one=2, two=2.5).batch(21)
        (10.0, 12.0)
        """
        if size <= SMALL_BATCH:
            return self.each * size
        return self.one + max(self.two - self.one, 0.02 * self.one) * (size - 1)


@dataclass(frozen=True)
class Note:
    """What one probe measured."""

    stage: str
    pool: str
    generator: str
    epsilon: float
    timing: Timing
    peak_bytes: int
    gpu: bool


def choose(bench: Workbench, cells: Iterable[Cell], copies: int) -> list[Probe]:
    """Return `copies` probes of each cell, on different sets as far as there are any."""
    probes = []
    for cell in cells:
        there = [position for position, _ in wanted_sets(bench, cell)]
        for copy in range(copies):
            a, b, c, d = (there[(4 * copy + i) % len(there)] for i in range(4))
            probes.append(Probe(cell, (a, b, c, d)))
    return probes


def awaits(bench: Workbench, cell: Cell) -> bool:
    """Say whether some release of a cell is made elsewhere and not there yet."""
    generator = bench.generator_of(cell)[1]
    return any(
        generator.awaited(bench.request(cell, item)) is not None
        for _, item in wanted_sets(bench, cell)
    )


def say_hello(bench: Workbench, number: int) -> int:
    """Do nothing: what it takes is the start of a worker."""
    return 1


def time_releases(bench: Workbench, probe: Probe) -> int:
    """Make releases, and note how long it took."""
    calls = [
        lambda sets=sets: make_releases(bench, ReleaseUnit(probe.cell, sets))
        for sets in probe.parts
    ]
    _note(bench.store, "releases", probe, [seconds(call) for call in calls])
    return 1


def time_looks(bench: Workbench, probe: Probe) -> int:
    """Look at releases (at raw sets, where those are not there yet), and note how long it took."""
    calls = [
        lambda sets=sets: [look_at(bench, _unit(bench, probe.cell, s)) for s in sets]
        for sets in probe.parts
    ]
    _note(bench.store, "observations", probe, [seconds(call) for call in calls])
    return 1


def _unit(bench: Workbench, cell: Cell, position: int) -> ObservationUnit:
    names = tuple(member.name for member in bench.plugins.families)
    item = bench.plans[cell.pool].sets[position]
    if bench.generator_of(cell)[1].awaited(bench.request(cell, item)) is not None:
        return ObservationUnit(cell.pool, bench.raw_key(item), position, names)
    return ObservationUnit(cell.pool, header_of(bench, cell, item).text, None, names)


def seconds(call: Callable[[], Any]) -> float:
    """Return how long a call took."""
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _note(store: Store, stage: str, probe: Probe, took: Sequence[float]) -> None:
    cell = probe.cell
    note = Note(
        stage, cell.pool, cell.generator, cell.epsilon, Timing(*took), peak_memory(), uses_gpu()
    )
    name = f"{stage}-{cell.pool}-{cell.generator}-{cell.epsilon}-{probe.sets[0]}"
    store.put(f"{NOTES}{name}.json", json.dumps(asdict(note)).encode())


def uses_gpu() -> bool:
    """Say whether this process has put anything on a GPU."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.max_memory_reserved() > 0


def read_notes(store: Store) -> list[Note]:
    """Return what all probes measured."""
    rows = [json.loads(store.get(name)) for name in store.list(NOTES)]
    return [Note(**{**row, "timing": Timing(**row["timing"])}) for row in rows]


def timings(notes: Iterable[Note], stage: str) -> dict[tuple[str, str, float], Timing]:
    """Return what was measured of each cell: the slowest first, the mean of the rest."""
    groups: dict[tuple[str, str, float], list[Timing]] = {}
    for note in notes:
        if note.stage == stage:
            groups.setdefault((note.pool, note.generator, note.epsilon), []).append(note.timing)
    return {
        key: Timing(
            max(t.first for t in group), mean(t.one for t in group), mean(t.two for t in group)
        )
        for key, group in groups.items()
    }
