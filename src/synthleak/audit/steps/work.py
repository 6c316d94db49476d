"""What an audit makes, as work for an engine: which units are missing, and how one is done.

A unit that is in the store is never done again. `audit/run.py` says in which order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import measurement_needs
from synthleak.audit.steps.meta_classifier import meta_needs, meta_needs_if_asked
from synthleak.audit.steps.observations import (
    compare_texts,
    look_at,
    look_with_models,
    missing_evidence,
    missing_models,
    missing_neighbours,
)
from synthleak.audit.steps.prior_attacks import (
    attack_observation,
    missing_attacks,
    prior_attack_needs,
)
from synthleak.audit.steps.releases import make_releases, missing_releases
from synthleak.audit.steps.utility import utility_needs
from synthleak.core.artefact import Need
from synthleak.core.cell import Cell
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress
from synthleak.core.runtime import Runtime


@dataclass(frozen=True)
class Work:
    """One kind of work: `missing` cuts it into units, of one observation or one cell each."""

    title: str
    missing: Callable[[Setup], list[Any]]
    task: Callable[..., int]
    of: Literal["release", "observation", "model", "cell"]
    threaded: bool = False
    """Whether one unit at a time uses all cores: `task` then also takes the number of threads."""

    def make(self, setup: Setup, runtime: Runtime, progress: Progress) -> int:
        """Make what is missing, and return how many steps that took."""
        made = 0
        task = partial(self.task, threads=runtime.workers) if self.threaded else self.task
        for units, workers in self._shares(setup, runtime):
            steps = sum(_steps(unit) for unit in units)
            run_units(
                task,
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
        setup.store.refresh()
        units = self.missing(setup)
        if self.threaded or self.of == "model":  # one process uses all cores, or the device
            return [(units, 1)]
        if self.of != "release":
            return [(units, runtime.workers)]
        alone = [unit for unit in units if setup.generator_of(unit.cell)[1].exclusive]
        return [(alone, 1), ([unit for unit in units if unit not in alone], runtime.workers)]


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


RELEASES = Work("releases", missing_releases, make_releases, "release")
OBSERVATIONS = Work("observations", missing_evidence, look_at, "observation")
MODELS = Work("observations by a model", missing_models, look_with_models, "model")
PRIOR_ATTACKS = Work("prior attacks", missing_attacks, attack_observation, "observation")
EVIDENCE = (
    Work("texts compared", missing_neighbours, compare_texts, "observation", threaded=True),
    OBSERVATIONS,
    MODELS,
    PRIOR_ATTACKS,
)
MEASUREMENTS = (
    of_cells("measurements", measurement_needs),
    of_cells("measurements of prior attacks", prior_attack_needs),
)
MORE = (of_cells("meta", meta_needs_if_asked), of_cells("utility", utility_needs))
"""What some analyses and tables need beside the measurements."""
META = of_cells("meta", meta_needs)
"""The meta-classifier, whether or not the spec asks for it."""

AFTER_RELEASES = (OBSERVATIONS, PRIOR_ATTACKS, *MEASUREMENTS, *MORE)
"""What follows the releases, for an estimate of its cost: observations include the comparison of
texts, and models are left out."""
