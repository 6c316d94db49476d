"""Which synthetic texts and spans drove a record's score (`synthleak explain`).

Everything here is looked up or recomputed from the store: the releases with and without the record,
what the deciding proxy made of each, and in the releases with the highest scores the texts and
spans that it saw. Texts are added only if they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthleak.audit.result import Audit
from synthleak.audit.sources import AnyAudit, named_audits
from synthleak.core.cell import Cell, format_epsilon, is_of
from synthleak.core.errors import UserError
from synthleak.core.validation import nearest
from synthleak.corpus.corpus import Record
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.persons import record_name
from synthleak.explanations.measures import Ranked, ranked, release_rows
from synthleak.explanations.spans import Lookout, Overlap
from synthleak.metrics.assignment import assignment_of
from synthleak.metrics.records.vulnerability import sides_of
from synthleak.metrics.roc import auc
from synthleak.plan.plan import designs
from synthleak.report.verdict import deciding_signal

if TYPE_CHECKING:
    from synthleak.analyses.cells import ProxyRow
    from synthleak.metrics.measurements import Deciding

RELEASES = 3
TEXTS = 3


@dataclass(frozen=True)
class Match:
    """One synthetic text of a release: its row, from 1, the proxy's measure of it, and spans."""

    row: int
    value: float
    overlap: Overlap
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ReleaseStory:
    """One release: whether it held the record, what the proxy saw and made of it, and the texts."""

    release: str
    held: bool
    value: float
    score: float
    measure: str
    matches: tuple[Match, ...]


@dataclass(frozen=True)
class SignalStory:
    """One proxy in one scenario. `record_auc` compares the releases with and without the record."""

    scenario: str
    proxy: str
    view: str
    meaning: str
    cell_auc: float
    mean_with: float | None
    mean_without: float | None
    record_auc: float | None
    releases: tuple[ReleaseStory, ...]


@dataclass(frozen=True)
class Explanation:
    """Why a record of a cell scored as it did.

    In a check, `member` says whether the release was made from it, and `coin` whether a recorded
    coin decided that.
    """

    record: str
    corpus: str
    pool: str
    generator: str
    epsilon: float
    releases_with: int
    releases_without: int
    verdict: str
    decided_by: str | None
    signals: tuple[SignalStory, ...]
    member: bool | None = None
    coin: bool = False
    text: str | None = field(default=None, repr=False)


def explain(
    audit: AnyAudit,
    record: str,
    *,
    pool: str | None = None,
    generator: str | None = None,
    epsilon: float | None = None,
    include_text: bool = False,
) -> Explanation:
    """Explain the score of a record in one cell: that of the given names, else the strongest.

    `audit` is an opened audit or its run folder.
    """
    [(_, audit)] = named_audits(audit)
    cells = _cells_of(audit, record)
    cell = _chosen(audit, cells, pool, generator, epsilon)
    plan = audit.setup.plan_of(cell)
    target = audit.setup.target_names(cell.pool).index(record)
    rows = [row for row in audit.proxies if is_of(row, cell)]
    sets, targets = int(plan.trials.set.max()) + 1, len(plan.targets)
    within = designs.get(plan.design).plugin.within_records(plan)
    sides = sides_of(assignment_of(plan.trials, targets), sets, targets, within_records=within)
    sides_here = sides.joined[:, target], sides.absent[:, target]
    stories = [
        _signal(audit, cell, target, row, sides_here, include_text=include_text)
        for row in _signals(
            rows, audit.measurements[cell].deciding, audit.naming_signal(cell, target)
        )
    ]
    given = audit.setup.pools[cell.pool].given
    result = next(one for one in audit.cell_results if one.cell == cell)
    return Explanation(
        record=record,
        corpus=cell.corpus,
        pool=cell.pool,
        generator=cell.generator,
        epsilon=cell.epsilon,
        releases_with=int(sides_here[0].sum()),
        releases_without=int(sides_here[1].sum()),
        verdict=str(result.verdict),
        decided_by=deciding_signal(result),
        signals=tuple(stories),
        member=None if given is None else given.member[target],
        coin=given is not None and given.coins,
        text="\n".join(item.text for item in _records_of(audit, cell, target))
        if include_text
        else None,
    )


def _records_of(audit: Audit, cell: Cell, target: int) -> tuple[Record, ...]:
    """Return the records of a target: one, or all of a person."""
    return audit.setup.records(audit.setup.pools[cell.pool].records_of(target))


def _cells_of(audit: Audit, record: str) -> list[Cell]:
    """Return the cells whose pool has a record, or a person."""
    setup, unit = audit.setup, audit.setup.spec.game.unit
    corpus = setup.corpus
    known = corpus.person_names if unit == "person" else [item.id for item in corpus.all_records]
    if record not in known:
        raise UserError(
            f"the corpus {corpus.name!r} has no {unit} {record!r}",
            str(audit.folder.root),
            nearest(record, sorted(set(known)), close=3, most=3),
        )
    pools = [name for name in setup.plans if record in setup.target_names(name)]
    if not pools:
        raise UserError(
            f"the {unit} {record!r} is in no pool, so nothing was asked about it",
            str(audit.folder.root),
            f"pools are {', '.join(setup.plans)}; `ids` makes a pool of named records",
        )
    return [cell for cell in setup.cells if cell.pool in pools]


def _chosen(
    audit: Audit,
    cells: Sequence[Cell],
    pool: str | None,
    generator: str | None,
    epsilon: float | None,
) -> Cell:
    """Return the cell that is meant; of several, that with the largest cross-fitted AUC."""
    meant = [
        cell
        for cell in cells
        if pool in (None, cell.pool)
        and generator in (None, cell.generator)
        and epsilon in (None, cell.epsilon)
    ]
    if not meant:
        known = "; ".join(
            f"{c.pool}/{c.generator}/{format_epsilon(c.epsilon, infinity='inf')}" for c in cells
        )
        raise UserError("the record is in no such cell", "--cell", f"it is in {known}")

    def strength(cell: Cell) -> float:
        fitted = audit.measurements[cell].crossfit
        return -math.inf if fitted is None else fitted.value

    return max(meant, key=strength)


def _signals(
    rows: Sequence[ProxyRow], deciding: Deciding | None, naming: int | None
) -> list[ProxyRow]:
    """Return the signal that named the record, and the best of the lexical view.

    In a game that is the signal that decided; spans explain the lexical view.
    """
    best = rows[naming if naming is not None else deciding.signal if deciding else 0]
    lexical = [row for row in rows if row.view == "lexical"]
    if best.view == "lexical" or not lexical:
        return [best]
    return [best, max(lexical, key=lambda row: (row.auc, row.tpr_at_fpr05))]


def _signal(
    audit: Audit,
    cell: Cell,
    target: int,
    row: ProxyRow,
    sides: tuple[NDArray[np.bool_], NDArray[np.bool_]],
    *,
    include_text: bool,
) -> SignalStory:
    scores = next(table for table in audit.scores(cell) if table.scenario == row.scenario)
    column = [proxy.name for proxy in scores.proxies].index(row.proxy)
    mine = scores.values[: len(sides[0]), target, column]
    seen = audit.evidence(cell).values[: len(sides[0]), target, column]
    held, free = mine[sides[0]], mine[sides[1]]
    shown = [*_highest(mine, sides[0], RELEASES), *_highest(mine, sides[1], 1)]
    if not shown:  # one release, which this record is held against without being in it
        shown = _highest(mine, np.ones(len(mine), dtype=np.bool_), 1)
    return SignalStory(
        scenario=row.scenario,
        proxy=row.proxy,
        view=row.view,
        meaning=scores.proxies[column].meaning,
        cell_auc=row.auc,
        mean_with=float(held.mean()) if len(held) else None,
        mean_without=float(free.mean()) if len(free) else None,
        record_auc=float(auc(held, free)) if len(held) and len(free) else None,
        releases=tuple(
            _release(
                audit,
                cell,
                target,
                row,
                place,
                (float(seen[place]), float(mine[place])),
                held=bool(sides[0][place]),
                include_text=include_text,
            )
            for place in shown
        ),
    )


def _highest(scores: NDArray[np.float64], among: NDArray[np.bool_], count: int) -> list[int]:
    places = np.flatnonzero(among)
    order = np.argsort(-scores[places], kind="stable")
    return [int(place) for place in places[order][:count]]


def _release(
    audit: Audit,
    cell: Cell,
    target: int,
    row: ProxyRow,
    place: int,
    figures: tuple[float, float],
    *,
    held: bool,
    include_text: bool,
) -> ReleaseStory:
    setup = audit.setup
    plan = setup.plan_of(cell)
    texts = [item.text for item in audit.release(cell, place)]
    observation = Observation(texts, setup.encode)

    def looked(record: Record) -> tuple[Ranked, Lookout]:
        alone, lookout = (
            Targets([record.text], setup.encode),
            Lookout(record.text, observation.texts),
        )
        return ranked(record_name(row.proxy), row.view, lookout, alone, observation), lookout

    # Of a person's records, the one that the release comes closest to.
    tried = [looked(record) for record in _records_of(audit, cell, target)]
    found, lookout = max(tried, key=lambda one: one[0].values[0])
    rows = release_rows(texts)
    matches = [
        Match(
            row=rows[at],
            value=value,
            overlap=lookout.beside(observation.texts[at]),
            text=observation.texts[at] if include_text else None,
        )
        for at, value in zip(found.places[:TEXTS], found.values[:TEXTS], strict=True)
        if rows
    ]
    return ReleaseStory(
        release=plan.sets[place].name,
        held=held,
        value=figures[0],
        score=figures[1],
        measure=found.what,
        matches=tuple(matches),
    )
