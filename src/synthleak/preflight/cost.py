"""What an audit will cost, from a timed probe on this machine: `synthleak plan cost`.

A few releases of every generator and budget are made in a temporary store; they then stand for all
releases of their cells, and every later stage does a part of its work on them. What a worker does
once (imports, calibrated noise, the tables of a pool) is separated from what it does for every
release.
"""

from __future__ import annotations

import math
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean
from typing import Any

from synthleak.audit.folder import RunFolder
from synthleak.audit.kept_results import results_key
from synthleak.audit.result import Audit
from synthleak.audit.run import written
from synthleak.audit.setup import Setup, set_up, without_models
from synthleak.audit.steps.measurements import redraws_of
from synthleak.audit.steps.releases import missing_releases, naming, wanted_sets
from synthleak.audit.steps.work import (
    AFTER_RELEASES,
    MEASUREMENTS,
    OBSERVATIONS,
    PRIOR_ATTACKS,
    RELEASES,
    Work,
)
from synthleak.core.cell import Cell
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress, default_progress
from synthleak.core.private_files import TemporaryHome, working_in
from synthleak.core.runtime import Runtime, available_cores
from synthleak.core.spec import LoadedSpec
from synthleak.core.store import FolderStore, Store
from synthleak.preflight.doctor import peak_memory
from synthleak.preflight.preview import count_observations, count_releases
from synthleak.preflight.probe import (
    NOTES,
    SMALL_BATCH,
    Timing,
    UnitProbe,
    choose,
    read_notes,
    release_timings,
    seconds,
    stand_in,
    start_worker,
    time_releases,
    time_unit,
    unit_timings,
)

BLOCK = 4096
"""The least space in bytes that a file takes on most disks."""

MOST_PROBE_WORKERS = 4
PER_RELEASE = (RELEASES.title, OBSERVATIONS.title, PRIOR_ATTACKS.title)
"""The stages that take as long as there are releases."""
MEASURED = MEASUREMENTS[0].title


@dataclass(frozen=True, kw_only=True)
class Cost:
    """An estimate. `stages` are seconds of wall time; together they are `wall_seconds`."""

    releases: int
    observations: int
    workers: int
    wall_seconds: float
    stages: dict[str, float]
    disk_bytes: int
    memory_bytes: int
    gpu_hours: float
    probe_seconds: float
    looks: list[dict[str, Any]] = field(default_factory=list)
    """For every declared look: releases and seconds of an audit all of whose cells end there."""
    notes: list[str] = field(default_factory=list)


def estimate(
    loaded: LoadedSpec, runtime: Runtime | None = None, progress: Progress | None = None
) -> Cost:
    """Estimate the cost of a spec on this machine, with the workers of `runtime`."""
    runtime, progress = runtime or Runtime(), progress or default_progress()
    began = time.perf_counter()
    with TemporaryHome() as home, working_in(home):
        store = FolderStore(home / "store")
        setup = without_models(set_up(loaded, store))
        setup.plugins.encoder.check()
        for section, generator in setup.plugins.generators:
            with naming(section.name):
                generator.check()
        ready = time.perf_counter() - began
        trial = _Trial(setup, runtime.workers, progress)
        stages = {"start": _start(), "set up": ready, **trial.stages(home)}
        if looks := setup.spec.game.looks:
            stages[MEASURED] *= sum(looks) / looks[-1]
        notes = read_notes(store)
        worker = max((note.peak_bytes for note in notes), default=0)
        return Cost(
            releases=count_releases(setup),
            observations=count_observations(setup),
            workers=runtime.workers,
            wall_seconds=sum(stages.values()),
            stages=stages,
            disk_bytes=trial.disk,
            memory_bytes=peak_memory() + (worker * runtime.workers if runtime.workers > 1 else 0),
            gpu_hours=stages["releases"] / 3600 if any(note.gpu for note in notes) else 0.0,
            probe_seconds=time.perf_counter() - began,
            looks=_looks(setup, stages),
            notes=trial.remarks() + _left_out(loaded),
        )


def _looks(setup: Setup, stages: dict[str, float]) -> list[dict[str, Any]]:
    """Return what an audit costs whose cells are all found at one of the declared looks.

    Releases and what looks at them cost in proportion; a cell is measured at every look so far.
    """
    whole, looks, rows = count_releases(setup), setup.spec.game.looks, []
    for number, look in enumerate(looks, start=1):
        releases = count_releases(setup.at(dict.fromkeys(setup.cells, look)))
        shares = dict.fromkeys(PER_RELEASE, releases / whole)
        shares[MEASURED] = sum(looks[:number]) / sum(looks)
        took = sum(seconds * shares.get(name, 1.0) for name, seconds in stages.items())
        rows.append({"look": number, "instances": look, "releases": releases, "seconds": took})
    return rows


def _left_out(loaded: LoadedSpec) -> list[str]:
    """Say what the estimate does not hold."""
    names = [section.kind for section in loaded.spec.evidence.also]
    return [f"without the proxies of {', '.join(names)}"] if names else []


def _start() -> float:
    """Return the seconds that Python takes to start and to import the package."""
    code = "import synthleak.cli.main, synthleak.audit.run"
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))


class _Trial:
    """The first pool with every generator and budget, and every other pool with one of them."""

    def __init__(self, setup: Setup, workers: int, progress: Progress) -> None:
        self.setup = setup
        self.progress = progress
        self.workers = workers
        self.probe_workers = min(workers, available_cores(), MOST_PROBE_WORKERS)
        self.busy = min(workers, available_cores())
        self.every = [cell for cell in setup.cells if cell.pool == setup.cells[0].pool]
        self.elsewhere = [cell for cell in self.every if self._awaits(cell)]
        self.disk = _usage(setup.store)

    def _awaits(self, cell: Cell) -> bool:
        """Say whether some release of a cell is made elsewhere and still missing."""
        generator = self.setup.generator_of(cell)[1]
        return any(
            generator.awaited(self.setup.request(cell, item)) is not None
            for _, item in wanted_sets(self.setup, cell)
        )

    def stages(self, folder: Path) -> dict[str, float]:
        """Run the probes and return the estimated seconds of each stage."""
        started = seconds(
            lambda: self._run(start_worker, range(self.probe_workers), "starting workers")
        )
        found = {"workers": started if self.workers > 1 else 0.0, "releases": self._releases()}
        tried = [*self.every, *self.others]
        for cell in tried:
            stand_in(self.setup, cell)
        kinds = {math.isfinite(cell.epsilon): cell for cell in reversed(self.every)}
        pair = replace(self.setup, only=tuple(kinds.values()))
        whole = replace(self.setup, only=tuple(tried))
        for number, stage in enumerate(AFTER_RELEASES):
            of_observations = stage.of == "observation"
            found[stage.title] = self._later(number, whole if of_observations else pair)
        found["results"] = self._results(pair, folder)
        return found

    def _releases(self) -> float:
        """Estimate the seconds of the releases, and choose what to probe other pools with."""
        made = [cell for cell in self.every if cell not in self.elsewhere]
        costliest = self.every[0]
        scan = 2 * seconds(lambda: missing_releases(self.setup))
        if made:
            self._make(made)
            # Other pools are probed with the generator that costs most to start.
            table = release_timings(read_notes(self.setup.store, "releases"))
            costliest = max(made, key=lambda cell: table[replace(cell, corpus="")].once)
        self.others = [replace(costliest, pool=p) for p in self.setup.pools if p != costliest.pool]
        if not made:
            return scan
        self._make(self.others)
        there = sum(1 for _ in self.setup.store.list("release/"))
        self.disk += (_usage(self.setup.store) - self.disk) * count_releases(self.setup) // there
        table = release_timings(read_notes(self.setup.store, "releases"))
        work = sum(self._cell(table, cell, costliest) for cell in self.setup.cells)
        return scan + work + sum(timing.once for timing in table.values())

    def _make(self, cells: Sequence[Cell]) -> None:
        for cell in cells:
            alone = self.setup.generator_of(cell)[1].exclusive
            probes = choose(self.setup, [cell], 1 if alone else self.probe_workers)
            self._run(time_releases, probes, "probing releases", workers=1 if alone else None)

    def _cell(self, table: dict[Cell, Timing], cell: Cell, costliest: Cell) -> float:
        """Return the seconds for the releases of a cell, shared among workers."""
        timing = table.get(Cell("", self.every[0].pool, cell.generator, cell.epsilon))
        if timing is None:
            return 0.0
        generator = self.setup.generator_of(cell)[1]
        whole, rest = divmod(len(wanted_sets(self.setup, cell)), generator.batch)
        work = whole * timing.batch(generator.batch) + (timing.batch(rest) if rest else 0.0)
        first = table[replace(costliest, corpus="")].each
        here = table[replace(costliest, corpus="", pool=cell.pool)].each
        return work * (here / first if first else 1.0) / (1 if generator.exclusive else self.busy)

    def _later(self, number: int, setup: Setup) -> float:
        """Estimate the seconds of a later stage from all its work on the cells of `setup`."""
        stage = AFTER_RELEASES[number]
        began, before = time.perf_counter(), _usage(self.setup.store)
        units = list(stage.missing(setup))
        scan = (time.perf_counter() - began) * len(self.setup.cells) / len(setup.cells)
        if not units:
            return scan
        probes = [UnitProbe(number, unit, place) for place, unit in enumerate(units)]
        self._run(time_unit, probes, f"probing {stage.title}", setup=setup)
        grown = (_usage(self.setup.store) - before) / len(units)
        amount, took = (self._observations if stage.of == "observation" else self._per_cell)(
            stage, setup
        )
        self.disk += round(grown * amount)
        return scan + took

    def _observations(self, stage: Work, setup: Setup) -> tuple[int, float]:
        timings = unit_timings(read_notes(self.setup.store, stage.title))
        amount, work = 0, 0.0
        for pool, plan in self.setup.plans.items():
            raw = sum(item.form == "raw" for item in plan.sets)
            here = len(self.every) * (len(plan.sets) - raw) + raw
            amount, work = amount + here, work + here * timings[pool][0]
        return amount, work / self.busy + sum(once for _, once in timings.values())

    def _per_cell(self, stage: Work, setup: Setup) -> tuple[int, float]:
        """Return units and seconds of a stage whose units are cells: workers do them in rounds."""
        notes = read_notes(self.setup.store, stage.title)
        amount = len(notes) * len(self.setup.cells) // len(setup.cells)
        kinds = [math.isfinite(cell.epsilon) for cell in self.setup.cells]
        each = mean(
            mean(note.took[0] for note in notes if math.isfinite(note.epsilon) == kind)
            for kind in kinds
        )
        pool = setup.cells[0].pool
        more = redraws_of(self.setup, pool) / redraws_of(setup, pool)
        return amount, math.ceil(amount / self.busy) * each * more

    def _results(self, setup: Setup, folder: Path) -> float:
        def conclude() -> None:
            audit = Audit(replace(setup), RunFolder(folder))
            results_key(setup)
            written(audit.results)

        first, again = seconds(conclude), seconds(conclude)
        return max(0.0, first - again) + again * len(self.setup.cells) / len(setup.cells)

    def _run(
        self,
        task: Callable[[Setup, Any], int],
        units: Sequence[Any],
        title: str,
        *,
        workers: int | None = None,
        setup: Setup | None = None,
    ) -> None:
        run_units(
            task,
            setup or self.setup,
            list(units),
            workers=workers or self.probe_workers,
            progress=self.progress,
            title=title,
            steps=len(units),
        )

    def remarks(self) -> list[str]:
        """Return what the estimate leaves out or extrapolates."""
        found = [
            f"{cell.generator} at epsilon {cell.epsilon:g}: its releases are made elsewhere and"
            " still missing; only the stages after them are counted"
            for cell in self.elsewhere
        ]
        return found + [
            f"{section.name}: made in batches of {generator.batch}, extrapolated from 1 and 2"
            for section, generator in self.setup.plugins.generators
            if generator.batch > SMALL_BATCH
        ]


def _usage(store: Store) -> int:
    """Return the bytes that a store takes on disk, in whole blocks, the probe's notes apart."""
    sizes = [len(store.get(name)) for name in store.list("") if not name.startswith(NOTES)]
    return sum(-(-size // BLOCK) * BLOCK for size in sizes)
