"""The pipeline: data passes through nine stages, each once, in one direction.

corpus → pools → plan → releases → evidence → calibration → metrics → analyses → report
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from synthleak.analyses.analysis import Outcome, analyses, join_studies, outcomes_of
from synthleak.audit.commitment import read_commitment
from synthleak.audit.folder import COMMITMENT, MANIFEST, REPORT, RESULTS, STORE, RunFolder
from synthleak.audit.history import note_looks
from synthleak.audit.kept_results import are_current, results_key, table_names
from synthleak.audit.result import Audit, open_run
from synthleak.audit.setup import Setup, draw, read, select
from synthleak.audit.sources import AnyAudit, Source, named_audits
from synthleak.audit.status import open_finished
from synthleak.audit.steps.forecast import REPORT as PAGE
from synthleak.audit.steps.forecast import expected_stages
from synthleak.audit.steps.looks import at_next_look, at_present_look, is_decided, said_of_look
from synthleak.audit.steps.observations import check_models, missing_evidence, missing_models
from synthleak.audit.steps.preconditions import examine
from synthleak.audit.steps.profiles import discard_profiles
from synthleak.audit.steps.releases import (
    account_claims,
    check_awaited,
    check_generators,
    discard_releases,
    missing_releases,
    wanted_sets,
)
from synthleak.audit.steps.work import (
    EVIDENCE,
    MEASUREMENTS,
    META,
    MORE,
    RELEASES,
    TO_DECIDE,
    Work,
    at_work,
)
from synthleak.core.cell import counted_cells
from synthleak.core.engine.progress import Progress, default_progress, duration
from synthleak.core.errors import Damaged, UserError
from synthleak.core.places import Place, Url, place
from synthleak.core.private_files import Hold
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, Spec, as_loaded
from synthleak.core.store import StagedStore, damaged_in, discard
from synthleak.core.unit import counted
from synthleak.report.html import render
from synthleak.report.results import Results
from synthleak.report.tables import result_files

NAMED_FILES = 5
"""Altered files that are named one by one."""

log = logging.getLogger("synthleak.store")


def run(
    spec: Spec | LoadedSpec | Path | str,
    out: Place | str,
    *,
    extend: bool = False,
    committed: Path | str | None = None,
    runtime: Runtime | None = None,
    progress: Progress | None = None,
) -> Audit:
    """Go through the whole pipeline and leave a run folder.

    What the folder already holds is not made again. A folder that belongs to another spec is
    refused unless `extend` is set, which says what is new. Stages four to seven put what they make
    into the store of the folder; a stage asks the store for what it needs. With `committed`, the
    file of a commitment (docs/sign-off.md), another audit than that one is refused before anything
    is generated, and the folder keeps the commitment.
    """
    commitment = None if committed is None else read_commitment(Path(committed))
    started, folder, loaded = time.monotonic(), RunFolder(place(out)), as_loaded(spec)
    runtime = runtime or Runtime.of(loaded.spec.runtime)
    progress = progress or default_progress()
    with Hold(folder.root, MANIFEST, wait=runtime.wait) as hold:
        damaged = check_folder(folder, loaded)
        staged = StagedStore(folder.store)

        inputs = read(loaded)  # 1. corpus, with the plug-ins that the spec names
        pools = select(inputs, staged)  # 2. pools: the records that are asked about
        setup = draw(inputs, pools, staged)  # 3. plan: sets, trials and baselines
        if commitment is not None:
            commitment.check(setup, folder)
        setup, news = _admitted(setup, folder, hold, staged, extend)  # nothing was written so far
        if commitment is not None:
            folder.write(COMMITMENT, commitment.to_bytes())
        for name in setup.left_out:
            progress.say(f"the pool {name!r} is empty and left out: its rule selects nobody")
        discard_releases(setup, damaged)
        discard_profiles(setup.store, damaged)
        with at_work(setup, runtime) as how:
            progress.expect(expected_stages(setup, how))
            setup, made = _make_looks(setup, folder, how, progress, news)  # 4. releases
            made += _make(EVIDENCE, setup, how, progress)  # 5. evidence: proxies, prior attacks
            made += _make(MEASUREMENTS, setup, how, progress)  # 6. calibration, 7. metrics
            made += _make(MORE, setup, how, progress)  # 7. meta-classifier if asked for, utility
        audit, key = Audit(setup, folder), results_key(setup)
        if not made and not damaged and are_current(setup, folder):
            folder.note_hashes()
            progress.say(
                f"nothing to do: {folder.root} is up to date ({counted_cells(setup.cells)})"
            )
            return audit
        note_looks(setup, folder)
        with progress.stage(PAGE, 1) as stage:
            results = _results(audit, runtime, progress)  # 8. analyses
            files = written(results)  # 9. report
            stage.advance()
        took = time.monotonic() - started
        folder.finish(setup, key, files, tables=table_names(), seconds=took)
        cells = counted_cells(setup.cells)
        progress.say(
            f"{cells} in {duration(took)}: see {folder.root / REPORT} and {folder.root / RESULTS}"
        )
        return audit


def check_folder(folder: RunFolder, loaded: LoadedSpec) -> list[str]:
    """Compare a folder that holds an audit with its digests; return artefacts damaged or missing.

    Whatever was altered or lost since it was written is named here, and made again by the run.
    """
    folder.refuse_links()
    if folder.rebuild(loaded):
        log.warning("%s is damaged: it is rebuilt from the spec", folder.root / MANIFEST)
    if folder.manifest() is None:
        return []
    altered = folder.altered()
    _warn(altered, "%s was altered or is missing: it is made again", "files", folder)
    folder.seal_store()
    missing = folder.missing()
    _warn(missing, "%s is missing: it is made again if it is needed", "artefacts", folder)
    if isinstance(folder.root, Url):  # reading all of a bucket costs money; what is read is checked
        return missing
    found = damaged_in(folder.store)
    for name in found:
        discard(folder.store, name)
    return [*found, *missing]


def _warn(names: Sequence[str], message: str, what: str, folder: RunFolder) -> None:
    """Name the first of what was altered or lost, and count the rest."""
    for name in names[:NAMED_FILES]:
        log.warning(message, folder.root / (f"{STORE}/{name}" if what == "artefacts" else name))
    if len(names) > NAMED_FILES:
        log.warning("and %d more %s of %s", len(names) - NAMED_FILES, what, folder.root)


def _admitted(
    setup: Setup, folder: RunFolder, hold: Hold, staged: StagedStore, extend: bool
) -> tuple[Setup, list[str]]:
    """Check that the audit can be made in this folder, and begin it there; say what is new."""
    setup.plugins.encoder.check()
    check_models(setup)
    news = folder.admit(setup, extend=extend)
    setup = at_present_look(setup)
    check_generators(setup)
    examine(setup)
    hold.take()
    news = folder.admit(setup, extend=extend)  # another run may have begun it meanwhile
    folder.begin(setup, new=news is not None)
    staged.commit()
    return replace(setup, store=folder.store), news or []


def make_missing_releases(
    setup: Setup, runtime: Runtime, progress: Progress, news: Sequence[str] = ()
) -> int:
    """Make the releases that the store does not hold; say first what is `news` to the folder."""
    if news:
        missing = sum(len(unit.sets) for unit in missing_releases(setup))
        whole = sum(len(wanted_sets(setup, cell)) for cell in setup.cells)
        progress.say(f"new: {'; '.join(news)}")
        progress.say(f"to make: {counted(missing, 'release')}; kept: {whole - missing:,}")
    if runtime.workers > 1:
        account_claims(setup)
    made = _make([RELEASES], setup, runtime, progress)
    check_awaited(setup)
    return made


def _make_looks(
    setup: Setup, folder: RunFolder, runtime: Runtime, progress: Progress, news: Sequence[str]
) -> tuple[Setup, int]:
    """Make the releases that the first look needs; then those of the cells that go on from it.

    Returns the setup at the look where each cell ended. Without declared looks there is one.
    """
    made = 0
    while True:
        made += make_missing_releases(setup, runtime, progress, news)
        if not setup.reached:
            return setup, made
        made += _make(TO_DECIDE, setup, runtime, progress)
        note_looks(setup, folder)
        further = at_next_look(setup)
        if further is None:
            return setup, made
        progress.say(said_of_look(setup, further))
        setup, news = further, ()


def _results(audit: Audit, runtime: Runtime, progress: Progress) -> Results:
    """Return the results; what turns out to be damaged only now is made again first."""
    met: tuple[str, ...] = ()
    while True:
        try:
            return audit.results
        except Damaged as error:
            met = _discarded(audit.setup, error, met)
            works = (RELEASES, *EVIDENCE, *MEASUREMENTS, *MORE)
            _make(works, audit.setup, runtime, progress, met)


def _make(
    works: Sequence[Work],
    setup: Setup,
    runtime: Runtime,
    progress: Progress,
    met: tuple[str, ...] = (),
) -> int:
    """Make what is missing, one after another; what turns out to be damaged is made again first."""
    made = 0
    for work in works:
        while True:
            try:
                made += work.make(setup, runtime, progress)
                break
            except Damaged as error:
                met = _discarded(setup, error, met)
                made += _make((RELEASES, *EVIDENCE), setup, runtime, progress, met)
    return made


def _discarded(setup: Setup, error: Damaged, met: tuple[str, ...]) -> tuple[str, ...]:
    """Discard what is damaged, unless it was before; return all that was `met`."""
    if error.name in met:
        raise error
    discard(setup.store, error.name)
    discard_releases(setup, [error.name])
    return (*met, error.name)


def written(results: Results) -> dict[str, bytes]:
    """Return the files that a finished audit leaves beside its store, by name."""
    files = {f"{RESULTS}/{name}": data for name, data in result_files(results).items()}
    return files | {REPORT: render(results)}


def write_report(
    out: Place | str, path: Path | str | None = None, *, include_text: bool = False
) -> Place:
    """Write the page of a finished audit, and return where: `path`, or beside the results.

    With `include_text` it holds the texts of the pools' records and goes to a file of its own.
    """
    audit = open_finished(out, but=[REPORT])  # the page itself is written again
    return audit.write_report(path, include_text=include_text)


def analyse(
    audits: Sequence[Source] | AnyAudit,
    *,
    only: Sequence[str] = (),
    also: Sequence[str] = (),
    runtime: Runtime | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Run the analyses on one audit, or on several joined into one study.

    `audits` are run folders, opened audits, or pairs of a name and one of them.
    All that take seconds, and those that the specs or `also` name; or `only` some. What they need
    and a folder's store does not hold is made there, so long as its evidence is whole.
    """
    runtime, progress = runtime or Runtime(), progress or default_progress()
    for option, names in (("--only", only), ("--also", also)):
        for name in names:
            analyses.get(name, option)
    studies, asked = [], [*also]
    for _, audit in named_audits(audits, open_run):
        folder, setup = str(audit.folder.root), audit.setup
        whole = not (missing_releases(setup) or missing_evidence(setup) or missing_models(setup))
        if not whole or not is_decided(setup):
            raise UserError("the audit is not finished", folder, "finish it with `run` first")
        wanted = {*only, *also} if only else {*also, *audit.setup.spec.analyses.also}
        works = (*MEASUREMENTS, META) if META.title in wanted else MEASUREMENTS
        _make(works, audit.setup, runtime, progress)
        asked += wanted
        studies.append((folder, audit.study))
    return outcomes_of(join_studies(studies), only=only, also=asked)
