"""What a spec's design finds, before any work starts: `synthleak plan power`.

The generators of the spec are not run. The audit uses `bystander` instead, whose releases are
records of R and independent of the targets: the scores are those of this corpus, pool, encoder and
game without a leak. Leaks of known size are then planted. In a check, the release itself is
observed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from synthleak.audit.setup import Setup
from synthleak.audit.steps.observations import scores_of
from synthleak.audit.steps.releases import naming, planned_claim
from synthleak.audit.steps.work import OBSERVATIONS, RELEASES, make_here
from synthleak.core.cell import LEVEL, Cell
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress
from synthleak.core.errors import UserError
from synthleak.core.runtime import Runtime
from synthleak.core.seeds import stream
from synthleak.core.spec import Adjacency, GameSection, GeneratorSection
from synthleak.core.store import MemoryStore
from synthleak.evidence.observation import Floats
from synthleak.metrics.epsilon import Promise, promise_of
from synthleak.metrics.measure import largest_epsilon
from synthleak.metrics.null import POWER
from synthleak.metrics.power import (
    LARGEST_PLAYED,
    PlantedLeaks,
    PowerEstimate,
    estimate_power,
    instances_needed,
    instances_until_found,
    redraws_at,
)
from synthleak.metrics.scored_cell import statistics_of
from synthleak.metrics.types import Rng
from synthleak.plan.plan import Design, Plan, designs
from synthleak.releases.claim import Claim
from synthleak.releases.generator import generators

Row = dict[str, Any]
PLAYED = 100
"""Instances that are scored; a larger design resamples its scores from them."""
LEAKS = (0.7, 0.6, 0.55)
"""AUCs for which the instances until they are found are shown, where looks are declared."""


def power_table(
    setup: Setup, progress: Progress, *, auc: float | None = None, power: float = POWER
) -> list[Row]:
    """Return, per pool, the smallest leaks that the design finds with this probability.

    With `auc`, also about how many instances would find a leak of that size. Where looks are
    declared, also how many instances are played on average until leaks of some sizes are found.
    """
    return [_row(setup, name, progress, auc, power) for name in setup.plans]


def scores_without_leak(setup: Setup, pool: str, progress: Progress) -> Floats:
    """Return the scores `[set, target, signal]` of a pool whose releases do not depend on it."""
    plan = setup.plans[pool].first(PLAYED)
    section, generator = setup.plugins.generators[0]
    if not designs.get(plan.design).plugin.given:
        section = GeneratorSection(kind="bystander", name="bystander", epsilon=(math.inf,))
        generator = generators.build("bystander", {}, key="kind", where=("generator", 0))
    plugins = replace(setup.plugins, generators=((section, generator),))
    setup = replace(
        setup,
        plugins=plugins,
        pools={pool: setup.pools[pool]},
        plans={pool: plan},
        cells=(Cell(setup.corpus.name, pool, section.name, section.epsilon[0]),),
        store=MemoryStore(),
    )
    make_here(setup, RELEASES)
    run_units(
        OBSERVATIONS.task,
        setup,
        list(OBSERVATIONS.missing(setup)),
        runtime=Runtime(workers=1),
        progress=progress,
        title=f"observations of {pool}",
    )
    sets = int(plan.trials.set.max()) + 1
    tables = scores_of(setup, setup.cells[0])
    return np.concatenate([table.values[:sets] for table in tables], axis=2)


def claims_out_of_reach(setup: Setup) -> Iterator[str]:
    """Yield, for each claim that no result of this design could contradict, what would help.

    Replacing a record is removing one and adding another, so that a claim about adding and removing
    is held to a larger ε there (docs/method.md §4.5, §8.9).
    """
    level = LEVEL / setup.spec.game.number_of_looks
    for cell in setup.cells:
        plan = setup.plans[cell.pool]
        try:
            with naming(cell.generator):
                claim = planned_claim(setup, cell)
        except UserError as error:  # a model that is not here, for example
            yield str(error)
            continue
        if not claim.promises:
            continue
        held, most = _reach(plan, claim, plan.adjacency, level)
        if most is None or most >= held:
            continue
        said = f'adjacency = "{plan.adjacency}" holds it to ε = {held:.3g}, and this design refutes'
        said += f" {most:.3g} at most"
        remedy = f"use more instances or targets{', or state its mechanism' * claim.stated}"
        if plan.adjacency == "replace":
            held, most = _reach(plan, claim, "add", level)
            said += f'; "add" holds it to {held:.3g} and refutes {most or 0:.3g} at most'
            if (most or 0) >= held:
                remedy = 'set game.adjacency = "add"'
        yield (
            f"{cell.generator} at epsilon {cell.epsilon:g}, pool {cell.pool}: no result can"
            f" contradict its claim: {said}; {remedy}"
        )


def _reach(
    plan: Plan, claim: Claim, adjacency: Adjacency, level: float
) -> tuple[float, float | None]:
    """Return the ε that a claim is held to, and the largest ε of such a claim that is refuted."""
    promise = promise_of(claim, adjacency, plan.nominal)
    if claim.stated:
        held, _ = claim.point(adjacency)
    else:
        held = claim.epsilon_at(promise.delta, adjacency)
    return held, largest_epsilon(plan, int(plan.trials.set.max()) + 1, promise, level)


def _row(setup: Setup, name: str, progress: Progress, auc: float | None, power: float) -> Row:
    plan, game, cells = setup.plans[name], setup.spec.game, len(setup.cells)
    level = LEVEL / game.number_of_looks
    design = designs.get(plan.design).plugin
    scores = scores_without_leak(setup, name, progress)

    def estimated(instances: int, level: float, confirm: bool) -> PowerEstimate:
        rng = stream(setup.spec.seed, "power", name, instances)
        return estimate_power(
            *played(instances, rng), rng, level=level, power=power, confirm=confirm
        )

    def played(instances: int, rng: Rng) -> tuple[Floats, Design, Plan, GameSection]:
        """Return scores of so many instances, and the game that they come from."""
        values = scores
        if instances != len(scores):
            values = scores[rng.integers(len(scores), size=instances)]
        part = game.model_copy(update={"instances": instances})
        return values, design, replace(plan, trials=design.redraw(plan, part, rng)), part

    def until_found(sizes: Sequence[float]) -> Row:
        """Return the instances that are played on average until leaks of these AUCs are found."""
        powers: dict[float, dict[int, float]] = {size: {} for size in sizes}
        redraws = redraws_at(level / cells, len(statistics_of(design, plan)))
        for look in game.looks[:-1]:
            rng = stream(setup.spec.seed, "power", name, "look", look)
            leaks = PlantedLeaks(*played(look, rng), rng, redraws)
            for size in sizes:
                powers[size][look] = leaks.expected_power(size, level / cells)
        return {
            f"instances until {size:g}": instances_until_found(powers[size], instances)
            for size in sizes
        }

    instances = int(plan.trials.set.max()) + 1
    simulated = min(instances, LARGEST_PLAYED)
    alone = estimated(simulated, level, True)
    row: Row = {
        "pool": name,
        "design": plan.design,
        "instances": instances,
        "targets": len(plan.targets),
        "signals": alone.signals,
        "chance limit": alone.ceiling,
        "smallest AUC": alone.auc,
        "planted and found": alone.confirmed,
        "smallest share copied": alone.copied,
        "largest ε": largest_epsilon(
            plan, instances, Promise(1 / plan.nominal**2, gaussian=True), level
        ),
    }
    if cells > 1:
        row[f"smallest AUC of {cells} cells"] = estimated(simulated, level / cells, False).auc
    if auc is not None:
        row[f"instances for {auc:g}"] = (
            None
            if design.given
            else instances_needed(lambda n: estimated(n, level / cells, False), auc, instances)
        )
    if game.looks:
        row |= until_found(LEAKS if auc is None else [auc])
    return row
