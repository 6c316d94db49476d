"""What an audit makes, as work for an engine: which units are missing, and how one is done.

A unit that is in the store is never done again. `audit/run.py` says in which order. How long the
stages may take is estimated roughly, for what is shown while they run: fitted to audits of short
texts on one core. `plan cost` measures instead.

At a declared look, a cell that is found is finished, and the others go on. Nothing is noted of a
decision: it follows from the stored measurements, so that a run that was stopped, a later one and
`verify` come to the same looks (docs/method.md §8.12). The manifest notes which results were
looked at and when, which a p-value cannot know: a cell that is added after others were seen is one
more test of the same audit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any, Literal

from synthleak.audit.folder import RunFolder
from synthleak.audit.setup import Setup, draws_sets, generator_of, memory_of, plan_of, proxies_of
from synthleak.audit.steps import measurements, observations, prior_attacks, releases
from synthleak.audit.steps.exposed import record_needs
from synthleak.audit.steps.model_rung import model_needs
from synthleak.core.artefact import Need
from synthleak.core.cell import LEVEL, Cell, counted, counted_cells
from synthleak.core.engine.engine import engines
from synthleak.core.engine.progress import Progress
from synthleak.core.errors import Damaged, StoreError
from synthleak.core.runtime import FLEET, Resources, Runtime
from synthleak.core.store import Store
from synthleak.metrics.null import holm


def is_measured(setup: Setup) -> bool:
    try:
        return all(measurements.CELL_MEASUREMENTS.exists(setup, cell) for cell in setup.cells)
    except Damaged:  # a release of this look was not made yet
        return False


def going_on(setup: Setup) -> list[Cell]:
    """Return the cells that need another look, where every cell was measured at its own.

    Found is what Holm over all cells finds. A cell without a p-value may have one at a later look:
    it counts with p = 1, so that no later look takes a finding back.
    """
    if not setup.reached:
        return []
    p_values = [measurements.CELL_MEASUREMENTS.get(setup, cell).p for cell in setup.cells]
    adjusted = holm([1.0 if p is None else p for p in p_values])
    last = setup.spec.game.instances
    return [
        cell
        for cell, p in zip(setup.cells, adjusted, strict=True)
        if p is not None and p > LEVEL and setup.reached[cell] < last
    ]


def at_next_look(setup: Setup) -> Setup | None:
    """Return the setup with every cell that is not found at its next look; None at the end."""
    cells, looks = going_on(setup), setup.spec.game.looks
    if not cells:
        return None
    following = {cell: looks[looks.index(setup.reached[cell]) + 1] for cell in cells}
    return replace(setup, reached={**setup.reached, **following})


def at_present_look(setup: Setup) -> Setup:
    """Return the setup at the looks to which the measurements in the store have led."""
    if not setup.spec.game.looks:
        return setup
    setup = replace(setup, reached=dict.fromkeys(setup.cells, setup.spec.game.looks[0]))
    while is_measured(setup) and (further := at_next_look(setup)) is not None:
        setup = further
    return setup


def is_decided(setup: Setup) -> bool:
    return not setup.reached or (is_measured(setup) and not going_on(setup))


def said_of_look(setup: Setup, further: Setup) -> str:
    """Say at a look how many cells are found, and how many go on."""
    cells, looks = len(setup.cells), setup.spec.game.looks
    more = sum(further.reached[cell] > setup.reached[cell] for cell in setup.cells)
    look = max(setup.reached.values())
    return (
        f"look {looks.index(look) + 1} of {len(looks)}, after {look} instances: a leak found in"
        f" {cells - more} of {cells} cells; {more} go on"
    )


def note_looks(setup: Setup, folder: RunFolder) -> None:
    """Write the cells that were never looked at after as many instances into the manifest."""
    noted = {
        (look.instances, name) for look in folder.looks() for name in look.cells + look.without_p
    }
    new = []
    for cell in setup.cells:
        instances = int(plan_of(setup, cell).trials.set.max()) + 1
        if (instances, cell.name) not in noted:
            new.append(
                (
                    instances,
                    measurements.CELL_MEASUREMENTS.get(setup, cell).p is not None,
                    cell.name,
                )
            )
    for instances, looked in groupby(sorted(new), key=lambda item: item[0]):
        cells = [*looked]
        folder.note_look(
            instances,
            [name for _, tested, name in cells if tested],
            [name for _, tested, name in cells if not tested],
        )


def said_of_history(setup: Setup, folder: RunFolder) -> tuple[str, ...]:
    """Say which cells were added after others had been looked at, and which were left out."""
    looks = [(look.at, look.cells + look.without_p) for look in folder.looks()]
    looks = [(at, names) for at, names in looks if names]
    present, sentences = [cell.name for cell in setup.cells], []
    first = {name: at for at, names in reversed(looks) for name in names}
    began = set(looks[0][1]) if looks else set(present)
    for at, names in looks:
        added = [name for name in names if name in present and name not in began]
        began |= set(added)
        if added:
            sentences.append(
                f"Added on {at[:10]}, after results of other cells had been seen:"
                f" {'; '.join(added)}. Holm’s adjustment is over {counted_cells(present)}."
            )
    gone = [name for name in first if name not in present]
    if gone:
        sentences.append(
            f"Also looked at in this folder, and not counted here: {'; '.join(gone)}."
            " Results that were left out after they had been seen make the others look stronger."
        )
    return tuple(sentences)


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
        steps: Counter[Resources] = Counter()  # counted first, then cut into units on demand
        for unit in self.missing(setup):
            steps[self._resources(setup, unit)] += _steps(unit)
        if not steps:
            return 0
        engine = engines.get(runtime.engine).plugin
        with engine.session(runtime):
            for wanted in sorted(steps, key=lambda one: (-one.gpus, not one.alone)):
                engine.run_units(
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
        if self.of == "release":
            generator = generator_of(setup, unit.cell)
            return replace(generator.resources, alone=generator.exclusive)
        return FLEET if self.of == "model" else Resources()


def _steps(unit: Any) -> int:
    return len(getattr(unit, "sets", (unit,)))


def make_here(setup: Setup, *works: Work) -> None:
    """Do all that is missing of some kinds of work in this process."""
    for work in works:
        for unit in work.missing(setup):
            work.task(setup, unit)


Needs = Callable[[Setup, Cell], list[Need]]


def of_cells(title: str, needs: Needs) -> Work:
    return Work(title, partial(_missing, needs), partial(_make, needs), "cell")


def _missing(needs: Needs, setup: Setup) -> list[Cell]:
    return [
        cell
        for cell in setup.cells
        if not all(artefact.exists(setup, *of) for artefact, of in needs(setup, cell))
    ]


def _make(needs: Needs, setup: Setup, cell: Cell) -> int:
    for artefact, of in needs(setup, cell):
        artefact.get(setup, *of)
    return 1


@contextmanager
def at_work(setup: Setup, runtime: Runtime) -> Iterator[Runtime]:
    """Hold what the engine of a run works on, and count what it does at once as workers.

    Every machine must see the store before work starts: it would put what it makes elsewhere.
    """
    engine = engines.get(runtime.engine).plugin
    with engine.session(runtime):
        engine.ask(runtime, partial(_sees, next(setup.store.list("plan/"))), setup.store)
        yield replace(runtime, workers=max(runtime.workers, engine.workers(runtime)))


def _sees(name: str, store: Store) -> str | None:
    try:
        seen = store.exists(name)
    except StoreError as error:
        return str(error)
    return None if seen else "it does not see the run folder: use a shared folder or a bucket"


RELEASES = Work("releases", releases.each_missing_release, releases.make_releases, "release")
OBSERVATIONS = Work(
    "observations", observations.each_missing_evidence, observations.look_at, "observation"
)
MODELS = Work(
    "observations by a model", observations.missing_models, observations.look_with_models, "model"
)
PRIOR_ATTACKS = Work(
    "prior attacks",
    prior_attacks.each_missing_attack,
    prior_attacks.attack_observation,
    "observation",
)
PROXIES = (OBSERVATIONS, MODELS)
EVIDENCE = (*PROXIES, PRIOR_ATTACKS)
MEASUREMENTS = (
    of_cells("measurements", measurements.measurement_needs),
    of_cells("measurements of prior attacks", prior_attacks.prior_attack_needs),
    of_cells("measurements of models", model_needs),
)
TO_DECIDE = (*PROXIES, of_cells("measurements", measurements.needs_at_look))
"""What a look needs beside the releases."""
UTILITY = of_cells("utility", releases.utility_needs)
RECORDS = of_cells("records", record_needs)
MORE = (of_cells("meta", measurements.meta_needs_if_asked), UTILITY, RECORDS)
"""What some analyses and tables need beside the measurements."""
META = of_cells("meta", measurements.meta_needs)
"""The meta-classifier, whether or not the spec asks for it."""

AFTER_RELEASES = (OBSERVATIONS, PRIOR_ATTACKS, *MEASUREMENTS, *MORE)
"""What follows the releases, for an estimate of its cost: models are left out."""


def say_news(setup: Setup, progress: Progress, news: Sequence[str]) -> None:
    """Say what is left out of an audit, what is new to its folder, and what that needs."""
    for order in setup.empty:
        progress.say(f"the pool {order.name!r} is empty and left out: its rule selects nobody")
    if news:
        missing = sum(len(unit.sets) for unit in releases.missing_releases(setup))
        progress.say(f"new: {'; '.join(news)}")
        kept = releases.count_releases(setup) - missing
        progress.say(f"to make: {counted(missing, 'release')}; kept: {kept:,}")


def make_missing_releases(setup: Setup, runtime: Runtime, progress: Progress) -> int:
    """Make the releases that the store does not hold, and return how many steps that took."""
    if runtime.workers > 1:
        releases.account_claims(setup)
    steps = RELEASES.make(setup, runtime, progress)
    if steps:
        memory_of(setup, observations.SCORES).clear()  # those of the cell with other releases
    releases.check_awaited(setup)
    return steps


def make_releases_by_looks(
    setup: Setup, folder: RunFolder, runtime: Runtime, progress: Progress
) -> tuple[Setup, int]:
    """Make the releases that the first look needs; then those of the cells that go on from it.

    Returns the setup at the look where each cell ended, and how many steps that took. Without
    declared looks there is one.
    """
    steps = make_missing_releases(setup, runtime, progress)
    while setup.reached:
        steps += sum(work.make(setup, runtime, progress) for work in TO_DECIDE)
        note_looks(setup, folder)
        further = at_next_look(setup)
        if further is None:
            break
        progress.say(said_of_look(setup, further))
        setup = further
        steps += make_missing_releases(setup, runtime, progress)
    return setup, steps


REPORT_STAGE = "report"
"""The last stage: analyses, tables and page."""
TIMED_PROXIES = 32
"""The proxies of an audit that the seconds below were measured on."""


def expected_stages(setup: Setup, runtime: Runtime) -> dict[str, float]:
    """Return the stages of a run by title, each with the seconds it may take; 0: unknown."""
    wanted = releases.count_releases(setup)
    missing = sum(len(unit.sets) for unit in releases.missing_releases(setup))
    proxies = len(proxies_of(setup)) / TIMED_PROXIES
    estimate: defaultdict[str, float] = defaultdict(float)
    smaller = setup.spec.game.smaller_sizes
    for cell in setup.cells:
        attacks, observing = len(prior_attacks.attacks_on(setup, cell)) / 2, _observing(setup, cell)
        redraws = measurements.redraws_of(setup, cell.pool)
        whole = plan_of(setup, cell).release_size
        texts = 1 + sum(replace(cell, size=size).texts_of(whole) for size in smaller) / whole
        each = (
            (OBSERVATIONS, observing * proxies * texts),
            (PRIOR_ATTACKS, observing * attacks),
            (MEASUREMENTS[0], 4.5 * proxies * redraws / 2000 * (1 + len(smaller))),
            (MEASUREMENTS[1], 0.3 * attacks),
            (META, 60.0 * (META.title in setup.spec.analyses.also)),
            (UTILITY, 0.8 * draws_sets(setup, cell.pool)),
            (RECORDS, 0.1),
        )
        for work, seconds in each:
            estimate[work.title] += seconds
    share = missing / wanted if missing else 1.0
    busy = engines.get(runtime.engine).plugin.workers(runtime)
    later = {title: share * seconds / busy for title, seconds in estimate.items() if seconds}
    return {RELEASES.title: 0.0, **later, REPORT_STAGE: 2.0 + 0.5 * len(setup.cells)}


def _observing(setup: Setup, cell: Cell) -> float:
    """Estimate the seconds that 32 proxies, or two prior attacks, take for a cell's releases."""
    plan, records = plan_of(setup, cell), setup.corpus.records
    characters = sum(len(record.text) for record in records) / len(records) * plan.release_size
    each = 2e-6 * characters * (1 + len(plan.targets) / 40)
    return each * len(plan.sets)
