"""Does the proxy family `lm` hold the null, and what does it see beside the other proxies?

Plays the rows of `synthleak selftest` in which `lm` is the only family, with the seeds of the
self-test. Then it plays echoes of the same size with p = 0.5, on which all 32 other proxies look at
the same releases. A tiny model with random weights, on a CPU.

    python benchmarks/lm_level.py             # 200 audits a row, 40 echoes; writes results/
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.core.runtime import single_threaded
from synthleak.evidence.table import chosen_families
from synthleak.selftest.games import LanguageModelGame
from synthleak.selftest.rows import FIRST_SEED, ROWS, check
from synthleak.selftest.running import audit, play

RESULTS = Path(__file__).parent / "results"
P = 0.5


def best_aucs(seed: int) -> dict[str, float]:
    """Play one echo, and return the best AUC over scenarios of `lm` and of the 32 others."""
    setup = LanguageModelGame("cohort", "echo", {"p": P}).setup(seed)
    families = (*chosen_families("all"), *setup.plugins.families)
    setup = replace(setup, plugins=replace(setup.plugins, families=families))
    scored = play(setup, "lm beside others")
    aucs = scored.comparison.statistics([scored.observed]).auc[0]
    own = np.array([proxy.family == "lm" for table in scored.scores for proxy in table.proxies])
    return {"lm": float(aucs[own].max()), "others": float(aucs[~own].max())}


def played(
    title: str, one: Callable[[int], Any], audits: int
) -> tuple[list[Any], dict[str, float]]:
    """Play audits in one thread, and return what they gave and their CPU seconds.

    The first one, which also loads torch and makes the model, is timed apart.
    """
    made, seconds = [], []
    for seed in range(FIRST_SEED, FIRST_SEED + audits):
        began = time.process_time()
        with single_threaded():
            made.append(one(seed))
        seconds.append(time.process_time() - began)
        if len(made) % 20 == 0:
            print(f"{title}: {len(made)} of {audits}", flush=True)
    return made, {
        "first_cpu_seconds": round(seconds[0], 2),
        "cpu_seconds_per_audit": round(float(np.mean(seconds[1:])), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--audits", type=int, default=200)
    parser.add_argument("--echoes", type=int, default=40)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    rows = []
    for row in ROWS:
        if isinstance(row.audit, LanguageModelGame):
            outcomes, times = played(row.name, lambda seed, row=row: audit(row, seed), args.audits)
            rows.append(asdict(check(row, outcomes, ())) | times)
            print(json.dumps(rows[-1], ensure_ascii=False), flush=True)
    aucs, times = played(f"echo p = {P}", best_aucs, args.echoes)
    found = {name: [row[name] for row in aucs] for name in ("lm", "others")}
    beside = {
        "audits": args.echoes,
        "p": P,
        "mean_best_auc": float(np.mean(found["lm"])),
        "mean_best_auc_of_the_32_others": float(np.mean(found["others"])),
        **times,
    }
    print(json.dumps(beside), flush=True)
    date = datetime.now(UTC).date().isoformat()
    made = {"date": date, "first_seed": FIRST_SEED, "rows": rows, "echo": beside}
    out = args.out or RESULTS / f"lm_level-{date}.json"
    out.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
