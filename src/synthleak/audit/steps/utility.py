"""What the releases of a cell are good for."""

from __future__ import annotations

from synthleak.analyses.utility import (
    MOST_TESTS,
    RELEASES,
    UTILITY_VERSION,
    Measures,
    UtilityRow,
    measure,
    utility_row,
)
from synthleak.audit.setup import Setup
from synthleak.audit.steps.profiles import draws_sets
from synthleak.audit.steps.releases import header_of, open_release, wanted_sets
from synthleak.core.artefact import Artefact, Need, as_json
from synthleak.core.cell import Cell
from synthleak.core.identity import digest
from synthleak.core.seeds import stream
from synthleak.plan.plan import RecordSet


def utility_row_of(setup: Setup, cell: Cell) -> UtilityRow:
    """Return what the first releases of a cell are good for; each measure is made only once."""
    sets = _measured_sets(setup, cell)
    made, real = ([UTILITY.get(setup, cell, item, of) for item in sets] for of in (False, True))
    return utility_row(cell, made, real)


def _measured_sets(setup: Setup, cell: Cell) -> list[RecordSet]:
    """Return the first sets of a plan: which these are depends on no coin."""
    if not draws_sets(setup, cell.pool):
        return []
    return [item for _, item in wanted_sets(setup, cell)][:RELEASES]


def _tests(setup: Setup, cell: Cell, item: RecordSet) -> list[int]:
    """Return at most MOST_TESTS real records, neither targets nor in this set."""
    inside = set(item.records)
    rest = [p for p in setup.pools[cell.pool].candidates if p not in inside]
    order = stream(setup.spec.seed, "utility", cell.pool).permutation(len(rest))
    return [rest[place] for place in order[:MOST_TESTS]]


def _utility_key(setup: Setup, cell: Cell, item: RecordSet, real: bool) -> str:
    sample = setup.raw_key(item) if real else header_of(setup, cell, item).text
    tests = digest("tests", setup.corpus.fingerprint, _tests(setup, cell, item))
    encoder = setup.plugins.encoder.identity()
    return digest("utility", UTILITY_VERSION, sample, tests, encoder)


def _measure(setup: Setup, cell: Cell, item: RecordSet, real: bool) -> Measures:
    records = (
        setup.records(item.records)
        if real
        else open_release(setup, header_of(setup, cell, item).text)
    )
    tests = setup.records(_tests(setup, cell, item))
    return measure(
        [(record.text, record.labels) for record in records],
        [(record.text, record.labels) for record in tests],
        setup.encode,
    )


UTILITY = Artefact("utility", _utility_key, _measure, *as_json(Measures))
"""The measures of one release, or of the real records that it was made from."""


def utility_needs(setup: Setup, cell: Cell) -> list[Need]:
    """Return what is measured of the first releases of a cell."""
    sets = _measured_sets(setup, cell)
    return [(UTILITY, (cell, item, real)) for item in sets for real in (False, True)]
