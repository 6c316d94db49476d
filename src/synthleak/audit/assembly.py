"""What an audit hands on as plain data: rows, the study that analyses see, the report's results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from synthleak.analyses.analysis import Study, analyses
from synthleak.analyses.cells import CellRow, ProxyRow, evaluate
from synthleak.audit.facts import (
    check_facts,
    corpus_facts,
    degenerate_releases,
    facts_of,
    size_facts,
)
from synthleak.audit.history import said_of_history
from synthleak.audit.kept_results import TABLES, settled
from synthleak.audit.steps.cell_data import pool_facts
from synthleak.audit.steps.measurements import ROUNDS
from synthleak.audit.steps.profiles import ATTRIBUTES, draws_sets
from synthleak.core.cell import Cell, is_of
from synthleak.report.results import CellResult, Results, Table

if TYPE_CHECKING:
    from synthleak.audit.result import Audit


def evaluated(audit: Audit) -> tuple[list[CellRow], list[ProxyRow]]:
    """Return the rows of `cells.csv` and of `proxies.csv`."""
    setup = audit.setup
    rows: list[CellRow] = []
    details: list[ProxyRow] = []
    for cell, measured in audit.measurements.items():
        some, more = evaluate(
            cell,
            setup.proxies,
            ROUNDS.get(setup, cell),
            setup.plan_of(cell),
            measured,
            audit.verdicts[cell],
            len(audit.measurements),
            audit.copies_in(cell),
            setup.spec.game.unit,
            _claim_for_a_record(audit, cell),
            setup.game_of(cell),
        )
        rows += some
        details += more
    return rows, details


def _claim_for_a_record(audit: Audit, cell: Cell) -> float | None:
    """Return the ε that is promised for one record, where persons are asked about."""
    claim, bound = audit.claim(cell), audit.measurements[cell].epsilon
    if not audit.setup.spec.game.persons or claim.unit == "person" or bound is None:
        return None
    return claim.epsilon_at(bound.delta, audit.setup.plan_of(cell).adjacency)


def study_of(audit: Audit) -> Study:
    """Return the tables of an audit and the cells as they were played, as analyses see them."""
    setup = audit.setup
    return Study(
        cells=tuple(audit.cells),
        proxies=tuple(audit.proxies),
        records=tuple(audit.records),
        prior=tuple(audit.prior),
        comparison=tuple(audit.comparison),
        cell_data=tuple(audit.cell_data),
        attributes=tuple(
            row
            for pool in setup.pools
            if draws_sets(setup, pool)
            for row in ATTRIBUTES.get(setup, pool)
        ),
        pools=tuple(pool_facts(setup, pool) for pool in setup.pools),
    )


def results_of(audit: Audit) -> Results:
    """Return all results: what tables, page, figures and comparisons are made from."""
    setup = audit.setup
    return Results(
        folder=str(audit.folder.root),
        fingerprint=setup.corpus.fingerprint,
        corpus=corpus_facts(setup),
        pools={name: size_facts(setup, name) for name in setup.pools},
        game=setup.spec.game,
        facts=facts_of(setup),
        attackers={
            "encoder": setup.plugins.encoder.identity(),
            "proxies": [family.name for family in setup.plugins.families],
        },
        plans=setup.plans,
        cells=audit.cell_results,
        study=audit.study,
        tables=audit.tables,
        outcomes=tuple(audit.outcomes),
        adjudicated=tuple(settled(setup, audit.folder)[1]),
        curves={cell: audit.curves(cell) for cell in setup.cells},
        history=said_of_history(setup, audit.folder),
        check=check_facts(setup, audit.preconditions, audit.copies, audit.remarks),
        texts={
            name: "\n".join(record.text for record in setup.records(pool.records_of(target)))
            for title, pool in setup.pools.items()
            for target, name in enumerate(setup.target_names(title))
        },
    )


def cell_results_of(audit: Audit) -> tuple[CellResult, ...]:
    """Return what was measured, found and promised, cell by cell."""
    given = audit.preconditions is not None
    return tuple(
        CellResult(
            cell=cell,
            measurements=measured,
            judged=audit.verdicts[cell],
            claim=audit.claim(cell),
            rows=tuple(row for row in audit.cells if is_of(row, cell)),
            degenerate=degenerate_releases(audit.setup, cell),
            cells=len(audit.measurements),
            counted=not given and audit.setup.spec.game.adjacency == "add",
            copies=audit.copies_in(cell),
            canaries=bool(audit.setup.pools[cell.pool].written),
            planned=audit.setup.spec.game.instances,
        )
        for cell, measured in audit.measurements.items()
    )


def tables_of(audit: Audit) -> dict[str, Table]:
    """Return the tables of `results/` by name; one without rows only if every audit has it."""
    tables: dict[str, Table] = {name: (kind, getattr(audit, name)) for name, kind in TABLES.items()}
    for outcome in audit.outcomes:
        tables[outcome.name] = (analyses.get(outcome.name).plugin.row, outcome.rows)
    return {
        name: table for name, table in tables.items() if table[1] or name in ("cells", "proxies")
    }
