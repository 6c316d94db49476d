"""What is done with audits that were run: how far each is, its page again, several at once.

Several audits are given as `Audit`s, run folders, or pairs of a name and one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from synthleak.analyses.analysis import Outcome, analyses, join_studies, outcomes_of
from synthleak.audit.folder import REPORT, first_of
from synthleak.audit.kept_results import are_current
from synthleak.audit.result import Audit, open_run
from synthleak.audit.setup import game_of, smaller_cells
from synthleak.audit.steps import observations
from synthleak.audit.steps.releases import is_made, missing_releases, wanted_sets
from synthleak.audit.steps.work import MEASUREMENTS, META, is_decided
from synthleak.core.engine.progress import Progress, progress_of, rounded
from synthleak.core.errors import UserError
from synthleak.core.locations import Location, Url
from synthleak.core.private_files import Running, running_in
from synthleak.core.runtime import Runtime
from synthleak.core.store import name_of, until_whole
from synthleak.report.compare import Compared
from synthleak.report.compare import compare as compare_results


@dataclass(frozen=True)
class Status:
    """How far an audit is."""

    cells: list[dict[str, Any]]
    summary: str
    finished: bool = False


def open_finished(
    out: Location | str, *, but: Sequence[str] = (), trust_plugins: bool = False
) -> Audit:
    """Open the audit of a run folder that has run to its end, unaltered `but` for some files."""
    audit = open_run(out, trust_plugins=trust_plugins)
    state = _status(audit, but)
    if not state.finished:
        raise UserError(state.summary.partition(":")[0], str(out), "finish it with `run` first")
    return audit


def status(out: Location | str) -> Status:
    """Say how far the audit of a run folder is, per cell; it may be running, and until when.

    Nothing is written.

    What the store has lost since the audit was finished is named: `run` rebuilds it. The results
    can be read meanwhile.
    """
    audit = open_run(out, keep=False)
    state = _status(audit)
    run = running_in(audit.folder.root)
    if run is not None:
        return replace(state, summary=_said_of(run), finished=False)
    lost = audit.folder.missing()
    if not lost:
        return state
    summary = f"missing in the store: {first_of(lost)}; run it again to rebuild what is needed"
    if not state.finished:
        summary = f"{state.summary}; {summary}"
    return replace(state, summary=summary, finished=False)


def _said_of(run: Running) -> str:
    """Say which process works in a folder, how far it is and how long it will take.

    >>> note = {"stage": "releases", "done": 3, "of": 40, "left": 721.0, "meaning": "left in all"}
    >>> _said_of(Running("process 993", note))
    'running, process 993, about 12 min left (releases: 3 of 40)'
    """
    note = run.progress
    if not note:
        return f"running, {run.process}"
    left = max(0.0, note["left"] - (time.time() - note.get("at", time.time())))
    meaning = note["meaning"].removesuffix(" in all")
    words = f", about {rounded(left)} {meaning}" * bool(meaning)
    return f"running, {run.process}{words} ({note['stage']}: {note['done']:,} of {note['of']:,})"


def _status(audit: Audit, but: Sequence[str] = ()) -> Status:
    setup, rows = audit.setup, []
    for cell in setup.cells:
        sets, game = wanted_sets(setup, cell), game_of(setup, cell)
        made_sets = [s for _, s in sets if is_made(setup, cell, s)]
        n_looked_at = sum(
            all(
                setup.store.exists(name_of("evidence", key))
                for part in (cell, *smaller_cells(setup, cell))
                for key in observations.all_evidence_keys(
                    setup, cell.pool, observations.observed_release(setup, part, item).key
                )
            )
            for item in made_sets
        )
        rows.append(
            {
                "pool": cell.pool,
                "generator": cell.generator,
                "epsilon": cell.epsilon,
                "releases": len(made_sets),
                "looked_at": n_looked_at,
                "of": len(sets),
                **({"look": f"{len(game.blocks)} of {len(game.looks)}"} if game.looks else {}),
            }
        )
    whole = all(row["looked_at"] == row["of"] for row in rows)
    # Results say by their key which releases and evidence they are of, and need neither to be read.
    all_made = whole or all(row["releases"] == row["of"] for row in rows)
    done = all_made and are_current(setup, audit.folder, but)
    altered = [name for name in audit.folder.altered() if name not in but]
    if not whole or not is_decided(setup):
        unfinished = "not finished"
    elif altered:
        unfinished = f"results are not written or were altered since ({', '.join(altered)})"
    else:
        unfinished = "evidence is whole, results are not written"
    summary = "finished" if done else f"{unfinished}: run it again to continue"
    return Status(rows, summary, done)


def write_report(
    out: Location | str, path: Path | str | None = None, *, include_text: bool = False
) -> Location:
    """Write the page of a finished audit again (`Audit.write_report`), and return where it lies."""
    audit = open_finished(out, but=[REPORT])  # the page itself is written again
    return audit.write_report(path, include_text=include_text)


AnyAudit = Audit | Location | str
Source = AnyAudit | tuple[str, AnyAudit]


def named_audits(
    sources: Sequence[Source] | AnyAudit,
    open_folder: Callable[[Location | str], Audit] = open_finished,
) -> list[tuple[str, Audit]]:
    """Open what is not open yet, and name each audit: as given, or after its folder.

    Folders of one name are told apart by their paths.
    """
    listed = [sources] if isinstance(sources, Audit | Path | Url | str) else list(sources)
    pairs = [one if isinstance(one, tuple) else (None, one) for one in listed]
    for _, one in pairs:
        if not isinstance(one, Audit | Path | Url | str):
            raise UserError(
                f"a {type(one).__name__} is not an audit",
                remedy="give audits, run folders, or pairs of a name and one of them",
            )
    audits = [one if isinstance(one, Audit) else open_folder(one) for _, one in pairs]
    folders = [audit.folder.root for audit in audits]
    short = [folder.resolve().name for folder in folders]
    known = short if len(set(short)) == len(short) else [str(folder) for folder in folders]
    names = [name or other for (name, _), other in zip(pairs, known, strict=True)]
    return list(zip(names, audits, strict=True))


def compare(audits: Sequence[Source] | AnyAudit, *others: Source) -> Compared:
    """Put audits side by side; the first is what the others are compared with.

    Args:
        audits: Audits, run folders, or pairs of a name and one of them; or the first of them.
        others: The others, if they are given one by one.

    Returns:
        The comparison: its tables, and a page.

    Raises:
        UserError: If one of them is not finished, or there is only one.

    >>> import synthleak
    >>> synthleak.compare(["runs/without-dp", "runs/with-dp"])  # doctest: +SKIP
    >>> synthleak.compare("runs/without-dp", "runs/with-dp")  # doctest: +SKIP
    """
    named = named_audits([cast(Source, audits), *others] if others else audits)
    if len(named) < 2:
        raise UserError("one audit alone cannot be compared", "compare", "name two or more")
    return compare_results([(name, audit.results) for name, audit in named])


def analyse(
    audits: Sequence[Source] | AnyAudit,
    *,
    only: Sequence[str] = (),
    also: Sequence[str] = (),
    runtime: Runtime | None = None,
    progress: Progress | bool | None = None,
) -> list[Outcome]:
    """Run the analyses on one audit, or on several joined into one study.

    What they need and a folder's store does not hold is made there, so long as its evidence is
    whole.

    Args:
        audits: Run folders, opened audits, or pairs of a name and one of them.
        only: The analyses to run. By default all that take seconds, and those that specs name.
        also: Further analyses to run.
        runtime: Where the work is done.
        progress: What is told how far the work is; False: nobody.

    Returns:
        What every analysis says, or what it lacks.

    Raises:
        UserError: If an audit is not finished, or there is no such analysis.
    """
    runtime, progress = runtime or Runtime(), progress_of(progress)
    for option, names in (("--only", only), ("--also", also)):
        for name in names:
            analyses.get(name, option)
    studies, asked = [], [*also]
    for _, audit in named_audits(audits, open_run):
        folder, setup = str(audit.folder.root), audit.setup
        whole = not (
            missing_releases(setup)
            or observations.missing_evidence(setup)
            or observations.missing_models(setup)
        )
        if not whole or not is_decided(setup):
            raise UserError("the audit is not finished", folder, "finish it with `run` first")
        wanted = {*only, *also} if only else {*also, *setup.spec.analyses.also}
        works = (*MEASUREMENTS, META) if META.title in wanted else MEASUREMENTS
        for attempt in until_whole(setup.store):
            with attempt:
                for work in works:
                    work.make(setup, runtime, progress)
        asked += wanted
        studies.append((folder, audit.study))
    return outcomes_of(join_studies(studies), only=only, also=asked)
