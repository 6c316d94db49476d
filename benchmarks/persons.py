"""The same leak, asked about by record and by person.

    python benchmarks/persons.py [--audits 20]

A cohort on the demo corpus with several records a person (`persons = true`), played twice on the
same number of releases: once with ten records as targets, once with ten persons. Printed are how
often a leak is found at 5%, and the cross-fitted AUC; the table goes to benchmarks/results/.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.audit.stages import set_up
from synthleak.audit.steps.observations import look_at, missing_evidence, scores_of
from synthleak.audit.steps.releases import held_claim, make_releases, missing_releases
from synthleak.core.spec import LoadedSpec, parse_spec
from synthleak.core.store import MemoryStore
from synthleak.metrics.measure import measure
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.plan.plan import designs

RESULTS = Path(__file__).parent / "results"
GENERATORS: dict[str, dict[str, Any]] = {
    "echo p = 0.05": {"kind": "echo", "p": 0.05},
    "ngram, ε = ∞": {"kind": "ngram"},
}
FAMILIES = ["char_overlap", "bm25", "cos"]


def play(seed: int, unit: str, generator: dict[str, Any]) -> dict[str, Any]:
    """Play one audit, and return what it says."""
    spec = {
        "seed": seed,
        "corpus": {"reader": "demo", "size": 800, "seed": seed, "persons": True},
        "encoders": {"pools": "hashing", "evidence": "hashing"},
        "pool": [{"name": "pool", "rule": "random", "size": 10, "draws": 1}],
        "game": {"design": "cohort", "instances": 20, "records": 320, "unit": unit},
        "generator": [generator],
        "evidence": {"families": FAMILIES},
    }
    setup = set_up(LoadedSpec(parse_spec(spec)), MemoryStore())
    for release in missing_releases(setup):
        make_releases(setup, release)
    for observation in missing_evidence(setup):
        look_at(setup, observation)
    (cell,) = setup.cells
    plan = setup.plans["pool"]
    scored = ScoredCell(
        scores_of(setup, cell),
        designs.get(plan.design).plugin,
        plan,
        setup.spec.game,
        (seed, "persons", unit),
    )
    made = measure(scored, held_claim(setup, cell), redraws=199, crossfit_redraws=1, spreads=False)
    return {
        "records": len(setup.pools["pool"].asked),
        "p": made.p,
        "auc": made.crossfit.value if made.crossfit else None,
        "named": made.named,
    }


def main() -> None:
    """Play all audits, print the table, and keep it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=20)
    audits, started, rows = parser.parse_args().audits, time.monotonic(), []
    for name, generator in GENERATORS.items():
        for unit in ("record", "person"):
            found = [play(1000 + seed, unit, generator) for seed in range(audits)]
            row = {
                "leak": name,
                "unit": unit,
                "audits": audits,
                "found": float(
                    np.mean([one["p"] is not None and one["p"] <= 0.05 for one in found])
                ),
                "crossfit_auc": float(np.mean([one["auc"] for one in found])),
                "named_of_10": float(np.mean([one["named"] for one in found])),
                "records_of_targets": float(np.mean([one["records"] for one in found])),
            }
            print(row, flush=True)
            rows.append(row)
    made = {
        "what": "benchmarks/persons.py",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.platform(),
        "seconds": round(time.monotonic() - started, 1),
        "rows": rows,
    }
    name = f"persons-{datetime.now(UTC):%Y-%m-%d}.json"
    (RESULTS / name).write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
