"""What a report renders: the results of an audit as plain data.

An audit hands its results over (`Audit.results`), and nothing here reaches back: a page, a table,
a figure or a comparison is a function of these values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from synthleak.analyses.analysis import Outcome, Study
from synthleak.analyses.cells import CellRow, CellVerdict, grade_of, power_of
from synthleak.analyses.copies import Copies
from synthleak.analyses.disclosures import Disclosures
from synthleak.analyses.gaps import MergedRow
from synthleak.analyses.ladder import LadderRow
from synthleak.core.cell import Cell, Verdict, counted_cells
from synthleak.core.spec import GameSection
from synthleak.metrics.curves import Curves
from synthleak.metrics.measurements import CellMeasurements, Estimate
from synthleak.plan.plan import Plan
from synthleak.releases.claim import Claim

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Table = tuple[type["DataclassInstance"], Sequence["DataclassInstance"]]
"""The type of a table's rows, and the rows."""


@dataclass(frozen=True)
class CellResult:
    """One cell: what was measured, what is said of it, and what was promised.

    `cells` is how many cells Holm adjusts for; `counted` says that an instance without the target
    has a record less. `copies` and `disclosures` are those of its releases, and `given` says that
    it is a check of one that existed. `canaries` says that its targets were written for the test.
    `planned` are the instances of the whole game, of which a cell that was found at an early look
    has played some. `sizes` are the rows of every size of its releases, the largest first; none
    where there is one size. `ladder` are the rungs from the claim to the release, where the models
    were asked.
    """

    cell: Cell
    measurements: CellMeasurements
    judged: CellVerdict
    claim: Claim
    rows: tuple[CellRow, ...]
    degenerate: Mapping[str, int]
    cells: int
    counted: bool
    copies: Copies | None = None
    disclosures: Disclosures | None = None
    given: bool = False
    canaries: bool = False
    planned: int = 1
    sizes: tuple[CellRow, ...] = ()
    ladder: tuple[LadderRow, ...] = ()

    @property
    def name(self) -> str:
        return self.cell.title(given=self.given)

    @property
    def verdict(self) -> Verdict:
        return self.judged.verdict

    @property
    def grade(self) -> str:
        """`strong` or `trace`; nothing where no leak was found."""
        return grade_of(self.measurements, self.verdict, (self.copies, self.disclosures))

    @property
    def deployable(self) -> Estimate | None:
        """The AUC of an attacker who fixed the method in advance."""
        return self.measurements.crossfit

    @property
    def strength(self) -> float:
        """The deployable AUC, to find the strongest cell by; less than any where it is unknown."""
        return -math.inf if self.deployable is None else self.deployable.value

    @property
    def powers(self) -> list[float | None]:
        """The smallest AUC that would be found, attacker by attacker."""
        tests = self.cells * self.rows[0].looks
        return [power_of(self.measurements, row, tests) for row in self.measurements.rows]

    @property
    def power(self) -> float | None:
        """The largest of them; None where one is unknown."""
        known = [power for power in self.powers if power is not None]
        return max(known) if len(known) == len(self.powers) else None

    @property
    def few(self) -> int | None:
        """The number of members where they are too few to speak of a hundred."""
        members = self.rows[0].n_positive
        return members if members < FEWEST else None


FEWEST = 20
"""Of fewer members shares are told as of so many, and not as of 100."""


@dataclass(frozen=True)
class Facts:
    """What the spec says and no table holds.

    `differing_encoders` are generators that use another encoder than the evidence, and which.
    """

    description: str
    rules: Mapping[str, str]
    pool_encoder: str
    encoder: str
    same_encoder: bool
    differing_encoders: Mapping[str, str]
    proxies: int
    grouped: bool
    kinds: Mapping[str, str]
    private_priors: Sequence[str]


@dataclass(frozen=True)
class Committed:
    """The commitment of an audit: its hash, when it was made, and how its gate ended."""

    hash: str
    at: str
    gate: str | None
    failing: int
    rows: int
    missing: Mapping[str, int] = field(default_factory=dict)
    """In how many rows a column of the gate has no value, which satisfies no comparison."""

    @property
    def outcome(self) -> str:
        """How the gate ended, for people.

        >>> Committed("…", "2026-11-16", "leak_found", 2, 6, {"leak_found": 1}).outcome
        'leak_found holds in 2 of 6 rows of results/cells.csv; leak_found has no value in 1 of 6'
        """
        if self.gate is None:
            return "none was committed to"
        blank = (f"; {n} has no value in {k} of {self.rows}" for n, k in self.missing.items())
        said = f"{self.gate} holds in {self.failing} of {self.rows} rows of results/cells.csv"
        return said + "".join(blank)


@dataclass(frozen=True)
class Provenance:
    """Where results come from: the folder's name, who made it when, and the hashes of its files."""

    folder: str
    version: str
    made: str | None
    hashes: Mapping[str, str | None]
    committed: Committed | None = None

    @property
    def finished(self) -> str:
        """When the results were made, for people.

        >>> Provenance("audit", "0.1.0", "2026-11-16T08:09:19+00:00", {}).finished
        '2026-11-16 08:09:19 UTC'
        """
        return (self.made or "not noted").replace("T", " ", 1).replace("+00:00", " UTC")


@dataclass(frozen=True)
class Results:
    """The results of one audit.

    `corpus`, `pools` and `check` are as `summary.json` writes them; `attackers` tells whether two
    audits have the same ones; `adjudicated` are the merged games of flagged cells, which no file of
    the audit itself holds; `texts` holds the texts of the pools' records by id, `nearest_texts`
    those of the rows of the table `nearest`, where they were asked for. `history` says which cells
    were added or left out after results had been looked at.
    """

    folder: str
    fingerprint: str
    corpus: Mapping[str, Any]
    pools: Mapping[str, Mapping[str, Any]]
    game: GameSection
    facts: Facts
    attackers: Mapping[str, Any]
    plans: Mapping[str, Plan]
    cells: tuple[CellResult, ...]
    study: Study
    tables: Mapping[str, Table]
    outcomes: tuple[Outcome, ...]
    curves: Mapping[Cell, Curves]
    adjudicated: tuple[MergedRow, ...] = ()
    check: Mapping[str, Any] | None = None
    history: tuple[str, ...] = ()
    texts: Mapping[str, str] = field(default_factory=dict, repr=False)
    nearest_texts: tuple[str, ...] = field(default=(), repr=False)

    def __repr__(self) -> str:
        cells = counted_cells(self.cells)
        return f"<Results of {cells}, corpus {self.corpus['name']!r}, in {self.folder!r}>"

    def name_of(self, cell: Cell) -> str:
        """Return what a cell of this audit is called."""
        return cell.title(given=self.check is not None)

    def ids(self, pool: str) -> tuple[str, ...]:
        """Return the ids of a pool's targets, in the order of its plan."""
        return next(facts.records for facts in self.study.pools if facts.name == pool)
