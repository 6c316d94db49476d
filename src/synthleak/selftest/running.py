"""`synthleak selftest`: all rows played on all cores, judged, and written down."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import synthleak
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress
from synthleak.core.runtime import available_cores
from synthleak.core.store import FolderStore
from synthleak.selftest import checks, language_model, persons
from synthleak.selftest.games import FAMILIES, INSTANCES, RECORDS, TARGETS
from synthleak.selftest.judging import LEVELS, Checked, check
from synthleak.selftest.playing import audit
from synthleak.selftest.rows import (
    CROSSFIT_REDRAWS,
    FIRST_SEED,
    REDRAWS,
    ROWS,
    Outcome,
    Row,
    echo_name,
)

QUICK, FULL = 20, 400
QUICK_LEVEL = 60
"""Audits of a row that is held to 5%: with fewer, its limit would exceed `LARGEST_LIMIT`."""
LARGEST_LIMIT = 0.15


def audits_of(row: Row, *, full: bool) -> int:
    """Return how many audits a row needs: a limit on false alarms is worth little with few."""
    return FULL if full else QUICK_LEVEL if row.limit in LEVELS else QUICK


@dataclass(frozen=True)
class Ground:
    """What workers share: where outcomes go."""

    store: FolderStore


@dataclass(frozen=True)
class Unit:
    """One audit of one row."""

    row: int
    seed: int


@dataclass(frozen=True)
class Selftest:
    """All rows, judged, how long they took, and the commit they were started from.

    `not_run` are the rows that could not be played here, each with the reason.
    """

    rows: list[Checked]
    seconds: float
    commit: str | None = None
    not_run: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every row that was played kept its limit."""
        return all(row.passed for row in self.rows)

    @property
    def comparison(self) -> str:
        """What a cohort gains over lone at equal releases, on `echo` with p = 0.1."""
        lone, cohort = (
            next(row for row in self.rows if row.row == echo_name(0.1, design))
            for design in ("lone", "cohort")
        )
        return (
            f"at {INSTANCES} releases each, echo p = 0.1 is found in {lone.found:.0%} of lone and"
            f" {cohort.found:.0%} of cohort audits, with AUC intervals {lone.auc_interval:.2f} and"
            f" {cohort.auc_interval:.2f} wide"
        )


def report_of(made: Selftest) -> dict[str, Any]:
    """Return a selftest for a file: date, commit, machine, rows."""
    return {
        "what": "synthleak selftest",
        "version": synthleak.__version__,
        "commit": made.commit,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": available_cores()},
        "settings": {
            "targets": TARGETS,
            "records": RECORDS,
            "instances": INSTANCES,
            "redraws": REDRAWS,
            "crossfit_redraws": CROSSFIT_REDRAWS,
            "families": FAMILIES,
            "first_seed": FIRST_SEED,
            "checks": {
                "repeated texts": [checks.REPEATED, checks.COPIES],
                "families with repeated texts": checks.EMBEDDED,
                "persons and records each": [checks.PERSONS, checks.EACH],
                "persons and records each, one torn": [checks.TORN_PERSONS, checks.TORN_EACH],
                "persons, records each and asked in games": [
                    persons.PEOPLE,
                    persons.EACH,
                    persons.ASKED,
                ],
                "coins": checks.COINS,
                "epsilon": checks.EPSILON,
            },
            "lm": {
                "targets": language_model.ASKED,
                "records": language_model.PRIVATE,
                "vocabulary": language_model.VOCABULARY,
                "hidden": language_model.HIDDEN,
                **language_model.TUNING,
            },
        },
        "seconds": round(made.seconds, 1),
        "passed": made.passed,
        "not_run": made.not_run,
        "comparison": made.comparison,
        "rows": [asdict(row) for row in made.rows],
    }


def _commit() -> str | None:
    """Return the commit of the source, where it is a checkout."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run(
        [git, "-C", str(Path(__file__).parent), "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.strip() or None


def run_selftest(
    *, full: bool, workers: int, progress: Progress, audits: int | None = None
) -> Selftest:
    """Audit the auditor: `audits` of every row that can be played here.

    Without it 20 of a row, 60 where false alarms are counted, and 400 in full.
    """
    started, commit = time.monotonic(), _commit()
    reasons = {row.name: row.missing for row in ROWS}
    not_run = {name: reason for name, reason in reasons.items() if reason is not None}
    played = {number: row for number, row in enumerate(ROWS) if row.name not in not_run}
    with tempfile.TemporaryDirectory(prefix="synthleak-selftest-") as folder:
        ground = Ground(FolderStore(folder))
        seeds = {
            number: range(FIRST_SEED, FIRST_SEED + (audits or audits_of(row, full=full)))
            for number, row in played.items()
        }
        units = [Unit(row, seed) for row in played for seed in seeds[row]]
        # joblib replaces a worker that has grown by 300 MB since its first unit. Rows that load
        # torch come first, or it would be loaded again and again.
        units.sort(key=lambda unit: played[unit.row].needs is None)
        run_units(
            play_one,
            ground,
            units,
            workers=workers,
            progress=progress,
            title="audits",
            steps=len(units),
        )
        outcomes = [
            [Outcome(**json.loads(ground.store.get(_place(row, seed)))) for seed in seeds[row]]
            for row in played
        ]
    judged = list(zip(played.values(), outcomes, strict=True))
    chance = {row.game: made for row, made in judged if row.by_chance}
    rows = [check(row, made, chance.get(row.game, ())) for row, made in judged]
    return Selftest(rows, time.monotonic() - started, commit, not_run)


def play_one(ground: Ground, unit: Unit) -> int:
    """Play one audit and keep its outcome."""
    outcome = audit(ROWS[unit.row], unit.seed)
    ground.store.put(_place(unit.row, unit.seed), json.dumps(outcome.__dict__).encode())
    return 1


def _place(row: int, seed: int) -> str:
    return f"outcome/{row}-{seed}.json"
