"""How far an audit is, and the audits that are at their end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthleak.audit.result import Audit, open_run
from synthleak.audit.steps.observations import all_evidence_keys
from synthleak.audit.steps.releases import (
    header_of,
    release_name,
    wanted_sets,
)
from synthleak.core.errors import UserError
from synthleak.core.store import name_of


@dataclass(frozen=True)
class Status:
    """How far an audit is."""

    cells: list[dict[str, Any]]
    summary: str
    finished: bool = False


def open_finished(out: Path | str) -> Audit:
    """Open the audit of a run folder that has run to its end; any other is refused."""
    audit = open_run(out)
    state = _status(audit)
    if not state.finished:
        raise UserError(state.summary.partition(":")[0], str(out), "finish it with `run` first")
    return audit


def status(out: Path | str) -> Status:
    """Say how far the audit of a run folder is, per cell; it may be running."""
    return _status(open_run(out))


def _status(audit: Audit) -> Status:
    setup, rows = audit.setup, []
    for cell in setup.cells:
        sets = wanted_sets(setup, cell)
        there = [s for _, s in sets if setup.store.exists(release_name(setup, cell, s))]
        looked = sum(
            all(
                setup.store.exists(name_of("evidence", key))
                for key in all_evidence_keys(setup, cell.pool, header_of(setup, cell, item).text)
            )
            for item in there
        )
        rows.append(
            {
                "pool": cell.pool,
                "generator": cell.generator,
                "epsilon": cell.epsilon,
                "releases": len(there),
                "looked_at": looked,
                "of": len(sets),
            }
        )
    whole = all(row["looked_at"] == row["of"] for row in rows)
    done = whole and audit.results_are_current()
    unfinished = "evidence is whole, results are not written" if whole else "not finished"
    said = "finished" if done else f"{unfinished}: run it again to go on"
    return Status(rows, said, done)
