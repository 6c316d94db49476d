"""How long the stages of a run may take, for the estimate that is shown while it runs.

Rough: fitted to audits of short texts on one core. A stage that has begun is extrapolated from its
own pace, and later ones are scaled by it (`core/engine/progress.py`). `plan cost` measures instead.
"""

from __future__ import annotations

from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import redraws_of
from synthleak.audit.steps.prior_attacks import attacks_on
from synthleak.audit.steps.profiles import draws_sets
from synthleak.audit.steps.releases import missing_releases, wanted_sets
from synthleak.audit.steps.work import (
    MEASUREMENTS,
    META,
    MORE,
    OBSERVATIONS,
    PRIOR_ATTACKS,
    RELEASES,
)
from synthleak.core.cell import Cell
from synthleak.core.runtime import Runtime, available_cores

REPORT = "report"
"""The last stage: analyses, tables and page."""
PROXIES = 32
"""The proxies of an audit that the seconds below were measured on."""


def expected_stages(setup: Setup, runtime: Runtime) -> dict[str, float]:
    """Return the stages of a run by title, each with the seconds it may take; 0: unknown."""
    observations, prior = OBSERVATIONS.title, PRIOR_ATTACKS.title
    measurements, prior_measurements = (work.title for work in MEASUREMENTS)
    _, utility = (work.title for work in MORE)
    wanted = sum(len(wanted_sets(setup, cell)) for cell in setup.cells)
    missing = sum(len(unit.sets) for unit in missing_releases(setup))
    titles = (observations, prior, measurements, prior_measurements, META.title, utility)
    found = dict.fromkeys(titles, 0.0)
    proxies = len(setup.proxies) / PROXIES
    for cell in setup.cells:
        attacks = len(attacks_on(setup, cell)) / 2
        found[observations] += _observing(setup, cell) * proxies
        found[prior] += _observing(setup, cell) * attacks
        found[measurements] += 4.5 * proxies * redraws_of(setup, cell.pool) / 2000
        found[prior_measurements] += 0.3 * attacks
        found[META.title] += 60.0 * (META.title in setup.spec.analyses.also)
        found[utility] += 0.8 * draws_sets(setup, cell.pool)
    share = missing / wanted if missing else 1.0
    busy = runtime.workers if runtime.engine == "ray" else min(runtime.workers, available_cores())
    later = {title: share * seconds / busy for title, seconds in found.items() if seconds}
    return {RELEASES.title: 0.0, **later, REPORT: 2.0 + 0.5 * len(setup.cells)}


def _observing(setup: Setup, cell: Cell) -> float:
    """Estimate the seconds that 32 proxies, or two prior attacks, take for a cell's releases."""
    plan, records = setup.plan_of(cell), setup.corpus.records
    characters = sum(len(record.text) for record in records) / len(records) * plan.release_size
    each = 2e-6 * characters * (1 + len(plan.targets) / 40)
    return each * len(plan.sets)
