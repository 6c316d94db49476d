"""What the releases of a cell are good for."""

from __future__ import annotations

from synthleak.analyses.cells import Cell
from synthleak.analyses.utility import (
    MOST_TESTS,
    RELEASES,
    UTILITY_VERSION,
    Measures,
    UtilityRow,
    measure,
    utility_row,
)
from synthleak.identity import digest
from synthleak.plan.plan import RecordSet
from synthleak.seeds import stream
from synthleak.store import keep, name_of
from synthleak.work.profiles import draws_sets
from synthleak.work.releases import header_of, open_release, wanted_sets
from synthleak.workbench import Workbench


def utility_row_of(bench: Workbench, cell: Cell) -> UtilityRow:
    """Return what the first releases of a cell are good for; each measure is made only once."""
    made, real = [], []
    for item in _measured_sets(bench, cell):
        made.append(_measures(bench, cell, item, real=False))
        real.append(_measures(bench, cell, item, real=True))
    return utility_row(cell, made, real)


def missing_utility(bench: Workbench) -> list[Cell]:
    """Return the cells some of whose measured releases have no measures in the store."""
    return [
        cell
        for cell in bench.cells
        if any(
            not bench.store.exists(name_of("utility", _utility_key(bench, cell, item, real)))
            for item in _measured_sets(bench, cell)
            for real in (False, True)
        )
    ]


def measure_cell(bench: Workbench, cell: Cell) -> int:
    """Make the measures of one cell."""
    utility_row_of(bench, cell)
    return 1


def _measured_sets(bench: Workbench, cell: Cell) -> list[RecordSet]:
    """Return the first sets of a plan: which these are depends on no coin."""
    if not draws_sets(bench, cell.pool):
        return []
    return [item for _, item in wanted_sets(bench, cell)][:RELEASES]


def _tests(bench: Workbench, cell: Cell, item: RecordSet) -> list[int]:
    """Return real records that are no targets and not in this set, at most so many."""
    inside = set(item.records)
    rest = [p for p in bench.pools[cell.pool].candidates if p not in inside]
    order = stream(bench.spec.seed, "utility", cell.pool).permutation(len(rest))
    return [rest[place] for place in order[:MOST_TESTS]]


def _utility_key(bench: Workbench, cell: Cell, item: RecordSet, real: bool) -> str:
    sample = bench.raw_key(item) if real else header_of(bench, cell, item).text
    tests = digest("tests", bench.corpus.fingerprint, _tests(bench, cell, item))
    encoder = bench.plugins.encoder.identity()
    return digest("utility", UTILITY_VERSION, sample, tests, encoder)


def _measures(bench: Workbench, cell: Cell, item: RecordSet, *, real: bool) -> Measures:
    def make() -> Measures:
        records = (
            bench.records(item.records)
            if real
            else open_release(bench, header_of(bench, cell, item).text)
        )
        tests = bench.records(_tests(bench, cell, item))
        return measure(
            [(record.text, record.labels) for record in records],
            [(record.text, record.labels) for record in tests],
            bench.encode,
        )

    key = _utility_key(bench, cell, item, real)
    return keep(bench.store, "utility", key, make, Measures.to_bytes, Measures.from_bytes)
