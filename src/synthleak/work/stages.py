"""What an audit does after its releases are made, stage by stage.

Each stage asks the store what is missing and lets an engine make it; so a stage that is added here
is run, resumed and counted in `plan cost` like the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from synthleak.work.figures import assess_cell, missing_curves, missing_figures, trace_cell
from synthleak.work.fusion import asked_fusions, fuse_cell, missing_fusions
from synthleak.work.observations import look_at, missing_evidence
from synthleak.work.profiles import missing_profiles, profile_cell
from synthleak.work.rivals import assess_rivals, missing_rivals, missing_strikes, strike_at
from synthleak.work.utility import measure_cell, missing_utility
from synthleak.workbench import Workbench


@dataclass(frozen=True)
class Stage:
    """One kind of work: `missing` cuts it into units, of one observation or one cell each."""

    title: str
    missing: Callable[[Workbench], list[Any]]
    task: Callable[[Workbench, Any], int]
    of: Literal["observation", "cell"]


STAGES = (
    Stage("observations", missing_evidence, look_at, "observation"),
    Stage("prior attacks", missing_strikes, strike_at, "observation"),
    Stage("figures", missing_figures, assess_cell, "cell"),
    Stage("figures of prior attacks", missing_rivals, assess_rivals, "cell"),
    Stage("profiles", missing_profiles, profile_cell, "cell"),
    Stage("meta", asked_fusions, fuse_cell, "cell"),
    Stage("curves", missing_curves, trace_cell, "cell"),
    Stage("utility", missing_utility, measure_cell, "cell"),
)

FOR_ANALYSES = tuple(
    stage for stage in STAGES if stage.task in (assess_cell, assess_rivals, profile_cell)
)
"""What analyses read, once the evidence is whole."""

FUSION = Stage("meta", missing_fusions, fuse_cell, "cell")
"""The meta-classifier, whether or not the spec asks for it."""
