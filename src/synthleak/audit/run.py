"""The corridor: data walks through the rooms, each once, in one direction.

corpus → pools → plan → releases → evidence → calibration → metrics → analyses → report
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from synthleak.analyses.analysis import Outcome, analyses, join_studies, outcomes_of
from synthleak.audit.folder import CONFIDENTIAL, REPORT, RESULTS, RunFolder
from synthleak.audit.result import Audit, open_run, results_key
from synthleak.audit.setup import Setup, set_up
from synthleak.audit.status import open_finished
from synthleak.audit.steps.observations import missing_evidence
from synthleak.audit.steps.releases import (
    check_awaited,
    check_generators,
    make_releases,
    missing_releases,
    wanted_sets,
)
from synthleak.audit.steps.stages import FOR_ANALYSES, FUSION, STAGES, Stage
from synthleak.checks.preconditions import examine
from synthleak.core.engine.local import run_units
from synthleak.core.engine.progress import Progress, Silent, duration
from synthleak.core.errors import UserError
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, Spec, load_spec
from synthleak.core.store import StagedStore
from synthleak.report.html import render
from synthleak.report.tables import result_files


def run(
    spec: Spec | LoadedSpec | Path | str,
    out: Path | str,
    *,
    extend: bool = False,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Walk the whole corridor and leave a run folder.

    What the folder already holds is not made again. A folder that belongs to another spec is
    refused unless `extend` is set, which says what is new.
    """
    runtime, progress = runtime or Runtime(), progress or Silent()
    started = time.monotonic()
    folder = RunFolder(Path(out))
    staged = StagedStore(folder.store)
    setup = set_up(_loaded(spec), staged)
    setup.plugins.encoder.check()
    news = folder.admit(setup, extend=extend)
    check_generators(setup)
    examine(setup)
    folder.begin(setup, new=news is not None)
    staged.commit()
    setup = replace(setup, store=folder.store)
    made = fill(setup, runtime, progress, news or [])
    audit = Audit(setup, folder)
    findings = results_key(audit)
    cells = f"{len(setup.cells)} cell" + "s" * (len(setup.cells) != 1)
    if not made and folder.holds(findings):
        progress.say(f"nothing to do: {folder.root} is up to date ({cells})")
        return audit
    files = written(audit)
    for name, data in files.items():
        folder.write(name, data)
    folder.finish(setup, findings, sorted(files), seconds=time.monotonic() - started)
    progress.say(
        f"{cells} in {duration(time.monotonic() - started)}: "
        f"see {folder.root / REPORT} and {folder.root / RESULTS}"
    )
    return audit


def written(audit: Audit) -> dict[str, bytes]:
    """Return the files that a finished audit leaves beside its store, by name."""
    files = {f"{RESULTS}/{name}": data for name, data in result_files(audit).items()}
    return files | {REPORT: render(audit)}


def write_report(
    out: Path | str, path: Path | str | None = None, *, include_text: bool = False
) -> Path:
    """Write the page of a finished audit, and return where: `path`, or beside the results.

    With `include_text` it holds the texts of the pools' records and goes to a file of its own.
    """
    audit = open_finished(out)
    folder, name = audit.folder.root, CONFIDENTIAL if include_text else REPORT
    if path is not None:
        folder, name = Path(path).parent, Path(path).name
    RunFolder(folder).write(name, render(audit, include_text=include_text))
    return folder / name


def _loaded(spec: Spec | LoadedSpec | Path | str) -> LoadedSpec:
    if isinstance(spec, LoadedSpec):
        return spec
    return LoadedSpec(spec) if isinstance(spec, Spec) else load_spec(spec)


def fill(
    setup: Setup,
    runtime: Runtime,
    progress: Progress,
    news: list[str],
    stages: Sequence[Stage] = STAGES,
) -> int:
    """Make what the store lacks: releases, then what the stages make. Return how much that was."""
    releases = missing_releases(setup)
    lacking = sum(len(unit.sets) for unit in releases)
    if news:
        whole = sum(len(wanted_sets(setup, cell)) for cell in setup.cells)
        progress.say(f"new: {'; '.join(news)}")
        progress.say(f"to make: {lacking:,} releases; kept: {whole - lacking:,}")
    exclusive = [unit for unit in releases if setup.generator_of(unit.cell)[1].exclusive]
    shared = [unit for unit in releases if unit not in exclusive]
    for units, workers in ((exclusive, 1), (shared, runtime.workers)):
        run_units(
            make_releases,
            setup,
            units,
            workers=workers,
            progress=progress,
            title="releases",
            steps=sum(len(unit.sets) for unit in units),
        )
    check_awaited(setup)
    return lacking + sum(_go_through(stage, setup, runtime, progress) for stage in stages)


def _go_through(stage: Stage, setup: Setup, runtime: Runtime, progress: Progress) -> int:
    """Do what a stage has left to do, and return how much that was."""
    missing = stage.missing(setup)
    run_units(
        stage.task,
        setup,
        missing,
        workers=runtime.workers,
        progress=progress,
        title=stage.title,
        steps=len(missing),
    )
    return len(missing)


def analyse(
    folders: Sequence[Path | str],
    *,
    only: Sequence[str] = (),
    also: Sequence[str] = (),
    runtime: Runtime | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Run the analyses on one run folder, or on several joined into one study.

    All that take seconds, and those that the specs or `also` name; or `only` some. What they need
    and a folder's store lacks is made there, so long as its evidence is whole.
    """
    runtime, progress = runtime or Runtime(), progress or Silent()
    for option, names in (("--only", only), ("--also", also)):
        for name in names:
            analyses.get(name, option)
    studies, asked = [], [*also]
    for folder in folders:
        audit = open_run(folder)
        if missing_releases(audit.setup) or missing_evidence(audit.setup):
            raise UserError("the audit is not finished", str(folder), "go on with `run` first")
        wanted = {*only, *also} if only else {*also, *audit.setup.spec.analyses.also}
        for stage in FOR_ANALYSES:
            _go_through(stage, audit.setup, runtime, progress)
        if FUSION.title in wanted:
            _go_through(FUSION, audit.setup, runtime, progress)
        asked += wanted
        studies.append((str(folder), audit.study))
    return outcomes_of(join_studies(studies), only=only, also=asked)
