"""How long the analyses of a 60-cell study take, from stored evidence.

Four pools of 60 records (one selected, three random controls), three generators, five budgets, 100
instances, 32 proxies in three scenarios: 60 cells. The evidence is noise with a leak planted in
members, put straight into a store, so that nothing is generated or observed; measurements are made
beforehand with few redraws, as in a finished audit. Timed are the profiles (V(x), both bands,
bootstrap draws, attributes), the tables that an unfinished audit would still have to write, all
analyses but the meta-classifier, and that one on some cells. Bounds: 3 and 20 minutes on 2 cores.

    python benchmarks/analyses.py [--meta 60] [--design lone] [--workers 2] [--out FILE]

On a busy machine use --workers 1: all work is then CPU time of one process.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.analyses.analysis import analyses
from synthleak.audit.folder import RunFolder
from synthleak.audit.result import Audit
from synthleak.audit.setup import Setup, generator_of, targets_in
from synthleak.audit.stages import set_up
from synthleak.audit.steps.measurements import (
    ATTRIBUTES,
    CELL_MEASUREMENTS,
    PROFILE,
    measurements_key,
)
from synthleak.audit.steps.observations import evidence_keys, observations, scores_of
from synthleak.audit.steps.releases import claim_of, release_name, request_for, wanted_sets
from synthleak.audit.steps.work import META
from synthleak.core.cell import Cell
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Silent
from synthleak.core.runtime import Runtime, available_cores
from synthleak.core.seeds import digest, stream
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import name_of
from synthleak.evidence.table import put_evidence
from synthleak.metrics.measure import measure
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan.plan import designs
from synthleak.releases.release import Header

BOUNDS = {"analyses": 180.0, "meta": 1200.0}
BUDGETS = ["inf", 4, 2, 1, 0.5]


def spec_of(design: str) -> LoadedSpec:
    return LoadedSpec(
        parse_spec(
            {
                "seed": 1,
                "corpus": {"reader": "demo", "size": 1500},
                "pool": [
                    {"name": "outlier", "rule": "outlier", "percentile": 90, "size": 60},
                    {"name": "random", "rule": "random", "match": "outlier"},
                ],
                "game": {"design": design, "instances": 100, "records": 500},
                "generator": [
                    {"kind": "ngram", "name": name, "epsilon": BUDGETS, "delta": delta}
                    for name, delta in (("a", 1e-5), ("b", 2e-5), ("c", 3e-5))
                ],
                "prior": [],
            }
        )
    )


def prepare(setup: Setup, cell: Cell) -> None:
    put_evidence_of(setup, cell)
    put_measurements(setup, cell)


def put_evidence_of(setup: Setup, cell: Cell) -> None:
    """Store invented releases, and evidence on them: noise, raised for members."""
    plan, targets = setup.plans[cell.pool], targets_in(setup, cell.pool)
    for _, item in wanted_sets(setup, cell):
        claim = generator_of(setup, cell).claim(request_for(setup, cell, item))
        text = digest("nothing", cell.pool, cell.generator, repr(cell.epsilon), item.name)
        header = Header(text, plan.release_size, claim, plan.release_size)
        setup.store.put(release_name(setup, cell, item), header.to_bytes())
    joined = np.zeros((len(plan.sets), len(plan.targets)))
    member = plan.trials.member
    joined[plan.trials.set[member], plan.trials.target[member]] = 1.0
    leak = 0.4 / (1 + 1 / cell.epsilon)
    for place, (text, _) in enumerate(observations(setup, cell)):
        [block] = targets.blocks()
        rng = stream(1, text)
        common = rng.normal(size=(len(plan.targets), 1)) + leak * joined[place][:, None]
        for family, key in evidence_keys(setup, block, text):
            noise = rng.normal(size=(len(plan.targets), len(family.proxies)))
            put_evidence(setup.store, key, np.exp(0.3 * (common + noise)))


def put_measurements(setup: Setup, cell: Cell) -> None:
    """Measure a cell with few redraws, and store the result as a finished audit does."""
    plan = setup.plans[cell.pool]
    name = (1, cell.pool, cell.generator, repr(cell.epsilon))
    design = designs.get(plan.design).plugin
    made = measure(
        ScoredCell(scores_of(setup, cell), design, plan, setup.spec.game, name),
        claim_of(setup, cell),
        redraws=39,
        crossfit_redraws=1,
        spreads=False,
    )
    setup.store.put(name_of("figures", measurements_key(setup, cell)), CELL_MEASUREMENTS.dump(made))


def at_work(
    setup: Setup, task: Callable[[Setup, Any], int], units: list[Any], workers: int
) -> tuple[float, float]:
    """Do the units, and return wall-clock seconds and CPU seconds of this process."""
    started, own = time.perf_counter(), time.process_time()
    run_units(
        task,
        setup,
        units,
        runtime=Runtime(workers=workers),
        progress=Silent(),
        title="-",
        steps=len(units),
    )
    return time.perf_counter() - started, time.process_time() - own


def timed(call: Callable[[], Any]) -> tuple[float, float]:
    """Return the wall-clock and CPU seconds of a call."""
    started, own = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - started, time.process_time() - own


def profile_cell(setup: Setup, cell: Cell) -> int:
    """Make the profile of one cell, and the attributes of its records."""
    ATTRIBUTES.get(setup, cell.pool)
    PROFILE.get(setup, cell)
    return 1


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--meta", type=int, default=0, metavar="CELLS", help="try it on so many")
    parser.add_argument("--design", default="lone", choices=("lone", "cohort"))
    parser.add_argument("--workers", type=int, default=2, help="1 measures CPU time whole")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="synthleak-analyses-") as name:
        folder = RunFolder(Path(name) / "run")
        setup = set_up(spec_of(arguments.design), folder.store)
        folder.begin(setup, new=True)
        prepared, _ = timed(lambda: [prepare(setup, cell) for cell in setup.cells])
        load = os.getloadavg()[0]
        seconds = {"profiles": at_work(setup, profile_cell, setup.cells, arguments.workers)}
        audit = Audit(setup, folder)
        seconds["tables"] = timed(lambda: (audit.cells, audit.proxies))
        seconds["opening"] = timed(lambda: audit.study)
        seconds["analyses"] = timed(lambda: audit.outcomes)
        each = {}
        for entry in analyses:
            if not entry.plugin.opt_in:
                fresh = replace(audit.study)
                each[entry.name] = round(timed(partial(entry.plugin.outcome, fresh))[1], 2)
        if arguments.meta:
            some = setup.cells[:: len(setup.cells) // arguments.meta][: arguments.meta]
            took = at_work(setup, META.task, some, arguments.workers)
            times = len(setup.cells) / len(some)
            seconds[f"meta, scaled up from {len(some)} cells"] = (took[0] * times, took[1] * times)
        rows = {outcome.name: len(outcome.rows) for outcome in audit.outcomes}
    parts = [seconds[name] for name in ("profiles", "opening", "analyses")]
    result = {
        "what": f"60 cells, {arguments.design}: 100 instances, 60 records, 32 proxies, 3 scenarios",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": available_cores(), "load": load},
        "workers": arguments.workers,
        "wall_seconds": {key: round(wall, 1) for key, (wall, _) in seconds.items()},
        "cpu_seconds_of_this_process": {key: round(own, 1) for key, (_, own) in seconds.items()},
        "all_but_meta_wall_seconds": round(sum(wall for wall, _ in parts), 1),
        "all_but_meta_cpu_seconds": round(sum(own for _, own in parts), 1),
        "bound_seconds_on_2_cores": BOUNDS,
        "each_cpu_seconds": each,
        "rows": rows,
        "preparing_seconds": round(prepared, 1),
    }
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
