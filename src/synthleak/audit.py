"""The corridor: data walks through the rooms, each once, in one direction.

corpus → pools → plan → releases → evidence → calibration → metrics → analyses → report
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from synthleak.analyses.analysis import Outcome, Study, analyses, join_studies, outcomes_of
from synthleak.analyses.cells import (
    Cell,
    CellRow,
    CellVerdict,
    ProxyRow,
    RecordRow,
    evaluate,
    judge,
)
from synthleak.analyses.copies import CopyRow
from synthleak.analyses.played import Played
from synthleak.analyses.prior import (
    AttackFigures,
    ComparisonRow,
    PriorRow,
    compare,
    is_of,
    prior_rows,
)
from synthleak.analyses.record_attributes import ATTRIBUTES_VERSION
from synthleak.analyses.utility import UtilityRow
from synthleak.analyses.vulnerability import record_rows
from synthleak.assessment import (
    attributes_of,
    claim_of,
    curves_of,
    draws_sets,
    evidence_of,
    figures_key,
    figures_of,
    played_of,
    scores_of,
    utility_row_of,
)
from synthleak.calibration.scenarios import Scores
from synthleak.engine.local import run_units
from synthleak.engine.progress import Progress, Silent, duration
from synthleak.errors import UserError
from synthleak.evidence.table import Evidence
from synthleak.folder import CONFIDENTIAL, REPORT, RESULTS, RunFolder
from synthleak.given.preface import Preface, copy_rows, examine, exposed_rows, preface_of
from synthleak.given.remarks import Remark, remarks_on
from synthleak.identity import digest
from synthleak.metrics.curve import Curves
from synthleak.metrics.figures import CellFigures
from synthleak.metrics.profile import PROFILE_VERSION
from synthleak.releases.claim import Claim
from synthleak.releases.release import Synthetic
from synthleak.report.html import render
from synthleak.report.notebook import notebook
from synthleak.report.tables import RESULTS_VERSION, read_parquet, result_files
from synthleak.rivals import (
    rivals_key,
    rivals_of,
)
from synthleak.runtime import Runtime
from synthleak.spec import LoadedSpec, Spec, load_spec
from synthleak.stages import FOR_ANALYSES, FUSION, STAGES, Stage
from synthleak.store import StagedStore, name_of
from synthleak.work import (
    all_evidence_keys,
    check_awaited,
    check_generators,
    header_of,
    make_releases,
    missing_evidence,
    missing_releases,
    open_release,
    release_name,
    wanted_sets,
)
from synthleak.workbench import Workbench, identity_of, set_up


@dataclass(frozen=True)
class Audit:
    """An audit whose releases and evidence are all there: tables, scores, claims on demand."""

    bench: Workbench
    folder: RunFolder

    def _repr_html_(self) -> str:
        """Show the audit in a notebook."""
        return notebook(self)

    def evidence(self, cell: Cell) -> Evidence:
        """Return what every proxy saw of every target on every set of a cell."""
        return evidence_of(self.bench, cell)

    def scores(self, cell: Cell) -> list[Scores]:
        """Return the calibrated scores of a cell, one table per scenario."""
        return scores_of(self.bench, cell)

    def claim(self, cell: Cell) -> Claim:
        """Return what the releases of a cell promise."""
        return claim_of(self.bench, cell)

    def release(self, cell: Cell, position: int) -> list[Synthetic]:
        """Return the records of one release of a cell, by the position of its set in the plan."""
        item = self.bench.plans[cell.pool].sets[position]
        return open_release(self.bench, header_of(self.bench, cell, item).text)

    def curves(self, cell: Cell) -> Curves:
        """Return ROC and sorted V of a cell with their bands, for figures."""
        return curves_of(self.bench, cell)

    def degenerate(self, cell: Cell) -> dict[str, int]:
        """Count the releases of a cell that hold no text at all, or one text over and over."""
        sets = wanted_sets(self.bench, cell)
        counts = [header_of(self.bench, cell, item).different for _, item in sets]
        return {"empty_releases": counts.count(0), "one_text_releases": counts.count(1)}

    def release_size(self, pool: str) -> int:
        """Return how many records a release has: as planned, or as given (the largest)."""
        if draws_sets(self.bench, pool):
            return self.bench.plans[pool].release_size
        cells = [cell for cell in self.bench.cells if cell.pool == pool]
        return max(
            header_of(self.bench, cell, item).size
            for cell in cells
            for _, item in wanted_sets(self.bench, cell)
        )

    @cached_property
    def figures(self) -> dict[Cell, CellFigures]:
        """Every figure of every cell, with its null."""
        return {cell: figures_of(self.bench, cell) for cell in self.bench.cells}

    @cached_property
    def verdicts(self) -> dict[Cell, CellVerdict]:
        """What is said of every cell."""
        withheld = self.preface.withheld if self.preface else None
        judged = judge(list(self.figures.values()), withheld)
        return dict(zip(self.figures, judged, strict=True))

    @cached_property
    def preface(self) -> Preface | None:
        """What was asked before the verdict on a release that was already there; else None."""
        return preface_of(self.bench)

    @cached_property
    def copies(self) -> list[CopyRow]:
        """The records that a given release repeats, by id and row: `results/copies.csv`."""
        if self.preface is None:
            return []
        return [row for cell in self.bench.cells for row in copy_rows(self.bench, cell)]

    @cached_property
    def remarks(self) -> list[Remark]:
        """What one release that was already there can and cannot show; none for a game."""
        return remarks_on(self.bench, self.preface) if self.preface else []

    @cached_property
    def _tables(self) -> tuple[list[CellRow], list[ProxyRow]]:
        rows: list[CellRow] = []
        details: list[ProxyRow] = []
        for cell, figures in self.figures.items():
            some, more = evaluate(
                cell,
                self.scores(cell),
                self.bench.plans[cell.pool],
                figures,
                self.verdicts[cell],
                len(self.figures),
            )
            rows += some
            details += more
        return rows, details

    @cached_property
    def cells(self) -> list[CellRow]:
        """The best proxy of every scenario of every cell: `results/cells.csv`."""
        return read_parquet(CellRow, self._kept("cells")) if self._whole else self._tables[0]

    @cached_property
    def proxies(self) -> list[ProxyRow]:
        """Every proxy of every scenario of every cell: `results/proxies.csv`."""
        return read_parquet(ProxyRow, self._kept("proxies")) if self._whole else self._tables[1]

    @cached_property
    def _whole(self) -> bool:
        """Whether the folder's results were made from this very evidence: then they are read."""
        return self.folder.holds(findings_key(self))

    def _kept(self, name: str) -> Path:
        return self.folder.results / f"{name}.parquet"

    @cached_property
    def _rivals(self) -> dict[Cell, list[AttackFigures]]:
        return {cell: rivals_of(self.bench, cell) for cell in self.bench.cells}

    @property
    def prior(self) -> list[PriorRow]:
        """Every arm of every prior attack on every cell: `results/prior.csv`."""
        return [row for cell, found in self._rivals.items() for row in prior_rows(cell, found)]

    @property
    def comparison(self) -> list[ComparisonRow]:
        """Ours beside the prior attacks, per cell: `results/comparison.csv`."""
        return [
            compare(cell, [row for row in self.cells if is_of(row, cell)], found)
            for cell, found in self._rivals.items()
            if found
        ]

    @cached_property
    def utility(self) -> list[UtilityRow]:
        """What some releases of every cell are good for: `results/utility.csv`."""
        return [
            utility_row_of(self.bench, cell)
            for cell in self.bench.cells
            if draws_sets(self.bench, cell.pool)
        ]

    @cached_property
    def study(self) -> Study:
        """The tables of this audit and the cells as they were played, as analyses see them."""
        return Study(
            cells=tuple(self.cells),
            proxies=tuple(self.proxies),
            records=tuple(self.records),
            prior=tuple(self.prior),
            comparison=tuple(self.comparison),
            played=tuple(self.played),
            attributes=tuple(
                row
                for pool in self.bench.pools
                if draws_sets(self.bench, pool)
                for row in attributes_of(self.bench, pool)
            ),
        )

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """What every analysis says of this audit, or what it lacks: a table each in `results/`."""
        return outcomes_of(self.study, also=self.bench.spec.analyses.also)

    @cached_property
    def played(self) -> list[Played]:
        """Every cell as it was played: coins, targets, V(x) under every signal."""
        return [
            played_of(self.bench, cell)
            for cell in self.bench.cells
            if draws_sets(self.bench, cell.pool)
        ]

    @cached_property
    def records(self) -> list[RecordRow]:
        """Every record of every pool, in every cell: `results/records.csv`."""
        return [
            *(row for cell in self.played for row in record_rows(cell)),
            *(
                row
                for cell in self.bench.cells
                if not draws_sets(self.bench, cell.pool)
                for row in exposed_rows(self.bench, cell, self.figures[cell])
            ),
        ]


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
    bench = set_up(_loaded(spec), staged)
    bench.plugins.encoder.check()
    news = folder.admit(bench, extend=extend)
    check_generators(bench)
    examine(bench)
    folder.begin(bench, new=news is not None)
    staged.commit()
    bench = replace(bench, store=folder.store)
    made = fill(bench, runtime, progress, news or [])
    audit = Audit(bench, folder)
    findings = findings_key(audit)
    if not made and folder.holds(findings):
        progress.say(f"nothing to do: {folder.root} is up to date ({len(bench.cells)} cells)")
        return audit
    files = written(audit)
    for name, data in files.items():
        folder.write(name, data)
    folder.finish(bench, findings, sorted(files), seconds=time.monotonic() - started)
    progress.say(
        f"{len(bench.cells)} cells in {duration(time.monotonic() - started)}: "
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


def open_run(out: Path | str) -> Audit:
    """Open the audit of a run folder, to read its tables, scores and claims."""
    folder = RunFolder(Path(out))
    return Audit(set_up(folder.spec(), folder.store), folder)


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


def _loaded(spec: Spec | LoadedSpec | Path | str) -> LoadedSpec:
    if isinstance(spec, LoadedSpec):
        return spec
    return LoadedSpec(spec) if isinstance(spec, Spec) else load_spec(spec)


def fill(
    bench: Workbench,
    runtime: Runtime,
    progress: Progress,
    news: list[str],
    stages: Sequence[Stage] = STAGES,
) -> int:
    """Make what the store lacks: releases, then what the stages make. Return how much that was."""
    releases = missing_releases(bench)
    lacking = sum(len(unit.sets) for unit in releases)
    if news:
        whole = sum(len(wanted_sets(bench, cell)) for cell in bench.cells)
        progress.say(f"new: {'; '.join(news)}")
        progress.say(f"to make: {lacking:,} releases; kept: {whole - lacking:,}")
    exclusive = [unit for unit in releases if bench.generator_of(unit.cell)[1].exclusive]
    shared = [unit for unit in releases if unit not in exclusive]
    for units, workers in ((exclusive, 1), (shared, runtime.workers)):
        run_units(
            make_releases,
            bench,
            units,
            workers=workers,
            progress=progress,
            title="releases",
            steps=sum(len(unit.sets) for unit in units),
        )
    check_awaited(bench)
    return lacking + sum(_go_through(stage, bench, runtime, progress) for stage in stages)


def _go_through(stage: Stage, bench: Workbench, runtime: Runtime, progress: Progress) -> int:
    """Do what a stage has left to do, and return how much that was."""
    missing = stage.missing(bench)
    run_units(
        stage.task,
        bench,
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
        if missing_releases(audit.bench) or missing_evidence(audit.bench):
            raise UserError("the audit is not finished", str(folder), "go on with `run` first")
        wanted = {*only, *also} if only else {*also, *audit.bench.spec.analyses.also}
        for stage in FOR_ANALYSES:
            _go_through(stage, audit.bench, runtime, progress)
        if FUSION.title in wanted:
            _go_through(FUSION, audit.bench, runtime, progress)
        asked += wanted
        studies.append((str(folder), audit.study))
    return outcomes_of(join_studies(studies), only=only, also=asked)


def findings_key(audit: Audit) -> str:
    """Return the key of the results: of all figures they are made from, and their format."""
    bench = audit.bench
    keys = [figures_key(bench, cell) for cell in bench.cells]
    rivals = [rivals_key(bench, cell, a) for cell in bench.cells for a in bench.plugins.attacks]
    # By name: modules that were imported before the shelf was swept stand first on it.
    also = bench.spec.analyses.also
    run = [entry for entry in analyses if entry.name in also or not entry.plugin.opt_in]
    said = sorted(([entry.name, entry.version] for entry in run), key=str)
    said += [["profiles", PROFILE_VERSION], ["attributes of records", ATTRIBUTES_VERSION]]
    return digest("findings", RESULTS_VERSION, identity_of(bench), keys, rivals, said)
