"""`synthleak selftest`: audits from records to figures on all cores, judged and written down."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import synthleak
from synthleak.analyses.vulnerability import s10_p
from synthleak.audit.setup import Setup, records_at, smaller_cells
from synthleak.audit.steps.disclosures import DISCLOSURES
from synthleak.audit.steps.measurements import contents_of, labelled, lengths_of
from synthleak.audit.steps.observations import scores_of
from synthleak.audit.steps.preconditions import preconditions_of
from synthleak.audit.steps.releases import claim_of, held_claim
from synthleak.audit.steps.work import PROXIES, RELEASES, make_here
from synthleak.core.cell import LEVEL, Cell
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress
from synthleak.core.errors import UserError
from synthleak.core.runtime import Runtime, available_cores
from synthleak.core.store import FolderStore
from synthleak.evidence.table import person_name
from synthleak.metrics.measure import measure
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.membership import round_measurements
from synthleak.metrics.null import holm
from synthleak.metrics.profile import profile, shape_of
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.selftest import checks, games
from synthleak.selftest.checks import Check
from synthleak.selftest.rows import (
    COPIED,
    CROSSFIT_REDRAWS,
    FIRST_SEED,
    LEVELS,
    REDRAWS,
    ROWS,
    Checked,
    Outcome,
    Row,
    check,
    echo_name,
)


def audit(row: Row, seed: int) -> Outcome:
    """Go through all stages once, or once for each of the row's cells and seeds."""
    if row.seeds > 1 and isinstance(row.audit, Check):
        tried = [replace(row, audit=replace(row.audit, draws=draws)) for draws in range(row.seeds)]
        outcomes = [_audit(one, seed) for one in tried]
        p_values = [one.claim_p for one in outcomes]
    else:
        outcomes = [_audit(row, row.cells * seed + number) for number in range(row.cells)]
        p_values = holm([one.claim_p for one in outcomes])
    known = [p for p in p_values if p is not None]
    return replace(outcomes[0], claim_p=min(known, default=None))


def _audit(row: Row, seed: int) -> Outcome:
    """Go through all stages once, with records and chance of this seed."""
    setup = row.audit.setup(seed)
    if row.limit == "stopped" and (split := preconditions_of(setup)) is not None:
        return Outcome(blind_p=split.blind.p)
    (cell,), claim = setup.cells, claim_of if row.audit.as_stated else held_claim
    if row.limit in ("read", "unread"):
        make_here(setup, RELEASES)
        return Outcome(disclosed_p=DISCLOSURES.get(setup, cell).p)
    for instances in setup.spec.game.looks or (setup.spec.game.instances,):
        setup = replace(setup, reached={cell: instances})
        scored = play(setup, row.name, cell)
        figures = measure(
            scored,
            claim(setup, cell),
            redraws=REDRAWS,
            crossfit_redraws=CROSSFIT_REDRAWS,
            spreads=False,
        )
        if figures.p is not None and figures.p <= LEVEL:
            break
    sizes = [figures.p]
    for part in smaller_cells(setup, cell):
        smaller = play(setup, row.name, part)
        sizes.append(measure(smaller, claim(setup, part), redraws=REDRAWS, spreads=False).p)
    scores = scored.scores
    names = [proxy.name for proxy in scores[0].proxies]
    copied = person_name(COPIED) if setup.spec.game.persons else COPIED
    place = names.index(copied) if copied in names else None
    rounds = round_measurements(scores[0].values, scored.observed)
    first, even_p = figures.rows[0].auc, None
    if row.limit in ("even", "uneven"):
        shown, _ = profile(scored, redraws=REDRAWS, draws=2)
        even_p = s10_p(shape_of(shown.v[shown.best]).s10, shown.even_leak)
    return Outcome(
        p=None if None in sizes else max(p for p in sizes if p is not None),
        # That of the largest size says nothing of the smallest one, whose p the row is held to.
        crossfit_p=figures.crossfit.p if figures.crossfit and len(sizes) == 1 else None,
        auc=None if place is None else figures.signals[place].auc,
        tpr=None if place is None else float(rounds.tpr[place]),
        width=(first.high or 0.0) - (first.low or 0.0),
        claim_p=figures.epsilon.p if figures.epsilon else None,
        even_p=even_p,
        **_named(setup, figures),
    )


def play(setup: Setup, name: str, cell: Cell) -> ScoredCell:
    """Make the releases of a cell, look at them, and join scores with labels."""
    make_here(setup, RELEASES, *PROXIES)
    parts = (setup.spec.seed, "selftest", name)
    contents, words = contents_of(setup, cell.pool), lengths_of(setup, cell.pool)
    return labelled(setup, cell, scores_of(setup, cell), parts, contents, words)


def _named(setup: Setup, figures: CellMeasurements) -> dict[str, int]:
    """Count the records that are named at the rate asked for, and those that cannot leak."""
    _, generator = setup.plugins.generators[0]
    spared = generator.spared if isinstance(generator, games.PartialEcho | games.ByHash) else ()
    targets = records_at(setup, setup.pools["pool"].targets)
    named = [targets[row.target].id for row in figures.records if row.named]
    return {"named": len(named), "wrong": sum(name in spared for name in named)}


QUICK, FULL = 20, 400
QUICK_LEVEL = 60
"""Audits of a row that is held to 5%: with fewer, its limit would exceed `LARGEST_LIMIT`."""
LARGEST_LIMIT = 0.15


def audits_of(row: Row, *, full: bool) -> int:
    """Return how many audits a row needs: a limit on false alarms is worth little with few."""
    return FULL if full else QUICK_LEVEL if row.limit in LEVELS else QUICK


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
    def comparison(self) -> str | None:
        """What a cohort gains over lone at equal releases, on `echo` with p = 0.1."""
        rows = {row.row: row for row in self.rows}
        lone, cohort = (rows.get(echo_name(0.1, design)) for design in ("lone", "cohort"))
        if lone is None or cohort is None:
            return None
        return (
            f"at {games.INSTANCES} releases each, echo p = 0.1 is found in {lone.found:.0%} of lone"
            f" and {cohort.found:.0%} of cohort audits, with AUC intervals {lone.auc_interval:.2f}"
            f" and {cohort.auc_interval:.2f} wide"
        )


def report_of(selftest: Selftest) -> dict[str, Any]:
    return {
        "what": "synthleak selftest",
        "version": synthleak.__version__,
        "commit": selftest.commit,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": {"system": platform.platform(), "cores": available_cores()},
        "settings": {
            "targets": games.TARGETS,
            "records": games.RECORDS,
            "instances": games.INSTANCES,
            "redraws": REDRAWS,
            "crossfit_redraws": CROSSFIT_REDRAWS,
            "families": games.FAMILIES,
            "first_seed": FIRST_SEED,
            "checks": {
                "repeated texts": [checks.REPEATED, checks.COPIES],
                "families with repeated texts": checks.EMBEDDED,
                "persons and records each": [checks.PERSONS, checks.EACH],
                "persons and records each, one torn": [checks.TORN_PERSONS, checks.TORN_EACH],
                "persons, records each and asked in games": [games.PEOPLE, games.EACH, games.ASKED],
                "coins": checks.COINS,
                "epsilon": checks.EPSILON,
            },
            "lm": {
                "targets": games.LM_ASKED,
                "records": games.LM_PRIVATE,
                "vocabulary": games.VOCABULARY,
                "hidden": games.HIDDEN,
                **games.TUNING,
            },
        },
        "seconds": round(selftest.seconds, 1),
        "passed": selftest.passed,
        "not_run": selftest.not_run,
        "comparison": selftest.comparison,
        "rows": [asdict(row) for row in selftest.rows],
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
    *,
    full: bool,
    workers: int,
    progress: Progress,
    audits: int | None = None,
    only: Sequence[str] = (),
) -> Selftest:
    """Audit the auditor: `audits` of every row that can be played here.

    Args:
        full: Play 400 of a row instead of 20, or 60 where false alarms are counted.
        workers: How many processes.
        progress: Is told how far it is.
        audits: How many to play of each row, whatever `full` says.
        only: Rows whose name has one of these parts; empty plays all.

    Raises:
        UserError: No row has such a name.
    """
    started, commit = time.monotonic(), _commit()
    wanted = [row for row in ROWS if not only or any(part in row.name for part in only)]
    if not wanted:
        raise UserError(
            f"no row is named like {only[0]!r}",
            "--only",
            "use a part of a name that `synthleak selftest` prints, such as 'lone'",
        )
    reasons = {row.name: row.missing for row in wanted}
    not_run = {name: reason for name, reason in reasons.items() if reason is not None}
    played = {
        number: row for number, row in enumerate(ROWS) if row in wanted and row.name not in not_run
    }
    with tempfile.TemporaryDirectory(prefix="synthleak-selftest-") as folder:
        store = FolderStore(folder)
        seeds = {
            number: range(FIRST_SEED, FIRST_SEED + (audits or audits_of(row, full=full)))
            for number, row in played.items()
        }
        units = [(row, seed) for row in played for seed in seeds[row]]
        # joblib replaces a worker that has grown by 300 MB since its first unit. Rows that load
        # torch come first, or it would be loaded again and again.
        units.sort(key=lambda unit: not played[unit[0]].needs_llm)
        run_units(
            play_one,
            store,
            units,
            runtime=Runtime(workers=workers),
            progress=progress,
            title="audits",
        )
        outcomes = [
            [Outcome(**json.loads(store.get(_place(row, seed)))) for seed in seeds[row]]
            for row in played
        ]
    judged = list(zip(played.values(), outcomes, strict=True))
    chance = {row.game: results for row, results in judged if row.by_chance}
    rows = [check(row, results, chance.get(row.game, ())) for row, results in judged]
    return Selftest(rows, time.monotonic() - started, commit, not_run)


def play_one(store: FolderStore, unit: tuple[int, int]) -> int:
    """Play one audit, of a row and a seed, and keep its outcome."""
    row, seed = unit
    store.put(_place(row, seed), json.dumps(audit(ROWS[row], seed).__dict__).encode())
    return 1


def _place(row: int, seed: int) -> str:
    return f"outcome/{row}-{seed}.json"
