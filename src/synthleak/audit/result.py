"""An audit whose releases and evidence are all there: tables, scores and claims on demand."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from synthleak.analyses.analysis import Outcome, Row, Study, analyses, outcomes_of
from synthleak.analyses.cell_data import CellData
from synthleak.analyses.cells import CellRow, CellVerdict, ProxyRow, RecordRow, evaluate, judge
from synthleak.analyses.copies import Copies, CopyRow, NearestRow
from synthleak.analyses.prior import (
    AttackMeasurements,
    ComparisonRow,
    PriorRow,
    is_of,
    prior_rows,
)
from synthleak.analyses.prior import (
    compare as beside,
)
from synthleak.analyses.record_attributes import ATTRIBUTES_VERSION
from synthleak.analyses.utility import UtilityRow
from synthleak.analyses.vulnerability import record_rows
from synthleak.audit.facts import check_facts, corpus_facts, facts_of, size_facts
from synthleak.audit.folder import CONFIDENTIAL, REPORT, RESULTS, RunFolder
from synthleak.audit.remarks import Remark, remarks_on
from synthleak.audit.setup import Setup, identity_of, set_up
from synthleak.audit.steps.cell_data import cell_data_of, pool_facts
from synthleak.audit.steps.exposed import EXPOSED, exposed_rows
from synthleak.audit.steps.measurements import CURVES, MEASUREMENTS, ROUNDS, measurements_key
from synthleak.audit.steps.nearest import NEAREST, nearest_texts
from synthleak.audit.steps.preconditions import (
    COPIES,
    Preconditions,
    copy_rows,
    preconditions_of,
)
from synthleak.audit.steps.prior_attacks import PRIOR, attacks_on, prior_key
from synthleak.audit.steps.profiles import ATTRIBUTES, draws_sets
from synthleak.audit.steps.releases import (
    claim_of,
    header_of,
    is_made,
    open_release,
    wanted_sets,
)
from synthleak.audit.steps.scores import evidence_of, scores_of
from synthleak.audit.steps.utility import utility_row_of
from synthleak.calibration import Scores
from synthleak.core.cell import Cell, counted_cells
from synthleak.core.errors import MissingExtra, UserError
from synthleak.core.identity import digest
from synthleak.core.places import Place, opened, place
from synthleak.core.plugins import check_trusted
from synthleak.core.store import StagedStore
from synthleak.core.validation import nearest
from synthleak.core.verdict import NAMED
from synthleak.evidence.table import Evidence
from synthleak.metrics.curves import Curves
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.records.profile import PROFILE_VERSION
from synthleak.releases.claim import Claim
from synthleak.releases.release import Synthetic
from synthleak.report.html import render
from synthleak.report.notebook import notebook
from synthleak.report.results import CellResult, Results, Table
from synthleak.report.tables import RESULTS_VERSION, has_columns, read_parquet
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
    def leak_found(self) -> bool:
        """Whether a leak was found in some cell. If not, none was found at this power."""
        return any(judged.verdict.leaks for judged in self.verdicts.values())

    @property
    def named(self) -> list[RecordRow]:
        """The records that some cell names, a row per cell: q ≤ 0.1 in `results/records.csv`.

        On average a tenth of them at most is wrong (docs/method.md §8).
        """
        return [row for row in self.records if row.q_value is not None and row.q_value <= NAMED]

    def to_pandas(self, table: str = "cells") -> Any:
        """Return a table of `results/` as a pandas frame, by its name there."""
        if table not in self._all_tables:
            there = f"{self.folder.results}"
            raise UserError(f"no table {table!r}", there, nearest(table, self._all_tables))
        try:
            pandas = importlib.import_module("pandas")
        except ModuleNotFoundError:
            raise MissingExtra(
                "to_pandas needs the package pandas", remedy="pip install pandas"
            ) from None
        kind, rows = self._all_tables[table]
        columns = [column.name for column in fields(kind)]
        return pandas.DataFrame([asdict(row) for row in rows], columns=columns)

    def write_report(self, path: Path | str | None = None, *, include_text: bool = False) -> Place:
        """Write the page, and return where: `path`, or beside the results.

        With `include_text` it holds the texts of the pools' records and of the synthetic records
        nearest to named ones, says so, and goes to a file of its own.
        """
        results = self.results
        if include_text:
            texts = [text for cell in self.setup.cells for text in nearest_texts(self.setup, cell)]
            results = replace(results, nearest_texts=tuple(texts))
        page = render(results, include_text=include_text)
        if path is None and not include_text:
            self.folder.rewrite_report(page)
            return self.folder.root / REPORT
        target = self.folder.root / CONFIDENTIAL if path is None else Path(path)
        RunFolder(target.parent).write(target.name, page)
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
                "go on with `run`",
            )
        return open_release(self.setup, header_of(self.setup, cell, item).text)

    def curves(self, cell: Cell) -> Curves:
        """Return ROC and sorted V of a cell with their bands, for figures."""
        return CURVES.get(self.setup, cell)

    def degenerate(self, cell: Cell) -> dict[str, int]:
        """Count the releases of a cell that hold no text at all, or one text over and over."""
        sets = wanted_sets(self.setup, cell)
        counts = [header_of(self.setup, cell, item).different for _, item in sets]
        return {"empty_releases": counts.count(0), "one_text_releases": counts.count(1)}

    def release_size(self, pool: str) -> int:
        """Return how many records a release has: as planned, or as given (the largest)."""
        if draws_sets(self.setup, pool):
            return self.setup.plans[pool].release_size
        cells = [cell for cell in self.setup.cells if cell.pool == pool]
        return max(
            header_of(self.setup, cell, item).size
            for cell in cells
            for _, item in wanted_sets(self.setup, cell)
        )

    @cached_property
    def measurements(self) -> dict[Cell, CellMeasurements]:
        """Every measurement of every cell, with its null."""
        return {cell: MEASUREMENTS.get(self.setup, cell) for cell in self.setup.cells}

    @property
    def figures(self) -> dict[Cell, CellMeasurements]:
        """The old name of `measurements`."""
        return self.measurements

    @cached_property
    def verdicts(self) -> dict[Cell, CellVerdict]:
        """What is said of every cell."""
        withheld = self.preconditions.withheld if self.preconditions else None
        judged = judge(list(self.measurements.values()), withheld)
        return dict(zip(self.measurements, judged, strict=True))

    @cached_property
    def preconditions(self) -> Preconditions | None:
        """What was asked before the verdict on an existing release; else None."""
        return preconditions_of(self.setup)

    def _claim_for_a_record(self, cell: Cell) -> float | None:
        """Return the ε that is promised for one record, where persons are asked about."""
        claim, bound = self.claim(cell), self.measurements[cell].epsilon
        if not self.setup.spec.game.persons or claim.unit == "person" or bound is None:
            return None
        return claim.epsilon_at(bound.delta, self.setup.plans[cell.pool].adjacency)

    def _copies_in(self, cell: Cell) -> Copies | None:
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
        return [row for cell in self.setup.cells for row in NEAREST.get(self.setup, cell)]

    @cached_property
    def remarks(self) -> list[Remark]:
        """What one existing release can and cannot show; none for a game."""
        return remarks_on(self.setup, self.preconditions) if self.preconditions else []

    @cached_property
    def _tables(self) -> tuple[list[CellRow], list[ProxyRow]]:
        rows: list[CellRow] = []
        details: list[ProxyRow] = []
        for cell, figures in self.measurements.items():
            some, more = evaluate(
                cell,
                self.setup.proxies,
                ROUNDS.get(self.setup, cell),
                self.setup.plans[cell.pool],
                figures,
                self.verdicts[cell],
                len(self.measurements),
                self._copies_in(cell),
                self.setup.spec.game.unit,
                self._claim_for_a_record(cell),
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
        """Whether the folder's results are read."""
        return self.results_are_current()

    def results_are_current(self, but: Sequence[str] = ()) -> bool:
        """Say whether the folder's results were made from this evidence and have today's columns.

        Results with other columns are not read but written again; files in `but` may differ.
        """
        if not self.folder.holds(results_key(self.setup), but=but):
            return False
        kinds: dict[str, Row] = {"cells": CellRow, "proxies": ProxyRow}
        kinds |= {entry.name: entry.plugin.row for entry in analyses}
        listed = (self.folder.manifest() or {})["files"]
        return all(
            has_columns(kind, self._kept(name))
            for name, kind in kinds.items()
            if f"{RESULTS}/{name}.parquet" in listed
        )

    def _kept(self, name: str) -> Path | BinaryIO:
        return opened(self.folder.results / f"{name}.parquet")

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
            beside(cell, [row for row in self.cells if is_of(row, cell)], found)
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
        return Study(
            cells=tuple(self.cells),
            proxies=tuple(self.proxies),
            records=tuple(self.records),
            prior=tuple(self.prior),
            comparison=tuple(self.comparison),
            cell_data=tuple(self.cell_data),
            attributes=tuple(
                row
                for pool in self.setup.pools
                if draws_sets(self.setup, pool)
                for row in ATTRIBUTES.get(self.setup, pool)
            ),
            pools=tuple(pool_facts(self.setup, pool) for pool in self.setup.pools),
        )

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """What every analysis says of this audit, or what it needs: a table each in `results/`."""
        if not self._whole:
            return outcomes_of(self.study, also=self.setup.spec.analyses.also)
        summary = json.loads((self.folder.results / "summary.json").read_text(encoding="utf-8"))
        return [
            Outcome(
                name,
                tuple(read_parquet(analyses.get(name).plugin.row, self._kept(name)))
                if said["rows"]
                else (),
                said["lacks"],
            )
            for name, said in summary["analyses"].items()
        ]

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
        given = self.preconditions is not None
        return tuple(
            CellResult(
                cell=cell,
                measurements=figures,
                judged=self.verdicts[cell],
                claim=self.claim(cell),
                rows=tuple(row for row in self.cells if is_of(row, cell)),
                degenerate=self.degenerate(cell),
                cells=len(self.measurements),
                counted=not given and self.setup.spec.game.adjacency == "add",
                copies=self._copies_in(cell),
                canaries=bool(self.setup.pools[cell.pool].written),
            )
            for cell, figures in self.measurements.items()
        )

    @cached_property
    def results(self) -> Results:
        """All results as plain data: what tables, page, figures and comparisons are made from."""
        setup = self.setup
        return Results(
            folder=str(self.folder.root),
            fingerprint=setup.corpus.fingerprint,
            corpus=corpus_facts(setup),
            pools={name: size_facts(setup, name, self.release_size(name)) for name in setup.pools},
            game=setup.spec.game,
            facts=facts_of(setup),
            attackers={
                "encoder": setup.plugins.encoder.identity(),
                "proxies": [family.name for family in setup.plugins.families],
            },
            plans=setup.plans,
            cells=self.cell_results,
            study=self.study,
            tables=self._all_tables,
            outcomes=tuple(self.outcomes),
            curves={cell: self.curves(cell) for cell in setup.cells},
            check=check_facts(setup, self.preconditions, self.copies, self.remarks),
            texts={
                name: "\n".join(record.text for record in setup.records(pool.records_of(target)))
                for title, pool in setup.pools.items()
                for target, name in enumerate(setup.target_names(title))
            },
        )

    @cached_property
    def _all_tables(self) -> dict[str, Table]:
        """Return the tables of `results/` by name; one without rows only if every audit has it."""
        tables: dict[str, Table] = {
            "cells": (CellRow, self.cells),
            "proxies": (ProxyRow, self.proxies),
            "prior": (PriorRow, self.prior),
            "comparison": (ComparisonRow, self.comparison),
            "records": (RecordRow, self.records),
            "utility": (UtilityRow, self.utility),
            "copies": (CopyRow, self.copies),
            "nearest": (NearestRow, self.nearest),
        }
        for outcome in self.outcomes:
            tables[outcome.name] = (analyses.get(outcome.name).plugin.row, outcome.rows)
        return {
            name: table
            for name, table in tables.items()
            if table[1] or name in ("cells", "proxies")
        }


def open_run(out: Place | str, *, keep: bool = True, trust_plugins: bool = False) -> Audit:
    """Open the audit of a run folder, to read its tables, scores and claims.

    What is computed on the way is kept in its store, unless `keep` is false. Files with plug-ins
    that its spec names are run only if you say `trust_plugins`.
    """
    folder = RunFolder(place(out))
    loaded = folder.spec()
    check_trusted(loaded.spec.plugins, folder.root, trust=trust_plugins)
    store = folder.store if keep else StagedStore(folder.store)
    return Audit(set_up(loaded, store), folder)


def results_key(setup: Setup) -> str:
    """Return the key of the results: of all measurements they are made from, and their format."""
    keys = [measurements_key(setup, cell) for cell in setup.cells]
    prior_keys = [prior_key(setup, cell, a) for cell in setup.cells for a in setup.plugins.attacks]
    # Sorted by name: registration order depends on import order.
    also = setup.spec.analyses.also
    run = [entry for entry in analyses if entry.name in also or not entry.plugin.opt_in]
    said = sorted(([entry.name, entry.version] for entry in run), key=str)
    said += [["profiles", PROFILE_VERSION], ["attributes of records", ATTRIBUTES_VERSION]]
    return digest("findings", RESULTS_VERSION, identity_of(setup), keys, prior_keys, said)
