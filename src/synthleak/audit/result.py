"""An audit whose releases and evidence are all there: tables, scores and claims on demand."""

from __future__ import annotations

import importlib
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from synthleak.analyses.analysis import Outcome, Study, outcomes_of
from synthleak.analyses.cell_data import CellData
from synthleak.analyses.cells import CellRow, CellVerdict, ProxyRow, RecordRow, judge
from synthleak.analyses.copies import Copies, CopyRow, NearestRow
from synthleak.analyses.prior import (
    AttackMeasurements,
    ComparisonRow,
    PriorRow,
    compare,
    prior_rows,
)
from synthleak.analyses.utility import UtilityRow
from synthleak.analyses.vulnerability import record_rows
from synthleak.audit.assembly import cell_results_of, evaluated, results_of, study_of, tables_of
from synthleak.audit.commitment import kept_commitment
from synthleak.audit.folder import CONFIDENTIAL, REPORT, SIGN_OFF, RunFolder
from synthleak.audit.kept_results import are_current, kept_outcomes
from synthleak.audit.remarks import Remark, remarks_on
from synthleak.audit.setup import Setup, set_up
from synthleak.audit.steps.cell_data import cell_data_of
from synthleak.audit.steps.exposed import EXPOSED, exposed_rows, measured_with_copies
from synthleak.audit.steps.looks import at_present_look
from synthleak.audit.steps.measurements import CURVES
from synthleak.audit.steps.nearest import NEAREST, nearest_texts
from synthleak.audit.steps.preconditions import COPIES, Preconditions, copy_rows, preconditions_of
from synthleak.audit.steps.prior_attacks import PRIOR, attacks_on
from synthleak.audit.steps.profiles import draws_sets
from synthleak.audit.steps.releases import claim_of, header_of, is_made, open_release
from synthleak.audit.steps.scores import evidence_of, scores_of
from synthleak.audit.steps.utility import utility_row_of
from synthleak.calibration import Scores
from synthleak.core.cell import Cell, counted_cells, is_of
from synthleak.core.errors import MissingExtra, UserError
from synthleak.core.places import Place, place, write_place
from synthleak.core.plugins import check_trusted
from synthleak.core.store import StagedStore
from synthleak.core.threads import single_threaded
from synthleak.core.validation import nearest
from synthleak.core.verdict import CANNOT_SAY
from synthleak.evidence.table import Evidence
from synthleak.metrics.curves import Curves
from synthleak.metrics.measurements import CellMeasurements
from synthleak.releases.claim import Claim
from synthleak.releases.release import Synthetic
from synthleak.report.html import render
from synthleak.report.notebook import notebook
from synthleak.report.results import CellResult, Results, Table
from synthleak.report.sign_off import check_sign_off_format, render_sign_off
from synthleak.report.verdict import headline


@dataclass(frozen=True)
class Audit:
    """An audit whose releases and evidence are all there: tables, scores, claims on demand."""

    setup: Setup
    folder: RunFolder

    def __repr__(self) -> str:
        cells = counted_cells(self.setup.cells)
        return f"<Audit of {self.setup.corpus!r}, {cells}, in {str(self.folder.root)!r}>"

    def _repr_html_(self) -> str:
        """Show the audit in a notebook."""
        return notebook(
            self.headline,
            self.cell_results,
            records=len(self.setup.corpus),
            folder=self.folder.root,
            named=self.named,
            copies=self.copies,
            remarks=self.remarks,
        )

    @property
    def headline(self) -> str:
        """What was found, in a few sentences."""
        declared = self.preconditions.declared if self.preconditions else None
        return headline(self.cell_results, declared)

    @property
    def leak_found(self) -> bool | None:
        """Whether a leak was found in some cell. If not, none was found at this power.

        None where no cell leaks and nothing can be said of one, as with too few records.
        """
        verdicts = [judged.verdict for judged in self.verdicts.values()]
        if any(verdict.leaks for verdict in verdicts):
            return True
        return None if any(verdict.kind == CANNOT_SAY for verdict in verdicts) else False

    @property
    def named(self) -> list[RecordRow]:
        """The records that some cell names, a row per cell: `named` in `results/records.csv`.

        Of those with q ≤ 0.1 a tenth at most is wrong on average; a member of a check is also named
        by a copy of it (docs/method.md §11).
        """
        return [row for row in self.records if row.named]

    def to_pandas(self, table: str = "cells") -> Any:
        """Return a table of `results/` as a pandas frame, by its name there."""
        if table not in self.tables:
            there = f"{self.folder.results}"
            raise UserError(f"no table {table!r}", there, nearest(table, self.tables))
        try:
            pandas = importlib.import_module("pandas")
        except ModuleNotFoundError:
            raise MissingExtra(
                "to_pandas needs the package pandas", remedy="pip install pandas"
            ) from None
        kind, rows = self.tables[table]
        columns = [column.name for column in fields(kind)]
        return pandas.DataFrame([asdict(row) for row in rows], columns=columns)

    def write_report(self, path: Path | str | None = None, *, include_text: bool = False) -> Place:
        """Write the page, and return where: `path`, or beside the results.

        With `include_text` it holds the texts of the pools' records and of the synthetic records
        nearest to named ones, says so, and goes to a file of its own.
        """
        results = self.results
        if include_text:
            with self.folder.naming_purge():
                texts = [t for cell in self.setup.cells for t in nearest_texts(self.setup, cell)]
            results = replace(results, nearest_texts=tuple(texts))
        page = render(results, include_text=include_text)
        if path is None and not include_text:
            self.folder.rewrite_report(page)
            return self.folder.root / REPORT
        target = self.folder.root / CONFIDENTIAL if path is None else Path(path)
        if include_text and path is not None:
            self.folder.note_text_page(target)  # first: a purge is to find what is written
        write_place(target, page)
        return target

    def sign_off(self, path: Path | str | None = None, *, by: str | None = None) -> Place:
        """Write one page to file, and return where: `path`, or `sign-off.html` beside the results.

        A name that ends in `.md` gives Markdown. `by` is who signs; the line is left blank
        otherwise. The page holds no text of a record (docs/sign-off.md). If the folder keeps a
        commitment, its hash stands on the page; an audit that is not the committed one is refused.
        """
        target = self.folder.root / SIGN_OFF if path is None else Path(path)
        form = check_sign_off_format(target.name)
        if not are_current(self.setup, self.folder):
            raise UserError(
                "the audit is not finished", str(self.folder.root), "finish it with `run` first"
            )
        provenance = self.folder.provenance()
        if commitment := kept_commitment(self.folder):
            commitment.check(self.setup, self.folder)
            provenance = replace(provenance, committed=commitment.on(self.cells))
        write_place(target, render_sign_off(self.results, provenance, form, by=by))
        return target

    def evidence(self, cell: Cell) -> Evidence:
        """Return what every proxy saw of every target on every set of a cell."""
        return evidence_of(self.setup, cell)

    def scores(self, cell: Cell) -> list[Scores]:
        """Return the calibrated scores of a cell, one table per scenario."""
        return scores_of(self.setup, cell)

    def naming_signal(self, cell: Cell, target: int) -> int | None:
        """Return which signal of a check scores this target; None in a game, where all do."""
        return None if self.preconditions is None else EXPOSED.get(self.setup, cell).signals[target]

    def claim(self, cell: Cell) -> Claim:
        """Return what the releases of a cell promise."""
        return claim_of(self.setup, cell)

    def release(self, cell: Cell, position: int) -> list[Synthetic]:
        """Return the records of one release of a cell, by the position of its set in the plan."""
        item = self.setup.plans[cell.pool].sets[position]
        if not is_made(self.setup, cell, item):
            raise UserError(
                f"release {position} of {cell.generator} was not made yet by this version",
                str(self.folder.root),
                "continue with `run`",
            )
        with self.folder.naming_purge():
            return open_release(self.setup, header_of(self.setup, cell, item).text)

    def curves(self, cell: Cell) -> Curves:
        """Return ROC and sorted V of a cell with their bands, for figures."""
        return CURVES.get(self.setup, cell)

    @cached_property
    def measurements(self) -> dict[Cell, CellMeasurements]:
        """Every measurement of every cell, with its null."""
        found = {cell: measured_with_copies(self.setup, cell) for cell in self.setup.cells}
        if self.withheld is None:
            return found
        return {cell: measured.without_tests(self.withheld) for cell, measured in found.items()}

    @property
    def withheld(self) -> str | None:
        """Why no verdict can be given, whatever was measured; None where one can."""
        return self.preconditions.withheld if self.preconditions else None

    @property
    def figures(self) -> dict[Cell, CellMeasurements]:
        """The old name of `measurements`."""
        return self.measurements

    @cached_property
    def verdicts(self) -> dict[Cell, CellVerdict]:
        """What is said of every cell."""
        judged = judge(list(self.measurements.values()), self.setup.spec.game.number_of_looks)
        return dict(zip(self.measurements, judged, strict=True))

    @cached_property
    def preconditions(self) -> Preconditions | None:
        """What was asked before the verdict on an existing release; else None."""
        return preconditions_of(self.setup)

    def copies_in(self, cell: Cell) -> Copies | None:
        """Return the copies in the release of a cell; None in a game."""
        return None if self.preconditions is None else COPIES.get(self.setup, cell)

    @cached_property
    def copies(self) -> list[CopyRow]:
        """The records that a given release repeats, by id and row: `results/copies.csv`."""
        if self.preconditions is None:
            return []
        return [row for cell in self.setup.cells for row in copy_rows(self.setup, cell)]

    @cached_property
    def nearest(self) -> list[NearestRow]:
        """The synthetic rows most like each named record: `results/nearest.csv`."""
        if self.withheld is not None:
            return []
        return [row for cell in self.setup.cells for row in NEAREST.get(self.setup, cell)]

    @cached_property
    def remarks(self) -> list[Remark]:
        """What one existing release can and cannot show; none for a game."""
        return remarks_on(self.setup, self.preconditions) if self.preconditions else []

    @cached_property
    def _evaluated(self) -> tuple[list[CellRow], list[ProxyRow]]:
        with self.folder.reading():
            return evaluated(self)

    @cached_property
    def cells(self) -> list[CellRow]:
        """The best proxy of every scenario of every cell: `results/cells.csv`."""
        return self._evaluated[0]

    @cached_property
    def proxies(self) -> list[ProxyRow]:
        """Every proxy of every scenario of every cell: `results/proxies.csv`."""
        return self._evaluated[1]

    @cached_property
    def _prior_measured(self) -> dict[Cell, list[AttackMeasurements]]:
        return {
            cell: [PRIOR.get(self.setup, cell, one) for one in attacks_on(self.setup, cell)]
            for cell in self.setup.cells
        }

    @property
    def prior(self) -> list[PriorRow]:
        """Every arm of every prior attack on every cell: `results/prior.csv`."""
        return [
            row for cell, found in self._prior_measured.items() for row in prior_rows(cell, found)
        ]

    @property
    def comparison(self) -> list[ComparisonRow]:
        """Ours beside the prior attacks, per cell: `results/comparison.csv`."""
        return [
            compare(cell, [row for row in self.cells if is_of(row, cell)], found)
            for cell, found in self._prior_measured.items()
            if found
        ]

    @cached_property
    def utility(self) -> list[UtilityRow]:
        """What some releases of every cell are good for: `results/utility.csv`."""
        return [
            utility_row_of(self.setup, cell)
            for cell in self.setup.cells
            if draws_sets(self.setup, cell.pool)
        ]

    @cached_property
    def study(self) -> Study:
        """The tables of this audit and the cells as they were played, as analyses see them."""
        return study_of(self)

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """What every analysis says of this audit, or what it needs: a table each in `results/`."""
        if are_current(self.setup, self.folder):
            return kept_outcomes(self.folder)
        return outcomes_of(self.study, also=self.setup.spec.analyses.also)

    @cached_property
    def cell_data(self) -> list[CellData]:
        """Every cell as it was played: coins, targets, V(x) under every signal."""
        return [
            cell_data_of(self.setup, cell)
            for cell in self.setup.cells
            if draws_sets(self.setup, cell.pool)
        ]

    @cached_property
    def records(self) -> list[RecordRow]:
        """Every record of every pool, in every cell: `results/records.csv`."""
        return [
            *(row for cell in self.cell_data for row in record_rows(cell)),
            *(
                row
                for cell in self.setup.cells
                if not draws_sets(self.setup, cell.pool)
                for row in exposed_rows(self.setup, cell, self.measurements[cell])
            ),
        ]

    @cached_property
    def cell_results(self) -> tuple[CellResult, ...]:
        """What was measured, found and promised, cell by cell."""
        return cell_results_of(self)

    @cached_property
    def results(self) -> Results:
        """All results as plain data: what tables, page, figures and comparisons are made from."""
        with single_threaded(), self.folder.reading():
            return results_of(self)

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables of `results/` by name; one without rows only if every audit has it."""
        return tables_of(self)


def open_run(out: Place | str, *, keep: bool = True, trust_plugins: bool = False) -> Audit:
    """Open the audit of a run folder, to read its tables, scores and claims.

    What is computed on the way is kept in its store, unless `keep` is false. Files with plug-ins
    that its spec names are run only if you say `trust_plugins`.
    """
    folder = RunFolder(place(out))
    loaded = folder.spec()
    check_trusted(loaded.spec.plugins, folder.root, trust=trust_plugins)
    store = folder.store if keep else StagedStore(folder.store)
    return Audit(at_present_look(set_up(loaded, store)), folder)
