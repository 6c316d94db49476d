"""What an audit does after its releases are made, stage by stage.

Each stage asks the store what is missing and lets an engine make it; so a stage that is added here
is run, resumed and counted in `plan cost` like the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import (
    measure_cell,
    missing_curves,
    missing_measurements,
    trace_cell,
)
from synthleak.audit.steps.meta_classifier import asked_meta, measure_meta, missing_meta
from synthleak.audit.steps.observations import look_at, missing_evidence
from synthleak.audit.steps.prior_attacks import (
    attack_observation,
    measure_prior,
    missing_attacks,
    missing_prior,
)
from synthleak.audit.steps.profiles import missing_profiles, profile_cell
from synthleak.audit.steps.utility import measure_utility, missing_utility


@dataclass(frozen=True)
class Stage:
    """One kind of work: `missing` cuts it into units, of one observation or one cell each."""

    title: str
    missing: Callable[[Setup], list[Any]]
    task: Callable[[Setup, Any], int]
    of: Literal["observation", "cell"]


STAGES = (
    Stage("observations", missing_evidence, look_at, "observation"),
    Stage("prior attacks", missing_attacks, attack_observation, "observation"),
    Stage("figures", missing_measurements, measure_cell, "cell"),
    Stage("figures of prior attacks", missing_prior, measure_prior, "cell"),
    Stage("profiles", missing_profiles, profile_cell, "cell"),
    Stage("meta", asked_meta, measure_meta, "cell"),
    Stage("curves", missing_curves, trace_cell, "cell"),
    Stage("utility", missing_utility, measure_utility, "cell"),
)

FOR_ANALYSES = tuple(
    stage for stage in STAGES if stage.task in (measure_cell, measure_prior, profile_cell)
)
"""What analyses read, once the evidence is whole."""

FUSION = Stage("meta", missing_meta, measure_meta, "cell")
"""The meta-classifier, whether or not the spec asks for it."""
