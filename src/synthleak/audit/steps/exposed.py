"""Members of a check, one by one: the signal that named each, and its nearest synthetic row.

A member is scored by a signal that the other half of the records chose (docs/method.md §11). Which
one it was, and which row of the release is most similar to the record, is what a reader asks next.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np

from synthleak.analyses.cells import RecordRow
from synthleak.analyses.copies import nearest_rows
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import MEASUREMENTS, measurements_key, scored_cell
from synthleak.audit.steps.preconditions import COPIES, released_text
from synthleak.audit.steps.releases import open_release
from synthleak.core.artefact import Artefact, as_json
from synthleak.core.cell import Cell
from synthleak.core.identity import digest
from synthleak.metrics.measure import EXPOSURE
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.records.exposure import naming_signals
from synthleak.metrics.statistics.table import tenth
from synthleak.metrics.types import Ints

VERSION = 1


@dataclass(frozen=True)
class Exposed:
    """By target: the signal that it is scored by; by member: (row from 1, similarity)."""

    signals: tuple[int, ...]
    nearest: dict[int, tuple[int, float]]


def _key(setup: Setup, cell: Cell) -> str:
    return digest("exposed", VERSION, measurements_key(setup, cell), released_text(setup, cell))


def _look(setup: Setup, cell: Cell) -> Exposed:
    scored, pool = scored_cell(setup, cell), setup.pools[cell.pool]
    member, rng = scored.plan.trials.member, scored.stream(EXPOSURE)
    signals = naming_signals(scored.values[0], member, rng, scored.drawn, scored.words)
    owner = _owners(setup, cell)
    places = np.flatnonzero(member[owner]).tolist()
    texts = [record.text for record in setup.records([pool.asked[place] for place in places])]
    release = [record.text for record in open_release(setup, released_text(setup, cell))]
    rows = {
        place: nearest
        for place, (nearest,) in zip(places, nearest_rows(texts, release), strict=True)
    }
    copied = {c.target: c for c in COPIES.get(setup, cell).found if member[owner[c.target]]}
    rows |= {place: (copy.row, copy.similarity) for place, copy in copied.items()}
    found: dict[int, tuple[int, float]] = {}
    for place, row in rows.items():  # of a person's records, the most similar one
        target = int(owner[place])
        found[target] = max(found.get(target, row), row, key=lambda one: one[1])
    return Exposed(tuple(signals.tolist()), found)


EXPOSED = Artefact("figures", _key, _look, *as_json(Exposed))
"""What is known of each member of a check beside its p-value."""


def _owners(setup: Setup, cell: Cell) -> Ints:
    """Return the target that each of a pool's records belongs to."""
    sizes = setup.pools[cell.pool].sizes
    return np.repeat(np.arange(len(sizes)), sizes)


def _copied(setup: Setup, cell: Cell) -> Counter[int]:
    """Count the records of each target that the release repeats, word for word or nearly."""
    owner = _owners(setup, cell).tolist()
    return Counter(owner[copy.target] for copy in COPIES.get(setup, cell).found)


def measured_with_copies(setup: Setup, cell: Cell) -> CellMeasurements:
    """Return the measurements of a cell; members of a check are also named by their copies.

    A copy identifies its record only where the release copies more members than the holdout
    explains: common phrases are copied from both sides (docs/method.md §11).
    """
    measured = MEASUREMENTS.get(setup, cell)
    if setup.corpus.split is None or not (copies := COPIES.get(setup, cell)).exceed:
        return measured
    owner = _owners(setup, cell).tolist()
    exact = {owner[copy.target] for copy in copies.found if copy.verbatim}
    rows = (replace(row, copied=row.target in exact) for row in measured.records)
    return replace(measured, records=tuple(rows))


def exposed_rows(setup: Setup, cell: Cell, figures: CellMeasurements) -> list[RecordRow]:
    """Write the members of a cell as rows, the most exposed first."""
    count = len(figures.records)
    exposed, proxies = EXPOSED.get(setup, cell), setup.proxies
    names, copied = setup.target_names(cell.pool), _copied(setup, cell)
    rows = []
    for rank, row in enumerate(figures.records, start=1):
        scenario, proxy = divmod(exposed.signals[row.target], len(proxies))
        nearest, similarity = exposed.nearest[row.target]
        rows.append(
            RecordRow(
                **cell.columns,
                record=names[row.target],
                auc=row.auc,
                p_value=row.p,
                q_value=row.q,
                scenario=figures.rows[scenario].scenario,
                proxy=proxies[proxy].name,
                joined=1,
                v_rank=rank,
                top_tenth="yes" if rank <= tenth(count) else "",
                nearest_row=nearest,
                similarity=similarity,
                copies=copied.get(row.target, 0),
                named="yes" if row.named else "",
            )
        )
    return rows
