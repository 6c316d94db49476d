"""What an audit makes, as work for an engine: which units are missing, and how one is done.

A unit that is in the store is never done again. `audit/run.py` says in which order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from synthleak.audit.setup import Setup
from synthleak.audit.steps.looks import needs_at_look
from synthleak.audit.steps.measurements import measurement_needs
from synthleak.audit.steps.meta_classifier import meta_needs, meta_needs_if_asked
from synthleak.audit.steps.observations import (
    each_missing_evidence,
    look_at,
    look_with_models,
    missing_models,
)
from synthleak.audit.steps.prior_attacks import (
    attack_observation,
    each_missing_attack,
    prior_attack_needs,
)
from synthleak.audit.steps.releases import each_missing_release, make_releases
from synthleak.audit.steps.utility import utility_needs
from synthleak.core.artefact import Need
from synthleak.core.cell import Cell
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress
from synthleak.core.errors import StoreError
from synthleak.core.runtime import FLEET, Resources, Runtime
from synthleak.core.store import Store


@dataclass(frozen=True)
class Work:
    """One kind of work: `missing` cuts it into units, of one observation or one cell each."""

    title: str
    missing: Callable[[Setup], Iterable[Any]]
    task: Callable[..., int]
    of: Literal["release", "observation", "model", "cell"]

    def make(self, setup: Setup, runtime: Runtime, progress: Progress) -> int:
        """Make what is missing, and return how many steps that took."""
        setup.store.refresh()
        if runtime.engine == "ray":
            return self._make_on_ray(setup, runtime, progress)
        made = 0
        for units, workers in self._shares(setup, runtime):
            steps = sum(_steps(unit) for unit in units)
            run_units(
                self.task,
                setup,
                units,
                workers=workers,
                progress=progress,
                title=self.title,
                steps=steps,
            )
            made += steps
        return made

    def _shares(self, setup: Setup, runtime: Runtime) -> list[tuple[list[Any], int]]:
        """Return the missing units, those first whose generator wants the machine for itself."""
        units = list(self.missing(setup))
        if self.of == "model":  # one process uses the device
            return [(units, 1)]
        if self.of != "release":
            return [(units, runtime.workers)]
        alone = [unit for unit in units if setup.generator_of(unit.cell)[1].exclusive]
        return [(alone, 1), ([unit for unit in units if unit not in alone], runtime.workers)]

    def _make_on_ray(self, setup: Setup, runtime: Runtime, progress: Progress) -> int:
        """Let the cluster make what is missing: counted first, then cut into units on demand."""
        from synthleak.core.engine import on_ray, ray_cluster

        steps: Counter[Resources] = Counter()
        for unit in self.missing(setup):
            steps[self._resources(setup, unit)] += _steps(unit)
        if not steps:
            return 0
        with ray_cluster.session(runtime):
            for wanted in sorted(steps, key=lambda one: -one.gpus):
                on_ray.run_units(
                    self.task,
                    setup,
                    (one for one in self.missing(setup) if self._resources(setup, one) == wanted),
                    runtime=runtime,
                    resources=wanted,
                    progress=progress,
                    title=self.title,
                    steps=steps[wanted],
                )
        return steps.total()

    def _resources(self, setup: Setup, unit: Any) -> Resources:
        """Return what a unit needs: its generator or its family says so."""
        if self.of == "release":
            return setup.generator_of(unit.cell)[1].resources
        return FLEET if self.of == "model" else Resources()


def _steps(unit: Any) -> int:
    return len(getattr(unit, "sets", (unit,)))


def of_cells(title: str, needs: Callable[[Setup, Cell], list[Need]]) -> Work:
    """Return the work of making the artefacts that every cell needs."""
    return Work(title, partial(_missing, needs), partial(_make, needs), "cell")


def _missing(needs: Callable[[Setup, Cell], list[Need]], setup: Setup) -> list[Cell]:
    return [
        cell
        for cell in setup.cells
        if not all(artefact.exists(setup, *of) for artefact, of in needs(setup, cell))
    ]


def _make(needs: Callable[[Setup, Cell], list[Need]], setup: Setup, cell: Cell) -> int:
    for artefact, of in needs(setup, cell):
        artefact.get(setup, *of)
    return 1


@contextmanager
def at_work(setup: Setup, runtime: Runtime) -> Iterator[Runtime]:
    """Hold the cluster of a run, if it has one, and count its CPUs as workers.

    Every machine must see the store before work starts: it would put what it makes elsewhere.
    """
    if runtime.engine != "ray":
        yield runtime
        return
    from synthleak.core.engine import ray_cluster

    with ray_cluster.session(runtime) as ray:
        sees = partial(_sees, next(setup.store.list("plan/")))
        ray_cluster.ask_every_node(runtime, sees, setup.store)
        yield replace(runtime, workers=ray_cluster.cpus_of(ray))


def _sees(name: str, store: Store) -> str | None:
    try:
        seen = store.exists(name)
    except StoreError as error:
        return str(error)
    return None if seen else "it does not see the run folder: use a shared folder or a bucket"


RELEASES = Work("releases", each_missing_release, make_releases, "release")
OBSERVATIONS = Work("observations", each_missing_evidence, look_at, "observation")
MODELS = Work("observations by a model", missing_models, look_with_models, "model")
PRIOR_ATTACKS = Work("prior attacks", each_missing_attack, attack_observation, "observation")
PROXIES = (OBSERVATIONS, MODELS)
EVIDENCE = (*PROXIES, PRIOR_ATTACKS)
MEASUREMENTS = (
    of_cells("measurements", measurement_needs),
    of_cells("measurements of prior attacks", prior_attack_needs),
)
TO_DECIDE = (*PROXIES, of_cells("measurements", needs_at_look))
"""What a look needs beside the releases."""
MORE = (of_cells("meta", meta_needs_if_asked), of_cells("utility", utility_needs))
"""What some analyses and tables need beside the measurements."""
META = of_cells("meta", meta_needs)
"""The meta-classifier, whether or not the spec asks for it."""

AFTER_RELEASES = (OBSERVATIONS, PRIOR_ATTACKS, *MEASUREMENTS, *MORE)
"""What follows the releases, for an estimate of its cost: models are left out."""
