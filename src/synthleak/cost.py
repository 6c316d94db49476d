"""What an audit will cost, from a timed probe on this machine: `synthleak plan cost`.

A few releases of every generator and budget are made and looked at in a store that is thrown away.
What a worker pays once (imports, calibrated noise, the tables of a pool) is told apart from what it
pays for every release. The results stage is timed on made-up evidence of the true shape.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import mean

import numpy as np

from synthleak.analyses.cells import Cell
from synthleak.audit import Audit, findings_key, written
from synthleak.engine.local import run_units
from synthleak.engine.progress import Progress, Silent
from synthleak.evidence.table import put_evidence
from synthleak.folder import RunFolder
from synthleak.machine import peak_memory
from synthleak.preview import count_observations, count_releases
from synthleak.probe import (
    NOTES,
    SMALL_BATCH,
    Probe,
    Timing,
    awaits,
    choose,
    read_notes,
    say_hello,
    seconds,
    time_looks,
    time_releases,
    timings,
)
from synthleak.releases.release import Header
from synthleak.runtime import Runtime, available_cores
from synthleak.seeds import stream
from synthleak.spec import LoadedSpec
from synthleak.store import FolderStore, MemoryStore, Store
from synthleak.work import evidence_keys, missing_releases, release_name, wanted_sets
from synthleak.workbench import Workbench, set_up

BLOCK = 4096
"""Bytes that a file takes at least on most disks."""

Table = Mapping[tuple[str, str, float], Timing]


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
    notes: list[str] = field(default_factory=list)


def estimate(
    loaded: LoadedSpec, runtime: Runtime | None = None, progress: Progress | None = None
) -> Cost:
    """Probe what a spec would cost on this machine, with the workers that `runtime` names."""
    runtime, progress = runtime or Runtime(), progress or Silent()
    began = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="synthleak-cost-") as name:
        store = FolderStore(Path(name) / "store")
        bench = set_up(loaded, store)
        stages = {"set up": time.perf_counter() - began}
        # The audit asks twice what is missing: before it begins, and when it does.
        stages["set up"] += 2 * seconds(lambda: missing_releases(bench))
        stages["start"] = _start()
        trial = _Trial(bench, runtime.workers, progress)
        stages |= trial.stages()
        stages["results"] = _results(bench, Path(name))
        notes = read_notes(store)
        worker = max((note.peak_bytes for note in notes), default=0)
        return Cost(
            releases=count_releases(bench),
            observations=count_observations(bench),
            workers=runtime.workers,
            wall_seconds=sum(stages.values()),
            stages=stages,
            disk_bytes=trial.disk,
            memory_bytes=peak_memory() + (worker * runtime.workers if runtime.workers > 1 else 0),
            gpu_hours=stages["releases"] / 3600 if any(note.gpu for note in notes) else 0.0,
            probe_seconds=time.perf_counter() - began,
            notes=trial.remarks(),
        )


def _start() -> float:
    """Time how long Python takes before an audit begins."""
    code = "import synthleak.cli.main, synthleak.audit"
    return seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))


class _Trial:
    """The first pool with every generator and budget, and every other pool with one of them."""

    def __init__(self, bench: Workbench, workers: int, progress: Progress) -> None:
        self.bench = bench
        self.workers = workers
        self.progress = progress
        self.busy = min(workers, available_cores())
        pool = bench.cells[0].pool
        self.every = [cell for cell in bench.cells if cell.pool == pool]
        self.elsewhere = [cell for cell in self.every if awaits(bench, cell)]
        self.dear: Cell | None = None
        self.disk = _usage(bench.store)

    def stages(self) -> dict[str, float]:
        """Do the work of the probe and return the estimated seconds of each stage."""
        hello = seconds(lambda: self._run(say_hello, range(self.busy), "starting workers"))
        made = [cell for cell in self.every if cell not in self.elsewhere]
        releases = self._try(time_releases, "releases", made) if made else {}
        before = _usage(self.bench.store)
        if releases:
            count = sum(1 for _ in self.bench.store.list("release/"))
            self.disk += (before - self.disk) * count_releases(self.bench) // count
        looks = self._try(time_looks, "observations", self.every)
        count = 4 * self.busy * len(looks)
        grown = _usage(self.bench.store) - before
        self.disk += grown * count_observations(self.bench) // count
        return {
            "workers": hello if self.workers > 1 else 0.0,
            "releases": self._wall(releases, batched=True),
            "observations": self._wall(looks, batched=False),
        }

    def _try(self, task: object, stage: str, cells: Sequence[Cell]) -> Table:
        self._probe(task, stage, cells)
        if self.dear is None:
            # Other pools are tried with what is dearest to begin: it has the tables of a pool.
            table = timings(read_notes(self.bench.store), stage)
            self.dear = max(cells, key=lambda cell: table[_key(cell)].once)
        dear = self.dear
        others = [replace(dear, pool=pool) for pool in self.bench.pools if pool != dear.pool]
        self._probe(task, stage, others)
        return timings(read_notes(self.bench.store), stage)

    def _probe(self, task: object, stage: str, cells: Sequence[Cell]) -> None:
        self._run(task, choose(self.bench, cells, self.busy), f"probing {stage}")

    def _run(self, task: object, units: Sequence[int | Probe], title: str) -> None:
        run_units(
            task,  # type: ignore[arg-type]
            self.bench,
            list(units),
            workers=self.workers,
            progress=self.progress,
            title=title,
            steps=len(units),
        )

    def _wall(self, table: Table, *, batched: bool) -> float:
        """Extrapolate to all cells: work is shared among workers, beginnings are not."""
        if not table:
            return 0.0
        first = self.every[0].pool
        work = sum(self._cell(table, cell, first, batched=batched) for cell in self.bench.cells)
        if not batched:
            work += self._raw(table, first)
        return work / self.busy + sum(timing.once for timing in table.values())

    def _cell(self, table: Table, cell: Cell, first: str, *, batched: bool) -> float:
        timing = table.get((first, cell.generator, cell.epsilon))
        if timing is None:
            return 0.0
        amount = len(wanted_sets(self.bench, cell))
        if not batched:
            return timing.each * amount * _ratio(table, cell.pool, first)
        size = self.bench.generator_of(cell)[1].batch
        whole, rest = divmod(amount, size)
        work = whole * timing.batch(size) + (timing.batch(rest) if rest else 0.0)
        return work * _ratio(table, cell.pool, first)

    def _raw(self, table: Table, first: str) -> float:
        each = mean(timing.each for (pool, _, _), timing in table.items() if pool == first)
        return sum(
            each * _ratio(table, name, first) * sum(item.form == "raw" for item in plan.sets)
            for name, plan in self.bench.plans.items()
        )

    def remarks(self) -> list[str]:
        """Say what the estimate leaves out."""
        found = [
            f"{cell.generator} at epsilon {cell.epsilon:g}: its releases are made elsewhere and not"
            " there yet; only looking at them is counted"
            for cell in self.elsewhere
        ]
        fleets = {
            section.name: generator.batch
            for section, generator in self.bench.plugins.generators
            if generator.batch > SMALL_BATCH
        }
        return found + [
            f"{name}: made in batches of {size}, extrapolated from batches of 1 and 2"
            for name, size in fleets.items()
        ]


def _key(cell: Cell) -> tuple[str, str, float]:
    return cell.pool, cell.generator, cell.epsilon


def _ratio(table: Table, pool: str, first: str) -> float:
    """Return how much more a piece of work costs on a pool than on the first one."""
    for name, generator, epsilon in table:
        if name == pool != first:
            other = table[first, generator, epsilon].each
            return table[name, generator, epsilon].each / other if other else 1.0
    return 1.0


def _usage(store: Store) -> int:
    """Return the bytes that a store takes on disk, in whole blocks, the probe's notes apart."""
    sizes = [len(store.get(name)) for name in store.list("") if not name.startswith(NOTES)]
    return sum(-(-size // BLOCK) * BLOCK for size in sizes)


def _results(bench: Workbench, folder: Path) -> float:
    """Time the results of one cell on made-up evidence, and extrapolate to all."""
    cell = bench.cells[0]
    section, generator = bench.generator_of(cell)
    alone = (section.model_copy(update={"epsilon": (cell.epsilon,)}), generator)
    small = replace(
        bench,
        plugins=replace(bench.plugins, generators=(alone,)),
        pools={cell.pool: bench.pools[cell.pool]},
        store=MemoryStore(),
    )
    make_up(small, cell)

    def conclude() -> None:
        audit = Audit(small, RunFolder(folder / "run"))
        findings_key(audit)
        written(audit)

    first, again = seconds(conclude), seconds(conclude)
    return max(0.0, first - again) + again * len(bench.cells)


def make_up(bench: Workbench, cell: Cell) -> None:
    """Fill the store with evidence that nobody saw, so that results can be timed before it is."""
    rng = stream(bench.spec.seed, "made-up evidence")
    plan, targets = bench.plans[cell.pool], bench.targets(cell.pool)
    generator = bench.generator_of(cell)[1]
    claim = None
    for position, item in enumerate(plan.sets):
        text = bench.raw_key(item)
        if item.form == "release":
            claim = claim or generator.claim(bench.request(cell, item))
            text = f"made up {position}"
            header = Header(text, plan.release_size, claim)
            bench.store.put(release_name(bench, cell, item), header.to_bytes())
        for member, key in evidence_keys(bench, targets, text):
            values = np.abs(rng.normal(size=(len(targets), len(member.proxies))))
            put_evidence(bench.store, key, values)
