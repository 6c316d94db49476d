"""Records that are named, one by one: by which signal, and the synthetic rows most like each.

A member of a check is scored by signals that other members chose, and shown by the one that weighs
most (docs/method.md §11). Of the releases with a record of a game, the one is looked at in which
the signal that decided scores it highest. Rows are numbers: no text is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from synthleak.analyses.cells import RecordRow
from synthleak.analyses.copies import NearestRow, nearest_rows
from synthleak.audit.setup import Setup, plan_of, proxies_of, records_at, target_names
from synthleak.audit.steps.disclosures import DISCLOSURES, can_be_read
from synthleak.audit.steps.measurements import CELL_MEASUREMENTS, measurements_key, scored_cell
from synthleak.audit.steps.preconditions import COPIES, FINDINGS, preconditions_of, released_text
from synthleak.audit.steps.releases import header_of, open_release, wanted_sets
from synthleak.core.artefact import Artefact, Need, as_json
from synthleak.core.cell import LEVEL, Cell
from synthleak.core.seeds import digest
from synthleak.metrics.exposure import naming_signals
from synthleak.metrics.measure import EXPOSURE
from synthleak.metrics.measurements import CellMeasurements
from synthleak.metrics.types import Ints
from synthleak.metrics.verdict_statistics import tenth
from synthleak.releases.release import Synthetic

EXPOSED_VERSION = 1


@dataclass(frozen=True)
class Exposed:
    """By target: the signal that it is scored by; by member: (row from 1, similarity)."""

    signals: tuple[int, ...]
    nearest: dict[int, tuple[int, float]]


def _exposed_key(setup: Setup, cell: Cell) -> str:
    return digest(
        "exposed", EXPOSED_VERSION, measurements_key(setup, cell), released_text(setup, cell)
    )


def _find_exposed(setup: Setup, cell: Cell) -> Exposed:
    scored, pool = scored_cell(setup, cell), setup.pools[cell.pool]
    member, rng = scored.coins[0], scored.stream(EXPOSURE)
    signals = naming_signals(scored.values[0], member, rng, scored.plan.block_of, scored.words)
    owner = _owners(setup, cell)
    places = np.flatnonzero(member[owner]).tolist()
    texts = [record.text for record in records_at(setup, [pool.asked[place] for place in places])]
    release = [record.text for record in open_release(setup, released_text(setup, cell))]
    rows = {place: row for place, (row,) in zip(places, nearest_rows(texts, release), strict=True)}
    copied = {c.target: c for c in COPIES.get(setup, cell).found if member[owner[c.target]]}
    rows |= {place: (copy.row, copy.similarity) for place, copy in copied.items()}
    nearest: dict[int, tuple[int, float]] = {}
    for place, row in rows.items():  # of a person's records, the most similar one
        target = int(owner[place])
        nearest[target] = max(nearest.get(target, row), row, key=lambda one: one[1])
    return Exposed(tuple(signals.tolist()), nearest)


EXPOSED = Artefact("figures", _exposed_key, _find_exposed, *as_json(Exposed))
"""What is known of each member of a check beside its p-value."""


def naming_signal(setup: Setup, cell: Cell, target: int) -> int | None:
    """Return which signal of a check scores this target; None in a game, where all do."""
    return None if setup.corpus.split is None else EXPOSED.get(setup, cell).signals[target]


def _owners(setup: Setup, cell: Cell) -> Ints:
    sizes = setup.pools[cell.pool].sizes
    return np.repeat(np.arange(len(sizes)), sizes)


def _copied(setup: Setup, cell: Cell) -> Counter[int]:
    """Count the records of each target that the release repeats, word for word or nearly."""
    owner = _owners(setup, cell).tolist()
    return Counter(owner[copy.target] for copy in COPIES.get(setup, cell).found)


def measured_with_copies(setup: Setup, cell: Cell) -> CellMeasurements:
    """Return the measurements of a cell; members of a check are also named by their copies.

    A copy identifies its record only where the release copies more members than the holdout
    explains, and no held-out record has this text: common phrases are copied from both sides
    (docs/method.md §11).
    """
    measured = CELL_MEASUREMENTS.get(setup, cell)
    if setup.corpus.split is None or (copies := COPIES.get(setup, cell)).p_all > LEVEL:
        return measured
    owner, member = _owners(setup, cell).tolist(), plan_of(setup, cell).trials.member
    verbatim = [(owner[copy.target], copy.row) for copy in copies.found if copy.verbatim]
    also_held_out = {row for target, row in verbatim if not member[target]}
    exact = {target for target, row in verbatim if row not in also_held_out}
    rows = (replace(row, copied=row.target in exact) for row in measured.records)
    return replace(measured, records=tuple(rows))


def exposed_rows(setup: Setup, cell: Cell, figures: CellMeasurements) -> list[RecordRow]:
    """Write the members of a cell as rows, the most exposed first."""
    count = len(figures.records)
    exposed, proxies = EXPOSED.get(setup, cell), proxies_of(setup)
    names, copied = target_names(setup, cell.pool), _copied(setup, cell)
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


NEAREST_VERSION = 1
NEAREST_ROWS = 3
"""How many rows are listed for a record."""


def _nearest_key(setup: Setup, cell: Cell) -> str:
    texts = [header_of(setup, cell, item).text for _, item in wanted_sets(setup, cell)]
    copies = [] if setup.corpus.split is None else [COPIES.key(setup, cell)]
    return digest("nearest", NEAREST_VERSION, measurements_key(setup, cell), texts, *copies)


def _find_nearest(setup: Setup, cell: Cell) -> list[NearestRow]:
    named = [row.target for row in measured_with_copies(setup, cell).records if row.named]
    plan, pool, names = (
        plan_of(setup, cell),
        setup.pools[cell.pool],
        target_names(setup, cell.pool),
    )
    chosen = _deciding_sets(setup, cell, named)
    rows = []
    for place in sorted(set(chosen.values())):
        asked = [target for target in named if chosen[target] == place]
        texts = [record.text for record in _release_of(setup, cell, place)]
        owned = [records_at(setup, pool.records_of(target)) for target in asked]
        asked_texts = [record.text for records in owned for record in records]
        by_record = iter(nearest_rows(asked_texts, texts, NEAREST_ROWS))
        by_target = [_most_similar([next(by_record) for _ in records]) for records in owned]
        rows += [
            NearestRow(
                **cell.columns,
                record=names[target],
                release=plan.sets[place].name,
                rank=rank,
                row=row,
                similarity=similarity,
            )
            for target, nearest in zip(asked, by_target, strict=True)
            for rank, (row, similarity) in enumerate(nearest, start=1)
        ]
    return rows


def _most_similar(by_record: Sequence[Sequence[tuple[int, float]]]) -> list[tuple[int, float]]:
    """Return the rows most like any of a target's records, the most similar first.

    >>> _most_similar([[(4, 0.5), (1, 0.2)], [(4, 0.9)]])
    [(4, 0.9), (1, 0.2)]
    """
    best: dict[int, float] = {}
    for row, similarity in (one for rows in by_record for one in rows):
        best[row] = max(similarity, best.get(row, similarity))
    return sorted(best.items(), key=lambda one: -one[1])[:NEAREST_ROWS]


def _deciding_sets(setup: Setup, cell: Cell, named: Sequence[int]) -> dict[int, int]:
    """Return the set whose release is looked at for each named target."""
    trials, deciding = plan_of(setup, cell).trials, CELL_MEASUREMENTS.get(setup, cell).deciding
    member_sets = {
        target: trials.set[(trials.target == target) & trials.member] for target in named
    }
    if all(len(sets) == 1 for sets in member_sets.values()) or deciding is None:
        return {target: int(sets[0]) for target, sets in member_sets.items()}
    scores = scored_cell(setup, cell).values[:, :, deciding.signal]
    return {
        target: int(sets[scores[sets, target].argmax()]) for target, sets in member_sets.items()
    }


def _release_of(setup: Setup, cell: Cell, place: int) -> Sequence[Synthetic]:
    return open_release(setup, header_of(setup, cell, plan_of(setup, cell).sets[place]).text)


NEAREST = Artefact("figures", _nearest_key, _find_nearest, *as_json(list[NearestRow]))
"""The synthetic rows most like each named record of a cell."""


def record_needs(setup: Setup, cell: Cell) -> list[Need]:
    """Return what tables say of single records of a cell, beside its measurements."""
    preconditions = preconditions_of(setup)
    both: list[Need] = [(COPIES, (cell,)), (DISCLOSURES, (cell,))]
    if not can_be_read(setup, cell):
        both = [need for need in both if need[0].exists(setup, cell)]
    if preconditions is None:
        return [*both, (NEAREST, (cell,))]
    artefacts: list[Need] = [*both, *[(one, (cell,)) for one in (FINDINGS, EXPOSED)]]
    return artefacts if preconditions.withheld else [*artefacts, (NEAREST, (cell,))]


def nearest_texts(setup: Setup, cell: Cell) -> list[str]:
    sets = {item.name: place for place, item in wanted_sets(setup, cell)}
    rows = NEAREST.get(setup, cell)
    releases = {
        name: _release_of(setup, cell, sets[name]) for name in {row.release for row in rows}
    }
    return [releases[row.release][row.row - 1].text for row in rows]
