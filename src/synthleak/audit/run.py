"""The pipeline: data passes through nine stages, each once, in one direction.

corpus → pools → plan → releases → evidence → calibration → metrics → analyses → report

`steps/` does the work of each stage; `steps/work.py` names the kinds of work and cuts them into
units. Labels meet scores in `metrics/membership.py`, which `steps/measurements.py` leads to.
"""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from synthleak.audit.commitment import Commitment, read_commitment
from synthleak.audit.folder import MANIFEST, REPORT, RESULTS, RunFolder
from synthleak.audit.kept_results import are_current, files_of, results_key, table_names
from synthleak.audit.result import Audit
from synthleak.audit.setup import Setup
from synthleak.audit.stages import draw, read, select
from synthleak.audit.steps.observations import check_models
from synthleak.audit.steps.preconditions import examine
from synthleak.audit.steps.releases import check_generators
from synthleak.audit.steps.work import (
    EVIDENCE,
    MEASUREMENTS,
    MORE,
    REPORT_STAGE,
    at_present_look,
    at_work,
    expected_stages,
    make_releases_by_looks,
    note_looks,
    say_news,
)
from synthleak.core.cell import counted_cells
from synthleak.core.engine.progress import Noted, Progress, duration, progress_of
from synthleak.core.locations import Location, locate
from synthleak.core.private_files import Hold, note_progress
from synthleak.core.runtime import Runtime
from synthleak.core.spec import LoadedSpec, Spec, as_loaded
from synthleak.core.store import StagedStore, until_whole


def run(
    spec: Spec | LoadedSpec | Path | str,
    out: Location | str,
    *,
    extend: bool = False,
    committed: Path | str | None = None,
    runtime: Runtime | None = None,
    progress: Progress | bool | None = None,
) -> Audit:
    """Go through the whole pipeline and leave a run folder.

    What the folder already holds is not made again: a run that was stopped goes on where it was.

    Args:
        spec: The spec of the audit, or its file.
        out: The run folder, on disk or at a URL. It is made if it is not there.
        extend: Go on in a folder that belongs to another spec, which is refused otherwise, and say
            what is new.
        committed: The file of a commitment (docs/sign-off.md). Another audit than the committed
            one is refused before anything is generated, and the folder keeps the commitment.
        runtime: Where the work is done; as the spec says by default.
        progress: What is told how far the run is; by default the terminal is; False: nobody.

    Returns:
        The finished audit.

    Raises:
        UserError: If the spec, its records, the folder or the commitment cannot be used.
    """
    commitment = None if committed is None else read_commitment(Path(committed))
    started, folder, loaded = time.monotonic(), RunFolder(locate(out)), as_loaded(spec)
    runtime = runtime or Runtime.of(loaded.spec.runtime)
    progress = Noted(progress_of(progress), note_progress)
    with Hold(folder.root, MANIFEST, wait=runtime.wait) as hold:
        was_whole = folder.take_stock(loaded)
        staged = StagedStore(folder.store)

        inputs = read(loaded)  # 1. corpus, by the reader that the spec names
        pools = select(inputs, staged)  # 2. pools: the records that are asked about
        drawn = draw(inputs, pools, staged)  # 3. plan: sets, trials and baselines
        drawn = _admitted(drawn, folder, hold, staged, extend, commitment, progress)
        with at_work(drawn, runtime) as how:
            progress.expect(expected_stages(drawn, how))
            for attempt in until_whole(folder.store):
                with attempt:
                    # 4. releases: steps/releases.py
                    setup, steps = make_releases_by_looks(drawn, folder, how, progress)
                    for work in (
                        *EVIDENCE,  # 5. evidence: `look_at` of steps/observations.py; prior attacks
                        # 6. calibration.py: `scores_of` of steps/observations.py
                        *MEASUREMENTS,  # 7. metrics: `scored_cell` of steps/measurements.py
                        *MORE,  # 7. meta-classifier if asked for, utility, steps/exposed.py
                    ):
                        steps += work.make(setup, how, progress)
                    audit, key = Audit(setup, folder), results_key(setup)
                    if not steps and was_whole and are_current(setup, folder):
                        folder.note_hashes()
                        cells = counted_cells(setup.cells)
                        progress.say(f"nothing to do: {folder.root} is up to date ({cells})")
                        return audit
                    note_looks(setup, folder)
                    with progress.stage(REPORT_STAGE, 1) as stage:
                        # 8. analyses/: `Audit.outcomes`; 9. report/, written by `finish` below
                        files = files_of(audit.results, rescue=folder.write)
                        stage.advance()
        took = time.monotonic() - started
        folder.finish(setup, key, files, tables=table_names(), seconds=took)
        progress.say(
            f"{counted_cells(setup.cells)} in {duration(took)}:"
            f" see {folder.root / REPORT} and {folder.root / RESULTS}"
        )
        return audit


def _admitted(
    setup: Setup,
    folder: RunFolder,
    hold: Hold,
    staged: StagedStore,
    extend: bool,
    commitment: Commitment | None,
    progress: Progress,
) -> Setup:
    """Check that the audit can be made in this folder, and begin it there; say what is new.

    Nothing was written so far.
    """
    if commitment is not None:
        commitment.check(setup, folder)
    setup.plugins.encoder.check()
    check_models(setup)
    folder.admit(setup, extend=extend)
    setup = at_present_look(setup)
    check_generators(setup)
    examine(setup)
    hold.take()
    news = folder.admit(setup, extend=extend)  # another run may have begun it meanwhile
    folder.begin(setup, new=news is not None)
    staged.commit()
    if commitment is not None:
        folder.keep_commitment(commitment.hash, commitment.to_bytes())
    setup = replace(setup, store=folder.store)
    say_news(setup, progress, news or [])
    return setup
