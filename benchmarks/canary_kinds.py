"""Canaries by kind: what finds a channel beside the mechanism, and the level of `marker`.

Plays the rows of the self-test that are about marks, at the self-test's sizes, and then the rows
without a leak with `marker` alone, whose values are mostly 0 and 1.

    python benchmarks/canary_kinds.py [--audits 200] [--workers 2] [--out FILE]
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import synthleak
from synthleak.audit.setup import Setup
from synthleak.evidence.models.marker import Marker
from synthleak.selftest.rows import FIRST_SEED, ROWS, Outcome, Row, binomial_limit, check
from synthleak.selftest.running import audit, audits_of
from synthleak.selftest.side_channels import MarkedGame

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True)
class MarkerAlone(MarkedGame):
    """A game that is judged by `marker` and nothing else."""

    def setup(self, seed: int) -> Setup:
        """Set up the game, and put `marker` in the place of the other families."""
        setup = super().setup(seed)
        return replace(setup, plugins=replace(setup.plugins, families=(Marker().family(),)))


def played(row: Row, audits: int, workers: Executor) -> list[Outcome]:
    """Play a row on the seeds of the self-test."""
    return list(workers.map(partial(audit, row), range(FIRST_SEED, FIRST_SEED + audits)))


def counts(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Count leaks that were found, alarms of the deployable figure, and claims broken."""
    return {
        "audits": len(outcomes),
        "leak found": sum(one.p is not None and one.p <= 0.05 for one in outcomes),
        "deployable": sum(
            one.crossfit_p is not None and one.crossfit_p <= 0.05 for one in outcomes
        ),
        "claim broken": sum(one.broken for one in outcomes),
    }


def main() -> None:
    """Play the rows, and write how often each found something."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--audits", type=int, default=200, help="of each row with marker alone")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=RESULTS / "canary-kinds.json")
    options = parser.parse_args()
    rows = [(row, row.audit) for row in ROWS if isinstance(row.audit, MarkedGame)]
    made: dict[str, Any] = {
        "what": "canaries by kind: rows of the self-test, and marker alone where nothing leaks",
        "command": f"python benchmarks/canary_kinds.py --audits {options.audits}",
        "version": synthleak.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "rows": [],
        "marker alone": [],
    }
    with ProcessPoolExecutor(options.workers) as workers:
        for row, _ in rows:
            outcomes = played(row, audits_of(row, full=False), workers)
            judged = asdict(check(row, outcomes, ()))
            made["rows"].append(judged | counts(outcomes))
            print(json.dumps(made["rows"][-1], ensure_ascii=False), flush=True)
        for row, game in rows:
            if game.generator == "bystander":
                alone = replace(row, audit=MarkerAlone(**vars(game)))
                limit = binomial_limit(options.audits)
                found = counts(played(alone, options.audits, workers))
                made["marker alone"].append({"row": row.name, **found, "at most": limit})
                print(json.dumps(made["marker alone"][-1], ensure_ascii=False), flush=True)
    options.out.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
