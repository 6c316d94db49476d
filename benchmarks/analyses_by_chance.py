"""False alarms of the analyses: whole audits of generators that ignore their data.

Each audit has a selected pool, three random controls and two generators that ignore their private
sets (`bystander`, and an `echo` that copies nothing), so there is nothing for any analysis to find.
Alarms at 5% are counted: shares of cells for tests per cell, shares of audits for tests that Holm
adjusts over a study. None may lie above the 99.9% point of the binomial.

    python benchmarks/analyses_by_chance.py [--audits 40] [--design lone] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from scipy.stats import binom

from analyses import put_measurements
from synthleak.audit.folder import RunFolder
from synthleak.audit.result import Audit
from synthleak.audit.stages import set_up
from synthleak.audit.steps.work import EVIDENCE, make_missing_releases
from synthleak.core.engine.progress import Silent
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, parse_spec

LEVEL = 0.05


def spec_of(design: str, seed: int) -> LoadedSpec:
    return LoadedSpec(
        parse_spec(
            {
                "seed": seed,
                "corpus": {"reader": "demo", "size": 500, "seed": seed},
                "encoders": {"pools": "hashing", "evidence": "hashing"},
                "pool": [
                    {"name": "outlier", "rule": "outlier", "percentile": 80, "size": 16},
                    {"name": "random", "rule": "random", "match": "outlier"},
                ],
                "game": {
                    "design": design,
                    "instances": 40 if design == "lone" else 20,
                    "records": 80,
                    "rounds": 20,
                    "candidates": 8,
                },
                "generator": [{"kind": "bystander"}, {"kind": "echo", "p": 0}],
                "evidence": {"families": ["char_overlap", "cos"]},
                "prior": [],
            }
        )
    )


def audited(loaded: LoadedSpec, folder: Path) -> Audit:
    """Run an audit up to its evidence; measure with few redraws, since analyses only copy these."""
    run = RunFolder(folder)
    setup = set_up(loaded, run.store)
    runtime, progress = Runtime(workers=1), Silent()
    make_missing_releases(setup, runtime, progress)
    for work in EVIDENCE:
        work.make(setup, runtime, progress)
    for cell in setup.cells:
        put_measurements(setup, cell)
    return Audit(setup, run)


def alarms(audit: Audit) -> tuple[Counter[str], Counter[str]]:
    """Return the alarms of an audit, and the number of tests."""
    rows = {outcome.name: outcome.rows for outcome in audit.outcomes}
    found: Counter[str] = Counter()
    asked: Counter[str] = Counter()

    def count(name: str, said: list[bool]) -> None:
        found[name] += sum(said)
        asked[name] += len(said)

    spread = rows["vulnerability"]
    count("S10 above even leak", [(row.s10_p_even or 1) <= LEVEL for row in spread])
    count("mean |V| above no leak", [row.mean_abs_v > row.null_abs_high for row in spread])
    count("attribute, unadjusted", [(r.p_value or 1) <= LEVEL for r in rows["attributes"]])
    combined = [r for r in rows["attributes_combined"] if r.p_value and r.selection == "split80"]
    count("attribute combined, unadjusted", [r.p_value <= LEVEL for r in combined])
    gaps = [row for row in rows["control_gap"] if row.p_value is not None]
    count("gap, unadjusted", [row.p_value <= LEVEL for row in gaps])
    spreads = [row for row in rows["control_gap"] if row.gap_spread]
    count("the paper's gap interval", [abs(row.gap) > row.gap_spread for row in spreads])
    between = [row for row in rows["consistency"] if row.across == "generators"]
    count("consistency of generators", [(row.p_value or 1) <= LEVEL for row in between])
    for name in ("attributes", "control_gap", "consistency"):
        some = between if name == "consistency" else rows[name]
        count(f"any {name} after Holm", [any((r.p_holm or 1) <= LEVEL for r in some)])
    return found, asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--audits", type=int, default=40)
    parser.add_argument("--design", default="lone", choices=("lone", "cohort"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    found: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    started = time.perf_counter()
    for seed in range(arguments.audits):
        with tempfile.TemporaryDirectory(prefix="synthleak-chance-") as folder:
            some, whole = alarms(audited(spec_of(arguments.design, seed), Path(folder)))
            found, asked = found + some, asked + whole
    result = {
        "what": f"{arguments.audits} audits of bystander and echo with p = 0, {arguments.design}",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "load": os.getloadavg()[0]},
        "seconds": round(time.perf_counter() - started, 1),
        "alarms": {
            name: {
                "share": round(found[name] / count, 3),
                "of": count,
                "limit": round(float(binom.ppf(0.999, count, LEVEL)) / count, 3),
            }
            for name, count in asked.items()
        },
    }
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
