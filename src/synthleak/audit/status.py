"""How far an audit is, and the audits that are at their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from synthleak.audit.kept_results import are_current
from synthleak.audit.result import Audit, open_run
from synthleak.audit.steps.looks import is_decided
from synthleak.audit.steps.observations import all_evidence_keys
from synthleak.audit.steps.releases import header_of, is_made, wanted_sets
from synthleak.audit.verification import first_of
from synthleak.core.errors import UserError
from synthleak.core.places import Place
from synthleak.core.store import name_of


@dataclass(frozen=True)
class Status:
    """How far an audit is."""

    cells: list[dict[str, Any]]
    summary: str
    finished: bool = False


def open_finished(
    out: Place | str, *, but: Sequence[str] = (), trust_plugins: bool = False
) -> Audit:
    """Open the audit of a run folder that has run to its end, unaltered `but` for some files."""
    audit = open_run(out, trust_plugins=trust_plugins)
    state = _status(audit, but)
    if not state.finished:
        raise UserError(state.summary.partition(":")[0], str(out), "finish it with `run` first")
    return audit


def status(out: Place | str) -> Status:
    """Say how far the audit of a run folder is, per cell; it may be running. Nothing is written.

    What the store has lost since the audit was finished is named: `run` rebuilds it. The results
    can be read meanwhile.
    """
    audit = open_run(out, keep=False)
    state, lost = _status(audit), audit.folder.missing()
    if not lost:
        return state
    said = f"missing in the store: {first_of(lost)}; run it again to rebuild what is needed"
    if not state.finished:
        said = f"{state.summary}; {said}"
    return replace(state, summary=said, finished=False)


def _status(audit: Audit, but: Sequence[str] = ()) -> Status:
    setup, rows = audit.setup, []
    for cell in setup.cells:
        sets, game = wanted_sets(setup, cell), setup.game_of(cell)
        there = [s for _, s in sets if is_made(setup, cell, s)]
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
                **({"look": f"{len(game.blocks)} of {len(game.looks)}"} if game.looks else {}),
            }
        )
    whole = all(row["looked_at"] == row["of"] for row in rows)
    # Results say by their key which releases and evidence they are of, and need neither to be read.
    made = whole or all(row["releases"] == row["of"] for row in rows)
    done = made and are_current(setup, audit.folder, but)
    altered = [name for name in audit.folder.altered() if name not in but]
    if not whole or not is_decided(setup):
        unfinished = "not finished"
    elif altered:
        unfinished = f"results are not written or were altered since ({', '.join(altered)})"
    else:
        unfinished = "evidence is whole, results are not written"
    said = "finished" if done else f"{unfinished}: run it again to continue"
    return Status(rows, said, done)
