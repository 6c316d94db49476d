"""What an audit will cost, from a timed probe on this machine: `synthleak plan cost`.

Up to four releases of every generator and budget are made in a temporary store, for the pool with
the most targets; one, where a release takes long. In one cell without a budget and one with a
budget they then stand for all releases, and every later stage does its work there. The seconds of a
unit of work are multiplied by the number of units in the audit and divided among the workers; what
the first unit took longer (imports, calibrated noise, the tables of a pool) counts once.
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
from synthleak.audit.kept_results import files_of, results_key
from synthleak.audit.result import Audit
from synthleak.audit.setup import Setup, cells_of_all_sizes, generator_of
from synthleak.audit.stages import set_up, without_models
from synthleak.audit.steps.measurements import redraws_of
from synthleak.audit.steps.observations import observations
from synthleak.audit.steps.releases import (
    ReleaseUnit,
    cells_with_releases,
    count_releases,
    digest_of,
    header_of,
    make_releases,
    naming,
    release_name,
    request_for,
    wanted_sets,
)
from synthleak.audit.steps.work import (
    AFTER_RELEASES,
    MEASUREMENTS,
    OBSERVATIONS,
    PRIOR_ATTACKS,
    RELEASES,
)
from synthleak.core.cell import Cell
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress, default_progress
from synthleak.core.private_files import TemporaryHome, working_in
from synthleak.core.runtime import Runtime, available_cores
from synthleak.core.spec import LoadedSpec
from synthleak.core.store import FolderStore, Store, name_of
from synthleak.plan.plan import RecordSet
from synthleak.preflight.doctor import peak_memory
from synthleak.preflight.preview import count_observations
from synthleak.releases.release import Header, Synthetic, dump_texts

BLOCK = 4096
"""The least space in bytes that a file takes on most disks."""
STANDING_IN = 4
"""The number of different releases that stand in for all releases of a probed cell."""
SLOW = 20.0
"""Seconds of a release from which one of its kind is timed, and stands for the others."""
SMALL_BATCH = 8
"""Up to this size, a batch is assumed to cost as much as its releases one by one."""
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
        whole = set_up(loaded, FolderStore(home / "store"))
        setup = without_models(whole)
        setup.plugins.encoder.check()
        for section, generator in setup.plugins.generators:
            with naming(section.name):
                generator.check()
        ready, start = time.perf_counter() - began, _start()
        probe = _Probe(setup, min(runtime.workers, available_cores()), progress)
        stages = {
            "start": start,
            "set up": ready,
            "workers": start if runtime.workers > 1 else 0.0,
            RELEASES.title: probe.releases(),
            **probe.later_stages(),
            "results": probe.results(home),
        }
        if looks := setup.spec.game.looks:
            stages[MEASURED] *= sum(looks) / looks[-1]
        # The probe does here what every worker will do.
        processes = 1 + runtime.workers if runtime.workers > 1 else 1
        return Cost(
            releases=count_releases(setup),
            observations=count_observations(setup),
            workers=runtime.workers,
            wall_seconds=sum(stages.values()),
            stages=stages,
            disk_bytes=round(probe.disk),
            memory_bytes=peak_memory() * processes,
            gpu_hours=stages[RELEASES.title] / 3600 if _uses_gpu() else 0.0,
            probe_seconds=time.perf_counter() - began,
            looks=_looks(setup, stages),
            notes=probe.notes() + _left_out(whole),
        )


def _looks(setup: Setup, stages: dict[str, float]) -> list[dict[str, Any]]:
    """Return what an audit costs whose cells are all found at one of the declared looks.

    Releases and what looks at them cost in proportion; a cell is measured at every look so far.
    """
    n_releases, looks, rows = count_releases(setup), setup.spec.game.looks, []
    for number, look in enumerate(looks, start=1):
        n_made = count_releases(replace(setup, reached=dict.fromkeys(setup.cells, look)))
        shares = dict.fromkeys(PER_RELEASE, n_made / n_releases)
        shares[MEASURED] = sum(looks[:number]) / sum(looks)
        took = sum(seconds * shares.get(name, 1.0) for name, seconds in stages.items())
        rows.append({"look": number, "instances": look, "releases": n_made, "seconds": took})
    return rows


def _left_out(setup: Setup) -> list[str]:
    names = [member.name for member in setup.plugins.families if member.model is not None]
    return [f"without the proxies of {', '.join(names)}"] if names else []


def _start() -> float:
    """Return the seconds that Python takes to start and to import the package."""
    code = "import synthleak.cli.main, synthleak.audit.run"
    return _seconds(lambda: subprocess.run([sys.executable, "-c", code], check=True))


def _seconds(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


@dataclass(frozen=True)
class Timing:
    """Seconds for the first release in a process, for one more, and for two at once."""

    first: float
    one: float
    two: float

    @property
    def each(self) -> float:
        return (self.one + self.two) / 3

    @property
    def once(self) -> float:
        return max(0.0, self.first - self.each)

    def batch(self, size: int) -> float:
        """Return the cost of a batch; the models of a fleet share most of the work.

        >>> Timing(first=9, one=2, two=4).batch(5), Timing(first=9, one=2, two=2.5).batch(21)
        (10.0, 12.0)
        """
        if size <= SMALL_BATCH:
            return self.each * size
        return self.one + max(self.two - self.one, 0.02 * self.one) * (size - 1)


class _Probe:
    """Times one pool; the others are taken to cost as much."""

    def __init__(self, setup: Setup, busy: int, progress: Progress) -> None:
        self.setup, self.busy, self.progress = setup, busy, progress
        self.pool = max(setup.plans, key=lambda name: len(setup.plans[name].targets))
        self.cells = [cell for cell in setup.cells if cell.pool == self.pool]
        self.elsewhere = [cell for cell in self.cells if self._awaits(cell)]
        kinds = {math.isfinite(cell.epsilon): cell for cell in reversed(self.cells)}
        self.part = replace(setup, cells=tuple(kinds.values()))
        self.disk = float(_usage(setup.store))

    def _awaits(self, cell: Cell) -> bool:
        """Say whether some release of a cell is made elsewhere and still missing."""
        generator = generator_of(self.setup, cell)
        return any(
            generator.awaited(request_for(self.setup, cell, item)) is not None
            for _, item in wanted_sets(self.setup, cell)
        )

    def releases(self) -> float:
        """Make releases of every cell, and let them stand for all where later stages are timed."""
        timings = {
            (cell.generator, cell.epsilon): self._time_releases(cell)
            for cell in self.cells
            if cell not in self.elsewhere
        }
        if n_made := sum(1 for _ in self.setup.store.list("release/")):
            grown = _usage(self.setup.store) - self.disk
            self.disk += grown * count_releases(self.setup) / n_made
        for cell in self.part.cells:
            _stand_in(self.setup, cell)
        took = sum(timing.once for timing in timings.values())
        for cell in cells_with_releases(self.setup):
            if timing := timings.get((cell.generator, cell.epsilon)):
                generator = generator_of(self.setup, cell)
                n_full, rest = divmod(len(wanted_sets(self.setup, cell)), generator.batch)
                work = n_full * timing.batch(generator.batch) + timing.batch(rest)
                took += work / (1 if generator.exclusive else self.busy)
        return took

    def _time_releases(self, cell: Cell) -> Timing:
        sets = [position for position, _ in wanted_sets(self.setup, cell)]
        a, b, c, d = (sets[n % len(sets)] for n in range(4))
        units = [ReleaseUnit(cell, positions) for positions in ((a,), (b,), (c, d))]
        title = RELEASES.title
        (first,) = self._time_units(make_releases, self.setup, units[:1], title)
        if first > SLOW and generator_of(self.setup, cell).batch <= SMALL_BATCH:
            return Timing(first, first, 2 * first)
        return Timing(first, *self._time_units(make_releases, self.setup, units[1:], title))

    def later_stages(self) -> dict[str, float]:
        """Do the work of every later stage in part, and return the seconds of all of it."""
        cells, part = self.setup.cells, self.part
        texts = {seen.key for cell in cells_of_all_sizes(part) for seen in observations(part, cell)}
        more_redraws = redraws_of(self.setup, self.pool) / redraws_of(part, self.pool)
        stages = {}
        for stage in AFTER_RELEASES:
            before, units = _usage(self.setup.store), list(stage.missing(part))
            if not units:
                stages[stage.title] = 0.0
                continue
            took = self._time_units(stage.task, part, units, stage.title)
            if stage.of == "observation":
                amount = len(units) * count_observations(self.setup) / len(texts)
                each = mean(took[1:] or took)
                stages[stage.title] = max(0.0, took[0] - each) + amount * each / self.busy
            else:  # workers do whole cells, in rounds
                amount = len(units) * len(cells) / len(part.cells)
                stages[stage.title] = math.ceil(amount / self.busy) * mean(took) * more_redraws
            self.disk += (_usage(self.setup.store) - before) * amount / len(units)
        return stages

    def results(self, folder: Path) -> float:
        """Return the seconds of the tables, which are written twice: the first time is slower."""

        def conclude() -> None:
            audit = Audit(replace(self.part), RunFolder(folder))
            results_key(self.part)
            files_of(audit.results)

        first, again = _seconds(conclude), _seconds(conclude)
        return first + again * (len(self.setup.cells) / len(self.part.cells) - 1)

    def _time_units(
        self, task: Callable[..., int], setup: Setup, units: Sequence[Any], title: str
    ) -> list[float]:
        took: list[float] = []

        def timed(setup: Setup, unit: Any) -> int:
            took.append(_seconds(lambda: task(setup, unit)))
            return 1

        title = f"probing {title}"
        run_units(
            timed, setup, units, runtime=Runtime(workers=1), progress=self.progress, title=title
        )
        return took

    def notes(self) -> list[str]:
        elsewhere = [
            f"{cell.generator} at epsilon {cell.epsilon:g}: its releases are made elsewhere and"
            " still missing; only the stages after them are counted"
            for cell in self.elsewhere
        ]
        batches = [
            f"{section.name}: made in batches of {generator.batch}, extrapolated from 1 and 2"
            for section, generator in self.setup.plugins.generators
            if generator.batch > SMALL_BATCH
        ]
        pools = [f"timed on the pool {self.pool}; the other pools are assumed to cost as much"]
        alone = ["timed with one worker; several slow one another down"]
        return elsewhere + batches + pools * (len(self.setup.plans) > 1) + alone * (self.busy > 1)


def _stand_in(setup: Setup, cell: Cell) -> None:
    """Use a few releases for all of a cell; training sets, where none can be made here."""
    sets = [item for _, item in wanted_sets(setup, cell)]
    made_sets = [item for item in sets if setup.store.exists(release_name(setup, cell, item))]
    headers = [
        header_of(setup, cell, item) if item in made_sets else _borrowed(setup, cell, item)
        for item in (made_sets or sets)[:STANDING_IN]
    ]
    for number, item in enumerate(sets):
        header = headers[number % len(headers)]
        setup.store.put(release_name(setup, cell, item), header.to_bytes())


def _borrowed(setup: Setup, cell: Cell, item: RecordSet) -> Header:
    request = request_for(setup, cell, item)
    release = [Synthetic(record.text, record.labels) for record in request.records]
    text = digest_of(release)
    setup.store.put(name_of("text", text), dump_texts(release))
    return Header(text, len(release), generator_of(setup, cell).claim(request))


def _uses_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.max_memory_reserved() > 0


def _usage(store: Store) -> int:
    """Return the bytes that a store takes on disk, in whole blocks."""
    sizes = [len(store.get(name)) for name in store.list("")]
    return sum(-(-size // BLOCK) * BLOCK for size in sizes)
