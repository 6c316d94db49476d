"""The synthetic records that are most like a named record: what a reader of its name asks next.

Of the releases with the record it is the one in which the signal that decided scores it highest;
a check has one release. Rows are numbers: no text is kept.
"""

from __future__ import annotations

from collections.abc import Sequence

from synthleak.analyses.copies import NearestRow, nearest_rows
from synthleak.audit.setup import Setup
from synthleak.audit.steps.exposed import measured_with_copies
from synthleak.audit.steps.measurements import MEASUREMENTS, measurements_key, scored_cell
from synthleak.audit.steps.preconditions import COPIES
from synthleak.audit.steps.releases import header_of, open_release, wanted_sets
from synthleak.core.artefact import Artefact, as_json
from synthleak.core.cell import Cell
from synthleak.core.identity import digest
from synthleak.releases.release import Synthetic

VERSION = 1
COUNT = 3
"""How many rows are listed for a record."""


def _key(setup: Setup, cell: Cell) -> str:
    texts = [header_of(setup, cell, item).text for _, item in wanted_sets(setup, cell)]
    copies = [] if setup.corpus.split is None else [COPIES.key(setup, cell)]
    return digest("nearest", VERSION, measurements_key(setup, cell), texts, *copies)


def _look(setup: Setup, cell: Cell) -> list[NearestRow]:
    named = [row.target for row in measured_with_copies(setup, cell).records if row.named]
    plan, pool, names = (
        setup.plan_of(cell),
        setup.pools[cell.pool],
        setup.target_names(cell.pool),
    )
    chosen = _releases(setup, cell, named)
    rows = []
    for place in sorted(set(chosen.values())):
        asked = [target for target in named if chosen[target] == place]
        texts = [record.text for record in _release(setup, cell, place)]
        own = [setup.records(pool.records_of(target)) for target in asked]
        looked = iter(nearest_rows([item.text for some in own for item in some], texts, COUNT))
        found = [_nearest([next(looked) for _ in some]) for some in own]
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


def _nearest(found: Sequence[Sequence[tuple[int, float]]]) -> list[tuple[int, float]]:
    """Return the rows most like any of a target's records, the most similar first.

    >>> _nearest([[(4, 0.5), (1, 0.2)], [(4, 0.9)]])
    [(4, 0.9), (1, 0.2)]
    """
    best: dict[int, float] = {}
    for row, similarity in (one for rows in found for one in rows):
        best[row] = max(similarity, best.get(row, similarity))
    return sorted(best.items(), key=lambda one: -one[1])[:COUNT]


def _releases(setup: Setup, cell: Cell, named: Sequence[int]) -> dict[int, int]:
    """Return the set whose release is looked at for each named target."""
    trials, deciding = setup.plan_of(cell).trials, MEASUREMENTS.get(setup, cell).deciding
    held = {target: trials.set[(trials.target == target) & trials.member] for target in named}
    if all(len(sets) == 1 for sets in held.values()) or deciding is None:
        return {target: int(sets[0]) for target, sets in held.items()}
    scores = scored_cell(setup, cell).values[:, :, deciding.signal]
    return {target: int(sets[scores[sets, target].argmax()]) for target, sets in held.items()}


def _release(setup: Setup, cell: Cell, place: int) -> Sequence[Synthetic]:
    return open_release(setup, header_of(setup, cell, setup.plan_of(cell).sets[place]).text)


NEAREST = Artefact("figures", _key, _look, *as_json(list[NearestRow]))
"""The synthetic rows most like each named record of a cell."""


def nearest_texts(setup: Setup, cell: Cell) -> list[str]:
    """Return the texts of those rows, in their order."""
    sets = {item.name: place for place, item in wanted_sets(setup, cell)}
    rows = NEAREST.get(setup, cell)
    releases = {name: _release(setup, cell, sets[name]) for name in {row.release for row in rows}}
    return [releases[row.release][row.row - 1].text for row in rows]
