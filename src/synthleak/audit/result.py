"""An audit whose releases and evidence are all there: its tables, and all results as plain data.

Rows are made from the stored measurements when they are first asked for; `Audit.results` holds all
of them, and tables, page, figures and comparisons are functions of it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

from synthleak.analyses.analysis import CellData, Outcome, Study, analyses, outcomes_of
from synthleak.analyses.cells import (
    CellRow,
    CellVerdict,
    ProxyRow,
    RecordRow,
    evaluate,
    judge,
    judge_smaller,
)
from synthleak.analyses.copies import Copies, CopyRow, NearestRow
from synthleak.analyses.disclosures import DisclosureRow, Disclosures
from synthleak.analyses.ladder import LadderRow, ladder_rows
from synthleak.analyses.prior import compare, prior_rows
from synthleak.analyses.vulnerability import record_rows
from synthleak.audit import facts, kept_results
from synthleak.audit.commitment import kept_commitment
from synthleak.audit.folder import CONFIDENTIAL, REPORT, SIGN_OFF, RunFolder
from synthleak.audit.setup import (
    Setup,
    cells_of_all_sizes,
    draws_sets,
    game_of,
    generator_of,
    plan_of,
    proxies_of,
    records_at,
    smaller_cells,
    target_names,
)
from synthleak.audit.stages import set_up
from synthleak.audit.steps import exposed, measurements, preconditions, releases
from synthleak.audit.steps.disclosures import disclosure_rows, disclosures_in
from synthleak.audit.steps.model_rung import MODEL_RUNG, model_needs
from synthleak.audit.steps.observations import scores_of
from synthleak.audit.steps.prior_attacks import PRIOR, attacks_on
from synthleak.audit.steps.work import at_present_look, said_of_history
from synthleak.calibration import Scores
from synthleak.core.cell import CANNOT_SAY, Cell, counted_cells, is_of
from synthleak.core.errors import MissingExtra, UserError
from synthleak.core.locations import Location, locate, write_file
from synthleak.core.registry import check_trusted
from synthleak.core.runtime import single_threaded
from synthleak.core.store import StagedStore
from synthleak.core.validation import nearest
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.null import holm
from synthleak.releases.claim import Claim
from synthleak.releases.release import Synthetic
from synthleak.report.html import render
from synthleak.report.notebook import notebook
from synthleak.report.results import CellResult, Results, Table
from synthleak.report.sign_off import check_sign_off_format, render_sign_off
from synthleak.report.verdict import headline


@dataclass(frozen=True)
class Audit:
    """An audit whose releases and evidence are all there.

    Attributes:
        setup: What it was made with: spec, records, pools, plans and plug-ins.
        folder: The run folder that it lies in.
    """

    setup: Setup
    folder: RunFolder

    def __repr__(self) -> str:
        cells = counted_cells(self.setup.cells)
        return f"<Audit of {self.setup.corpus!r}, {cells}, in {str(self.folder.root)!r}>"

    def __str__(self) -> str:
        return self.headline

    def __dir__(self) -> list[str]:
        return [name for name in super().__dir__() if not name.startswith("_")]

    def _repr_html_(self) -> str:
        return notebook(
            self.headline,
            self._cell_results,
            records=len(self.setup.corpus),
            folder=self.folder.root,
            named=self.named,
            copies=self.copies,
            remarks=self._remarks,
        )

    @property
    def headline(self) -> str:
        """What was found, in a few sentences."""
        declared = self._preconditions.declared if self._preconditions else None
        return headline(self._cell_results, declared)

    @property
    def leak_found(self) -> bool | None:
        """Whether a leak was found in some cell. If not, none was found at this power.

        None where no cell leaks and nothing can be said of one, as with too few records.
        """
        verdicts = [one.verdict for one in self._cell_results]
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

    @cached_property
    def cells(self) -> list[CellRow]:
        """The best proxy of every scenario of every cell: `results/cells.csv`."""
        return [row for cell in self.setup.cells for row in self._rows[cell][0]]

    @cached_property
    def proxies(self) -> list[ProxyRow]:
        """Every proxy of every scenario of every cell: `results/proxies.csv`."""
        return [row for cell in self.setup.cells for row in self._rows[cell][1]]

    @cached_property
    def records(self) -> list[RecordRow]:
        """Every record of every pool, in every cell: `results/records.csv`."""
        return [
            *(row for cell in self._cell_data for row in record_rows(cell)),
            *(
                row
                for cell in self.setup.cells
                if not draws_sets(self.setup, cell.pool)
                for row in exposed.exposed_rows(self.setup, cell, self._measurements[cell])
            ),
        ]

    @cached_property
    def copies(self) -> list[CopyRow]:
        """The records that a given release repeats, by id and row: `results/copies.csv`."""
        if self._preconditions is None:
            return []
        return [
            row for cell in self.setup.cells for row in preconditions.copy_rows(self.setup, cell)
        ]

    @cached_property
    def disclosures(self) -> list[DisclosureRow]:
        """The passages and identifiers that releases have of records: `disclosures.csv`."""
        return [
            row
            for cell, one in self._disclosures.items()
            if one is not None
            for row in disclosure_rows(self.setup, cell, one)
        ]

    @cached_property
    def _nearest(self) -> list[NearestRow]:
        """The synthetic rows most like each named record: `results/nearest.csv`."""
        if self._withheld is not None:
            return []
        return [row for cell in self.setup.cells for row in exposed.NEAREST.get(self.setup, cell)]

    @cached_property
    def tables(self) -> dict[str, Table]:
        """The tables of `results/` by name; one without rows only if every audit has it."""
        rows: dict[str, Any] = {
            "cells": self.cells,
            "proxies": self.proxies,
            "prior": self.study.prior,
            "comparison": self.study.comparison,
            "records": self.records,
            "utility": [releases.utility_row_of(self.setup, data.cell) for data in self._cell_data],
            "copies": self.copies,
            "nearest": self._nearest,
            "sizes": self._sizes,
            "ladder": [row for one in self._cell_results for row in one.ladder],
            "disclosures": self.disclosures,
        }
        tables: dict[str, Table] = {
            name: (kind, rows[name]) for name, kind in kept_results.TABLES.items()
        }
        for outcome in self.outcomes:
            tables[outcome.name] = (analyses.get(outcome.name).plugin.row, outcome.rows)
        return {
            name: table
            for name, table in tables.items()
            if table[1] or name in ("cells", "proxies")
        }

    @cached_property
    def study(self) -> Study:
        """The tables of this audit and the cells as they were played, as analyses see them."""
        setup = self.setup
        attacked = {
            cell: [PRIOR.get(setup, cell, attack) for attack in attacks_on(setup, cell)]
            for cell in setup.cells
        }
        return Study(
            cells=tuple(self.cells),
            proxies=tuple(self.proxies),
            records=tuple(self.records),
            prior=tuple(row for cell, found in attacked.items() for row in prior_rows(cell, found)),
            comparison=tuple(
                compare(cell, [row for row in self.cells if is_of(row, cell)], found)
                for cell, found in attacked.items()
                if found
            ),
            cell_data=tuple(self._cell_data),
            attributes=tuple(
                row
                for pool in setup.pools
                if draws_sets(setup, pool)
                for row in measurements.ATTRIBUTES.get(setup, pool)
            ),
            pools=tuple(measurements.pool_facts(setup, pool) for pool in setup.pools),
        )

    @cached_property
    def outcomes(self) -> list[Outcome]:
        """What every analysis says of this audit, or what it needs: a table each in `results/`."""
        if kept_results.are_current(self.setup, self.folder):
            return kept_results.kept_outcomes(self.folder)
        return outcomes_of(self.study, also=self.setup.spec.analyses.also)

    @cached_property
    def results(self) -> Results:
        """All results as plain data: what tables, page, figures and comparisons are made from."""
        setup = self.setup
        with single_threaded(), self.folder.reading():
            return Results(
                folder=str(self.folder.root),
                fingerprint=setup.corpus.fingerprint,
                corpus=facts.corpus_facts(setup),
                pools={name: facts.size_facts(setup, name) for name in setup.pools},
                game=setup.spec.game,
                facts=facts.facts_of(setup),
                attackers={
                    "encoder": setup.plugins.encoder.identity(),
                    "proxies": [family.name for family in setup.plugins.families],
                },
                plans=setup.plans,
                cells=self._cell_results,
                study=self.study,
                outcomes=tuple(self.outcomes),
                tables=self.tables,
                adjudicated=tuple(kept_results.settled(setup, self.folder)[1]),
                curves={cell: measurements.CURVES.get(setup, cell) for cell in setup.cells},
                history=said_of_history(setup, self.folder),
                check=facts.check_facts(setup, self._preconditions, self.copies, self._remarks),
                texts={
                    name: "\n".join(
                        record.text for record in records_at(setup, pool.records_of(target))
                    )
                    for title, pool in setup.pools.items()
                    for target, name in enumerate(target_names(setup, title))
                },
            )

    def scores(self, cell: Cell) -> list[Scores]:
        """Return the calibrated scores of every target on every release.

        Args:
            cell: One of `setup.cells`.

        Returns:
            One table per scenario.
        """
        return scores_of(self.setup, cell)

    def claim(self, cell: Cell) -> Claim:
        """Return what the releases of a cell promise.

        Args:
            cell: One of `setup.cells`.

        Returns:
            The claim that the generator stated: events, and a curve δ(ε).
        """
        return releases.claim_of(self.setup, cell)

    def release(self, cell: Cell, position: int) -> list[Synthetic]:
        """Return the records of one release of a cell.

        Args:
            cell: One of `setup.cells`.
            position: The position of its set in the plan.

        Returns:
            The synthetic records, in the order in which they were made.

        Raises:
            UserError: If the release was not made yet, or was purged.
        """
        item = self.setup.plans[cell.pool].sets[position]
        if not releases.is_made(self.setup, cell, item):
            raise UserError(
                f"release {position} of {cell.generator} was not made yet by this version",
                str(self.folder.root),
                "continue with `run`",
            )
        with self.folder.naming_purge():
            return releases.open_release(
                self.setup, releases.header_of(self.setup, cell, item).text
            )

    def to_pandas(self, table: str = "cells") -> Any:
        """Return a table of `results/` as a pandas frame.

        Args:
            table: Its name there, such as `cells` or `records`.

        Returns:
            A `pandas.DataFrame`. Rows of a release, which tables count from 1, have a second column
            that counts from 0, as `row_position` of `copies`: `release.iloc[frame.row_position]`.

        Raises:
            UserError: If there is no such table, or pandas is not installed.
        """
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
        frame = pandas.DataFrame([asdict(row) for row in rows], columns=columns)
        for name in {"row", "nearest_row"} & {*columns}:
            position = pandas.to_numeric(frame[name]) - 1
            frame.insert(columns.index(name) + 1, f"{name}_position", position)
        return frame

    def write_report(
        self, path: Path | str | None = None, *, include_text: bool = False
    ) -> Location:
        """Write the page.

        Args:
            path: Where to; beside the results by default.
            include_text: Whether it holds the texts of the pools' records and of the synthetic
                records nearest to named ones. It then says so, and goes to a file of its own.

        Returns:
            Where the page lies.
        """
        results = self.results
        if include_text:
            with self.folder.naming_purge():
                texts = [
                    t for cell in self.setup.cells for t in exposed.nearest_texts(self.setup, cell)
                ]
            results = replace(results, nearest_texts=tuple(texts))
        with self.folder.reading():
            page = render(results, include_text=include_text)
        if path is None and not include_text:
            self.folder.rewrite_report(page)
            return self.folder.root / REPORT
        target = self.folder.root / CONFIDENTIAL if path is None else Path(path)
        if include_text and path is not None:
            self.folder.note_text_page(target)  # first: a purge is to find what is written
        write_file(target, page)
        return target

    def sign_off(self, path: Path | str | None = None, *, by: str | None = None) -> Location:
        """Write one page to file, which holds no text of a record (docs/sign-off.md).

        If the folder keeps a commitment, its hash stands on the page; an audit that is not the
        committed one is refused.

        Args:
            path: Where to, `sign-off.html` beside the results by default. A name that ends in
                `.md` gives Markdown.
            by: Who signs; the line is left blank otherwise.

        Returns:
            Where the page lies.

        Raises:
            UserError: If the audit is not finished, or not the committed one.
        """
        target = self.folder.root / SIGN_OFF if path is None else Path(path)
        form = check_sign_off_format(target.name)
        if not kept_results.are_current(self.setup, self.folder):
            raise UserError(
                "the audit is not finished", str(self.folder.root), "finish it with `run` first"
            )
        provenance = self.folder.provenance()
        if commitment := kept_commitment(self.folder):
            commitment.check(self.setup, self.folder)
            provenance = replace(provenance, committed=commitment.on(self.cells))
        write_file(target, render_sign_off(self.results, provenance, form, by=by))
        return target

    @cached_property
    def _preconditions(self) -> preconditions.Preconditions | None:
        return preconditions.preconditions_of(self.setup)

    @property
    def _withheld(self) -> str | None:
        """Why no verdict can be given, whatever was measured; None where one can."""
        return self._preconditions.withheld if self._preconditions else None

    @cached_property
    def _remarks(self) -> list[facts.Remark]:
        return facts.remarks_on(self.setup)

    @cached_property
    def _measurements(self) -> dict[Cell, CellMeasurements]:
        """Every cell at every size, without tests where no verdict can be given."""
        setup, withheld = self.setup, self._withheld
        measured = {
            cell: exposed.measured_with_copies(setup, cell)
            if cell == cell.whole
            else measurements.CELL_MEASUREMENTS.get(setup, cell)
            for cell in cells_of_all_sizes(setup)
        }
        if withheld is None:
            return measured
        return {cell: one.without_tests(withheld) for cell, one in measured.items()}

    @cached_property
    def _verdicts(self) -> dict[Cell, CellVerdict]:
        """The verdicts on every cell; on its smaller releases in sequence, the largest first."""
        setup, measured = self.setup, self._measurements
        looks = setup.spec.game.number_of_looks
        judged = judge([measured[cell] for cell in setup.cells], looks)
        verdicts = dict(zip(setup.cells, judged, strict=True))
        for parts in zip(*(smaller_cells(setup, cell) for cell in setup.cells), strict=True):
            judged = judge_smaller([measured[part] for part in parts], judged, looks)
            verdicts |= zip(parts, judged, strict=True)
        return verdicts

    @cached_property
    def _ladder(self) -> dict[Cell, list[LadderRow]]:
        """The rungs of every cell with a model; p is adjusted over these cells."""
        setup = self.setup
        models = {
            cell: MODEL_RUNG.get(setup, cell) for cell in setup.cells if model_needs(setup, cell)
        }
        judged = judge([one.measured for one in models.values()], setup.spec.game.number_of_looks)
        return {
            cell: ladder_rows(
                cell,
                model,
                verdict,
                [row for row in self.cells if is_of(row, cell)],
                generator_of(setup, cell).scored_with(cell.epsilon),
            )
            for (cell, model), verdict in zip(models.items(), judged, strict=True)
        }

    @cached_property
    def _copies(self) -> dict[Cell, Copies | None]:
        found = {cell: preconditions.copies_in(self.setup, cell) for cell in self.setup.cells}
        return _over_cells(found, "p_all")

    @cached_property
    def _disclosures(self) -> dict[Cell, Disclosures | None]:
        cells, withheld = self.setup.cells, self._withheld
        return _over_cells({one: disclosures_in(self.setup, one, withheld) for one in cells}, "p")

    @cached_property
    def _rows(self) -> dict[Cell, tuple[list[CellRow], list[ProxyRow]]]:
        """The rows of every cell at every size, of scenarios and of proxies."""
        with self.folder.reading():
            return {cell: self._rows_of(cell) for cell in self._measurements}

    @cached_property
    def _sizes(self) -> list[CellRow]:
        """Every cell at every size of its releases, the largest first: `results/sizes.csv`."""
        if not self.setup.spec.game.smaller_sizes:
            return []
        return [row for rows, _ in self._rows.values() for row in rows]

    def _rows_of(self, cell: Cell) -> tuple[list[CellRow], list[ProxyRow]]:
        setup, verdicts = self.setup, self._verdicts
        leaking = [
            part for part in verdicts if part.whole == cell.whole and verdicts[part].verdict.leaks
        ]
        return evaluate(
            cell,
            proxies_of(setup),
            measurements.ROUNDS.get(setup, cell),
            plan_of(setup, cell),
            self._measurements[cell],
            verdicts[cell],
            len(setup.cells),
            copies=self._copies[cell.whole],
            disclosures=self._disclosures[cell.whole],
            unit=setup.spec.game.unit,
            claim_as_stated=self._claim_for_a_record(cell),
            game=game_of(setup, cell),
            release_size=facts.seen_texts(setup, cell),
            leaks_from=min((facts.seen_texts(setup, part) for part in leaking), default=None),
        )

    def _claim_for_a_record(self, cell: Cell) -> float | None:
        """Return the ε that is promised for one record, where persons are asked about."""
        claim, bound = self.claim(cell), self._measurements[cell.whole].epsilon
        if not self.setup.spec.game.persons or claim.unit == "person" or bound is None:
            return None
        return claim.epsilon_at(bound.delta, plan_of(self.setup, cell).adjacency)

    @cached_property
    def _cell_data(self) -> list[CellData]:
        """Every cell as it was played: coins, targets, V(x) under every signal."""
        cells = [cell for cell in self.setup.cells if draws_sets(self.setup, cell.pool)]
        return [measurements.cell_data_of(self.setup, cell) for cell in cells]

    @cached_property
    def _cell_results(self) -> tuple[CellResult, ...]:
        """What was measured, found and promised, cell by cell."""
        return tuple(
            CellResult(
                cell=cell,
                measurements=self._measurements[cell],
                judged=self._verdicts[cell],
                claim=self.claim(cell),
                rows=tuple(row for row in self.cells if is_of(row, cell)),
                degenerate=facts.degenerate_releases(self.setup, cell),
                cells=len(self.setup.cells),
                counted=self._preconditions is None and self.setup.spec.game.adjacency == "add",
                copies=self._copies[cell],
                disclosures=self._disclosures[cell],
                given=self._preconditions is not None,
                canaries=bool(self.setup.pools[cell.pool].written),
                planned=self.setup.spec.game.instances,
                sizes=tuple(row for row in self._sizes if is_of(row, cell)),
                ladder=tuple(self._ladder.get(cell, ())),
            )
            for cell in self.setup.cells
        )


Found = TypeVar("Found", Copies, Disclosures)


def _over_cells(found: Mapping[Cell, Found | None], column: str) -> dict[Cell, Found | None]:
    """Adjust a p-value of what is found in cells for their number, by Holm."""
    adjusted = holm([None if one is None else getattr(one, column) for one in found.values()])
    return {
        cell: None if one is None else replace(one, **dict[str, Any]({column: p}))
        for (cell, one), p in zip(found.items(), adjusted, strict=True)
    }


def open_run(out: Location | str, *, keep: bool = True, trust_plugins: bool = False) -> Audit:
    """Open the audit of a run folder, to read its tables, scores and claims.

    Args:
        out: The run folder, on disk or at a URL.
        keep: Whether what is computed on the way is kept in its store.
        trust_plugins: Whether files with plug-ins that its spec names may be run.

    Returns:
        The audit, which may still be running.

    Raises:
        UserError: If this is no run folder, or it needs plug-ins that are not trusted.
    """
    folder = RunFolder(locate(out))
    loaded = folder.spec()
    check_trusted(loaded.spec.plugins, folder.root, trust=trust_plugins)
    store = folder.store if keep else StagedStore(folder.store)
    return Audit(at_present_look(set_up(loaded, store)), folder)
