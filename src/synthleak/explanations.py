"""Why a record was recognised: which signal, and which synthetic rows are nearest (`explain`).

Everything here is looked up or recomputed from the store: the releases with and without the record,
what the deciding proxy made of each, and in the releases with the highest scores the rows that are
most like the record, each with the longest passage that they share. Texts are added only if they
are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from synthleak.analyses.copies import nearest_rows
from synthleak.analyses.disclosures import DisclosureRow
from synthleak.audit.finished import AnyAudit, named_audits
from synthleak.audit.result import Audit
from synthleak.audit.setup import plan_of, records_at, target_names
from synthleak.audit.steps.exposed import naming_signal
from synthleak.audit.steps.observations import evidence_of
from synthleak.core.cell import Cell, format_epsilon, is_of
from synthleak.core.errors import UserError
from synthleak.core.validation import nearest
from synthleak.corpus.corpus import Record
from synthleak.metrics.membership import assignment_of, auc
from synthleak.metrics.profile import sides_of
from synthleak.plan.plan import designs
from synthleak.report.verdict import deciding_signal

if TYPE_CHECKING:
    from synthleak.analyses.cells import ProxyRow
    from synthleak.metrics.measurements import Deciding

RELEASES = 3
TEXTS = 3


@dataclass(frozen=True)
class Passage:
    """A stretch of the record, `start` to `end`, and where it stands in the synthetic text.

    Offsets count characters of the texts as they are, although case and white space play no part.
    """

    start: int
    end: int
    other_start: int
    other_end: int


@dataclass(frozen=True)
class Match:
    """One synthetic text of a release: its row, from 1, how similar it is, the longest passage.

    `similarity` is that of `nearest.csv`: Jaccard, character 5-grams.
    """

    row: int
    similarity: float
    longest: Passage | None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ReleaseStory:
    """One release: whether it held the record, what the proxy made of it, and the nearest rows."""

    release: str
    held: bool
    value: float
    score: float
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
    coin decided that. `disclosures` are the passages and identifiers that releases have of it and
    nobody else has: rows of disclosures.csv.
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
    disclosures: tuple[DisclosureRow, ...] = ()


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

    Args:
        audit: A finished audit, or its run folder.
        record: The id of a record in a pool; the name of a person if persons are audited.
        pool: The pool of the cell.
        generator: The generator of the cell.
        epsilon: The ε of the cell; infinity is without privacy.
        include_text: Whether to add the texts of the record and of the nearest synthetic rows.

    Returns:
        The signal that recognised the record, with the releases in which it scores highest and
        their nearest rows; and the same for the best lexical signal, if that is another.

    Raises:
        UserError: If the corpus has no such record, no pool or no such cell holds it, or the
            releases were purged.
    """
    [(_, audit)] = named_audits(audit)
    cell = _chosen(audit, _cells_of(audit, record), pool, generator, epsilon)
    plan = plan_of(audit.setup, cell)
    target = target_names(audit.setup, cell.pool).index(record)
    rows = [row for row in audit.proxies if is_of(row, cell)]
    result = next(one for one in audit.results.cells if one.cell == cell)
    sets, targets = int(plan.trials.set.max()) + 1, len(plan.targets)
    within = designs.get(plan.design).plugin.within_records(plan)
    sides = sides_of(assignment_of(plan.trials, targets), sets, targets, within_records=within)
    joined, absent = sides.joined[:, target], sides.absent[:, target]
    signals = _signals(rows, result.measurements.deciding, naming_signal(audit.setup, cell, target))
    stories = [
        _signal(audit, cell, target, row, joined, absent, include_text=include_text)
        for row in signals
    ]
    given = audit.setup.pools[cell.pool].given
    texts = [item.text for item in _records_of(audit, cell, target)]
    return Explanation(
        record=record,
        corpus=cell.corpus,
        pool=cell.pool,
        generator=cell.generator,
        epsilon=cell.epsilon,
        releases_with=int(joined.sum()),
        releases_without=int(absent.sum()),
        verdict=str(result.verdict),
        decided_by=deciding_signal(result),
        signals=tuple(stories),
        member=None if given is None else given.member[target],
        coin=given is not None and given.coins,
        text="\n".join(texts) if include_text else None,
        disclosures=tuple(
            row
            for row in audit.disclosures
            if is_of(row, cell) and record in (row.record, row.person)
        ),
    )


def _records_of(audit: Audit, cell: Cell, target: int) -> tuple[Record, ...]:
    """Return the records of a target: one, or all of a person."""
    return records_at(audit.setup, audit.setup.pools[cell.pool].records_of(target))


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
    pools = [name for name in setup.plans if record in target_names(setup, name)]
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
    results = [one for one in audit.results.cells if one.cell in meant]
    return max(results, key=attrgetter("strength")).cell


def _signals(
    rows: Sequence[ProxyRow], deciding: Deciding | None, naming: int | None
) -> list[ProxyRow]:
    """Return the signal that named the record, and the best of the lexical view.

    In a game that is the signal that decided.
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
    joined: NDArray[np.bool_],
    absent: NDArray[np.bool_],
    *,
    include_text: bool,
) -> SignalStory:
    scores = next(table for table in audit.scores(cell) if table.scenario == row.scenario)
    column = [proxy.name for proxy in scores.proxies].index(row.proxy)
    of_target = scores.values[: len(joined), target, column]
    seen = evidence_of(audit.setup, cell).values[: len(joined), target, column]
    held, free = of_target[joined], of_target[absent]
    shown = [*_highest(of_target, joined, RELEASES), *_highest(of_target, absent, 1)]
    if not shown:  # one release, which this record is held against without being in it
        shown = _highest(of_target, np.ones(len(of_target), dtype=np.bool_), 1)
    records = _records_of(audit, cell, target)
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
            ReleaseStory(
                release=plan_of(audit.setup, cell).sets[place].name,
                held=bool(joined[place]),
                value=float(seen[place]),
                score=float(of_target[place]),
                matches=_matches(
                    records,
                    [item.text for item in audit.release(cell, place)],
                    include_text=include_text,
                ),
            )
            for place in shown
        ),
    )


def _highest(scores: NDArray[np.float64], among: NDArray[np.bool_], count: int) -> list[int]:
    places = np.flatnonzero(among)
    order = np.argsort(-scores[places], kind="stable")
    return [int(place) for place in places[order][:count]]


def _matches(
    records: Sequence[Record], release: Sequence[str], *, include_text: bool
) -> tuple[Match, ...]:
    """Return the rows of a release that are most like any of a target's records."""
    if not release:
        return ()
    most_like: dict[int, tuple[float, Record]] = {}
    found = nearest_rows([record.text for record in records], release, TEXTS)
    for record, rows in zip(records, found, strict=True):
        for row, similarity in rows:
            if row not in most_like or similarity > most_like[row][0]:
                most_like[row] = similarity, record
    ordered = sorted(most_like.items(), key=lambda item: -item[1][0])[:TEXTS]
    return tuple(
        Match(
            row=row,
            similarity=similarity,
            longest=longest_passage(record.text, release[row - 1]),
            text=release[row - 1] if include_text else None,
        )
        for row, (similarity, record) in ordered
    )


def longest_passage(text: str, other: str) -> Passage | None:
    """Return the longest stretch of a text that another one has too, whatever its case and spacing.

    >>> longest_passage("Seen by Dr.  GREY", "It was Dr. Grey.")
    Passage(start=7, end=17, other_start=6, other_end=15)
    """
    (one, places), (two, other_places) = folded(text), folded(other)
    match = SequenceMatcher(None, one, two, autojunk=False).find_longest_match()
    if not match.size:
        return None
    ends = match.a + match.size - 1, match.b + match.size - 1
    return Passage(
        places[match.a], places[ends[0]] + 1, other_places[match.b], other_places[ends[1]] + 1
    )


def folded(text: str) -> tuple[str, list[int]]:
    """Fold a text as `synthleak.core.text.fold` does, and say where each character came from.

    >>> folded(" A  ß ")
    ('a ss', [1, 2, 4, 4])
    """
    letters: list[str] = []
    places: list[int] = []
    gap: int | None = None
    for place, character in enumerate(text):
        if character.isspace():
            gap = place if gap is None else gap
            continue
        if gap is not None and letters:
            letters.append(" ")
            places.append(gap)
        gap = None
        for letter in character.casefold():
            letters.append(letter)
            places.append(place)
    return "".join(letters), places
