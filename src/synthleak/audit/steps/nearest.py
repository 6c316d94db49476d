"""The synthetic records that are most like a named record: what a reader of its name asks next.

Of the releases with the record it is the one in which the signal that decided scores it highest;
a check has one release. Rows are numbers: no text is kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from itertools import chain, islice

from synthleak.analyses.copies import NearestRow, nearest_rows
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import MEASUREMENTS, measurements_key, scored_cell
from synthleak.audit.steps.releases import header_of, open_release, wanted_sets
from synthleak.core.artefact import Artefact
from synthleak.core.cell import Cell
from synthleak.core.identity import digest
from synthleak.core.verdict import NAMED
from synthleak.releases.release import Synthetic

VERSION = 1
COUNT = 3
"""How many rows are listed for a record."""


def _key(setup: Setup, cell: Cell) -> str:
    texts = [header_of(setup, cell, item).text for _, item in wanted_sets(setup, cell)]
    return digest("nearest", VERSION, measurements_key(setup, cell), texts)


def _look(setup: Setup, cell: Cell) -> list[NearestRow]:
    named = [row.target for row in MEASUREMENTS.get(setup, cell).records if row.q <= NAMED]
    plan, names = setup.plans[cell.pool], setup.target_names(cell.pool)
    chosen = _releases(setup, cell, named)
    rows = []
    for place in sorted(set(chosen.values())):
        asked = [target for target in named if chosen[target] == place]
        found = _nearest(setup, cell, asked, _release(setup, cell, place))
        rows += [
            NearestRow(
                **cell.columns,
                record=names[target],
                release=plan.sets[place].name,
                rank=rank,
                row=row,
                similarity=similarity,
            )
            for target, nearest in zip(asked, found, strict=True)
            for rank, (row, similarity) in enumerate(nearest, start=1)
        ]
    return rows


def _nearest(
    setup: Setup, cell: Cell, asked: Sequence[int], release: Sequence[Synthetic]
) -> list[list[tuple[int, float]]]:
    """Return the rows nearest to each target, best first; of a person, to any of its records."""
    owned = [setup.records(setup.pools[cell.pool].records_of(target)) for target in asked]
    texts = [record.text for records in owned for record in records]
    found = iter(nearest_rows(texts, [record.text for record in release], COUNT))
    nearest = []
    for records in owned:
        best: dict[int, float] = {}
        for row, similarity in chain.from_iterable(islice(found, len(records))):
            best[row] = max(similarity, best.get(row, 0.0))
        nearest.append(sorted(best.items(), key=lambda one: (-one[1], one[0]))[:COUNT])
    return nearest


def _releases(setup: Setup, cell: Cell, named: Sequence[int]) -> dict[int, int]:
    """Return the set whose release is looked at for each named target."""
    trials, deciding = setup.plans[cell.pool].trials, MEASUREMENTS.get(setup, cell).deciding
    held = {target: trials.set[(trials.target == target) & trials.member] for target in named}
    if all(len(sets) == 1 for sets in held.values()) or deciding is None:
        return {target: int(sets[0]) for target, sets in held.items()}
    scores = scored_cell(setup, cell).values[:, :, deciding.signal]
    return {target: int(sets[scores[sets, target].argmax()]) for target, sets in held.items()}


def _release(setup: Setup, cell: Cell, place: int) -> Sequence[Synthetic]:
    return open_release(setup, header_of(setup, cell, setup.plans[cell.pool].sets[place]).text)


def _dump(rows: list[NearestRow]) -> bytes:
    return json.dumps([asdict(row) for row in rows]).encode()


def _load(data: bytes) -> list[NearestRow]:
    return [NearestRow(**row) for row in json.loads(data)]


NEAREST = Artefact("figures", _key, _look, _dump, _load)
"""The synthetic rows most like each named record of a cell."""


def nearest_texts(setup: Setup, cell: Cell) -> list[str]:
    """Return the texts of those rows, in their order."""
    sets = {item.name: place for place, item in wanted_sets(setup, cell)}
    rows = NEAREST.get(setup, cell)
    releases = {name: _release(setup, cell, sets[name]) for name in {row.release for row in rows}}
    return [releases[row.release][row.row - 1].text for row in rows]
