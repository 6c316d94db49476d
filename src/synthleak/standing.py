"""How far an audit is, and the audits that are at their end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from synthleak.errors import UserError
from synthleak.findings import Audit, findings_key, open_run
from synthleak.store import name_of
from synthleak.work.observations import all_evidence_keys
from synthleak.work.releases import (
    header_of,
    release_name,
    wanted_sets,
)


@dataclass(frozen=True)
class Standing:
    """How far an audit is."""

    cells: list[dict[str, Any]]
    summary: str
    finished: bool = False


def open_finished(out: Path | str) -> Audit:
    """Open the audit of a run folder that has run to its end; any other is refused."""
    audit = open_run(out)
    state = _standing(audit)
    if not state.finished:
        raise UserError(state.summary.partition(":")[0], str(out), "finish it with `run` first")
    return audit


def standing(out: Path | str) -> Standing:
    """Say how far the audit of a run folder is, per cell; it may be running."""
    return _standing(open_run(out))


def _standing(audit: Audit) -> Standing:
    bench, rows = audit.bench, []
    for cell in bench.cells:
        sets = wanted_sets(bench, cell)
        there = [s for _, s in sets if bench.store.exists(release_name(bench, cell, s))]
        looked = sum(
            all(
                bench.store.exists(name_of("evidence", key))
                for key in all_evidence_keys(bench, cell.pool, header_of(bench, cell, item).text)
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
    done = whole and audit.folder.holds(findings_key(audit))
    unfinished = "evidence is whole, results are not written" if whole else "not finished"
    said = "finished" if done else f"{unfinished}: run it again to go on"
    return Standing(rows, said, done)
