"""How long the null of a full cell takes, and the same by scikit-learn.

A cell of 96 signals, 60 targets and 100 instances in design `lone`: 2,000 redraws of the coins, AUC
in every round and the tail for every signal. The bound is 10 seconds on 2 cores; this uses one.
scikit-learn's roc_auc_score is timed on some rounds, checked to agree, and scaled up.

    python benchmarks/nulls.py [--redraws 2000] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from sklearn.metrics import roc_auc_score

from synthleak.core.runtime import available_cores
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.metrics.membership import Assignment, ranks_of, redraw_assignments
from synthleak.metrics.verdict_statistics import pool_statistics
from synthleak.metrics.within_records import record_statistics
from synthleak.plan.plan import designs
from synthleak.pools.pool import Pool

TARGETS, SIGNALS, SECONDS = 60, 96, 10.0
POOL = Pool("p", tuple(range(60)), ("p",) * 60, tuple(range(60, 760)), tuple(range(760, 1460)))


def assignments_of(design: str, redraws: int) -> list[Assignment]:
    game = GameSection(design=design, records=400)
    plugin = designs.get(design).plugin
    return redraw_assignments(plugin, plugin.draw(POOL, game, 1), game, stream(1, design), redraws)


def peer(values: np.ndarray, assignment: Assignment, signals: int) -> tuple[np.ndarray, float]:
    """Mean AUC over rounds by scikit-learn for some signals, and the seconds it took."""
    started = time.perf_counter()
    truth = np.repeat([1, 0], [len(assignment.members), assignment.others.shape[1]])
    found = [
        np.mean(
            [
                roc_auc_score(truth, values[np.concatenate([assignment.members, others]), signal])
                for others in assignment.others
            ]
        )
        for signal in range(signals)
    ]
    return np.array(found), time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--redraws", type=int, default=2000)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    values = stream(2).normal(size=(100 * TARGETS, SIGNALS))

    started = time.perf_counter()
    assignments = assignments_of("lone", arguments.redraws)
    made = pool_statistics(ranks_of(values), assignments)
    lone = time.perf_counter() - started

    started = time.perf_counter()
    record_statistics(
        values.reshape(100, TARGETS, SIGNALS), assignments_of("cohort", arguments.redraws)
    )
    cohort = time.perf_counter() - started

    expected, took = peer(values, assignments[0], 4)
    assert np.abs(made.auc[0, :4] - expected).max() < 1e-12
    by_peer = took / 4 * SIGNALS * arguments.redraws
    result = {
        "what": f"{arguments.redraws} redraws, {SIGNALS} signals, {TARGETS} targets, 100 instances",
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": available_cores()},
        "lone_seconds": round(lone, 2),
        "cohort_seconds": round(cohort, 2),
        "bound_seconds": SECONDS,
        "peer": "scikit-learn roc_auc_score per round, scaled up; AUC only",
        "peer_seconds": round(by_peer),
        "times_faster": round(by_peer / lone),
    }
    print(json.dumps(result, indent=1))
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
