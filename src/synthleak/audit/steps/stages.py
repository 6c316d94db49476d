"""What an audit makes, as work for an engine: which units are missing, and how one is done.

A unit that is in the store is never done again. `audit/run.py` says in which order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import measure_cell, missing_measurements
from synthleak.audit.steps.meta_classifier import asked_meta, measure_meta, missing_meta
from synthleak.audit.steps.observations import look_at, missing_evidence
from synthleak.audit.steps.prior_attacks import (
    attack_observation,
    measure_prior,
    missing_attacks,
    missing_prior,
)
from synthleak.audit.steps.releases import make_releases, missing_releases
from synthleak.audit.steps.utility import measure_utility, missing_utility
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress
from synthleak.core.runtime import Runtime


@dataclass(frozen=True)
class Stage:
    """One kind of work: `missing` cuts it into units, of one observation or one cell each."""

    title: str
    missing: Callable[[Setup], list[Any]]
    task: Callable[[Setup, Any], int]
    of: Literal["release", "observation", "cell"]

    def make(self, setup: Setup, runtime: Runtime, progress: Progress) -> int:
        """Make what is missing, and return how many steps that took."""
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
        units = self.missing(setup)
        if self.of != "release":
            return [(units, runtime.workers)]
        alone = [unit for unit in units if setup.generator_of(unit.cell)[1].exclusive]
        return [(alone, 1), ([unit for unit in units if unit not in alone], runtime.workers)]


def _steps(unit: Any) -> int:
    return len(getattr(unit, "sets", (unit,)))


RELEASES = Stage("releases", missing_releases, make_releases, "release")
OBSERVATIONS = Stage("observations", missing_evidence, look_at, "observation")
EVIDENCE = (
    OBSERVATIONS,
    Stage("prior attacks", missing_attacks, attack_observation, "observation"),
)
MEASUREMENTS = (
    Stage("measurements", missing_measurements, measure_cell, "cell"),
    Stage("measurements of prior attacks", missing_prior, measure_prior, "cell"),
)
MORE = (
    Stage("meta", asked_meta, measure_meta, "cell"),
    Stage("utility", missing_utility, measure_utility, "cell"),
)
"""What some analyses and tables need beside the measurements."""
META = Stage("meta", missing_meta, measure_meta, "cell")
"""The meta-classifier, whether or not the spec asks for it."""

STAGES = (*EVIDENCE, *MEASUREMENTS, *MORE)
"""What follows the releases, for an estimate of its cost."""
