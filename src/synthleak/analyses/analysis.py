"""What an analysis is: a pure function from the tables of an audit to rows (docs/method.md §10).

An analysis sees tables and nothing else, so it runs from stored results in seconds. Its rows become
`results/<name>.csv`. If the tables are not enough for it, it raises `Unavailable` and says what it
needs; the other analyses still run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from synthleak.analyses.cell_data import (
    CANARIES,
    CANARY,
    CONTROLS,
    EVERY,
    POOLS,
    RANDOM,
    SELECTED,
    UNION,
    AttributeRow,
    CellData,
    PoolFacts,
)
from synthleak.analyses.cells import CellRow, ProxyRow, RecordRow
from synthleak.analyses.prior import ComparisonRow, PriorRow
from synthleak.core.cell import Cell, CellColumns
from synthleak.core.errors import ContractError, Damaged, UserError
from synthleak.core.plugins import calling
from synthleak.core.registry import Registry
from synthleak.core.threads import single_threaded

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = type["DataclassInstance"]
T = TypeVar("T")
R = TypeVar("R", bound=CellColumns)


@dataclass(frozen=True)
class Study:
    """What an analysis may look at: the tables of one audit, or of several joined.

    `cell_data` holds the plan, coins and V of every cell, in the order of `cells`; `attributes` the
    attributes of every record of every pool; `pools` the rule that selected each pool.
    """

    cells: tuple[CellRow, ...]
    proxies: tuple[ProxyRow, ...]
    records: tuple[RecordRow, ...] = ()
    prior: tuple[PriorRow, ...] = ()
    comparison: tuple[ComparisonRow, ...] = ()
    cell_data: tuple[CellData, ...] = ()
    attributes: tuple[AttributeRow, ...] = ()
    pools: tuple[PoolFacts, ...] = ()
    _cache: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what several analyses of this study share; the first call computes it."""
        if name not in self._cache:
            self._cache[name] = make()
        value: T = self._cache[name]
        return value

    def groups(self, corpus: str, pool: str) -> tuple[str, ...]:
        """Return which of `selected`, `controls`, `all` and `canaries` a pool counts in."""
        rules = self.once("rules", lambda: {(p.corpus, p.name): p.rule for p in self.pools})
        rule = rules.get((corpus, pool))
        if rule == CANARY:
            return (CANARIES,)
        if rule in (None, UNION):
            return (EVERY,)
        return (CONTROLS if rule == RANDOM else SELECTED, EVERY)

    def grouped(self, rows: Sequence[R]) -> Iterator[tuple[str, str, list[R]]]:
        """Yield (pools, generator, rows): each group of pools with each generator, and with all.

        Generators are taken together, under the name `all`, where there are several.
        """
        names = list(dict.fromkeys(row.generator for row in rows))
        for pools in POOLS:
            inside = [row for row in rows if pools in self.groups(row.corpus, row.pool)]
            for name in ["all", *names] if len(names) > 1 else names:
                yield pools, name, [row for row in inside if name in ("all", row.generator)]


class Unavailable(Exception):  # noqa: N818 - reads as what it is
    """The study does not hold what an analysis needs; the message names it, in one line."""


Analyse = Callable[[Study], Sequence[Any]]


@dataclass(frozen=True)
class Outcome:
    """The rows of an analysis, or the line that says what it needs."""

    name: str
    rows: tuple[DataclassInstance, ...]
    unavailable: str | None = None


@dataclass(frozen=True)
class Analysis:
    """One analysis: its rows are of type `row`, a dataclass of strings, numbers and None.

    An `opt_in` analysis takes long and runs only if it is named. `shown` are the columns that
    terminal and page show; empty means all.
    """

    name: str
    version: int | str
    row: Row
    analyse: Analyse
    opt_in: bool = False
    shown: tuple[str, ...] = ()

    def rows(self, study: Study) -> list[DataclassInstance]:
        """Run it and return its rows; none if something it needs is missing."""
        return list(self.outcome_if_kept(study).rows)

    def outcome_if_kept(self, study: Study) -> Outcome:
        """Run it on stored audits; what a folder no longer holds is something that it needs."""
        try:
            return self.outcome(study)
        except Damaged as error:
            return Outcome(self.name, (), f"needs {error.name}, which is gone: run the audit again")

    def outcome(self, study: Study) -> Outcome:
        """Run it and check the type of its rows; return them, or what it needs."""
        try:
            with single_threaded(), calling("analysis", self.name, self.analyse, Unavailable):
                rows = tuple(self.analyse(study))
        except Unavailable as reason:
            return Outcome(self.name, (), str(reason))
        for row in rows:
            if type(row) is not self.row:
                raise ContractError(
                    f"the analysis {self.name!r} returned a {type(row).__name__},"
                    f" not a {self.row.__name__}"
                )
        return Outcome(self.name, rows)


analyses: Registry[Analysis] = Registry("analysis", "synthleak.analyses")

RESERVED = (
    *("cells", "proxies", "prior", "comparison", "records", "utility", "copies", "nearest"),
    *("summary", "adjudication"),
)
"""Names of tables that every audit writes."""
NO_CELL = "needs at least one finished cell"


def analysis(
    name: str, *, version: int, row: Row, opt_in: bool = False, shown: str | Sequence[str] = ()
) -> Callable[[Analyse], Analyse]:
    """Register the decorated function; its rows become `results/<name>.csv`.

    `shown` names columns, in a sequence or in one string with spaces between them.
    """
    columns = shown.split() if isinstance(shown, str) else shown

    def register(analyse: Analyse) -> Analyse:
        if name in RESERVED:
            raise ContractError(f"an analysis cannot be called {name!r}: a table has that name")
        if not is_dataclass(row):
            raise ContractError(f"the rows of the analysis {name!r} must be a dataclass")
        entry = Analysis(name, version, row, analyse, opt_in, tuple(columns))
        analyses.add(name, entry, version=version, described_by=analyse)
        return analyse

    return register


def outcomes_of(
    study: Study, *, only: Sequence[str] = (), also: Sequence[str] = ()
) -> list[Outcome]:
    """Run all analyses but the opt-in ones, and those named in `also`; or those in `only` alone."""
    return [
        entry.plugin.outcome(study)
        for entry in sorted(analyses, key=lambda entry: entry.name)
        if (entry.name in only if only else entry.name in also or not entry.plugin.opt_in)
    ]


def join_studies(studies: Sequence[tuple[str, Study]]) -> Study:
    """Join the studies of several run folders, each given with its folder's name.

    Two folders must not hold the same cell, which would count twice, nor two pools of one name.
    """
    owner: dict[Cell, str] = {}
    pools: dict[tuple[str, str], tuple[str, PoolFacts]] = {}
    for folder, study in studies:
        for cell in dict.fromkeys(Cell.of(row) for row in study.cells):
            if cell in owner:
                raise UserError(
                    f"{cell.name} of {cell.corpus} is also in {owner[cell]}",
                    folder,
                    "leave one of the two folders out",
                )
            owner[cell] = folder
        for cell_data in study.cell_data:
            key = (cell_data.pool.corpus, cell_data.pool.name)
            first, known = pools.setdefault(key, (folder, cell_data.pool))
            if known.records != cell_data.pool.records:
                raise UserError(
                    f"the pool {key[1]!r} of {key[0]} has other records in {first}",
                    folder,
                    "join audits of the same corpus and seed, or give the pool its own name",
                )
    joined: dict[str, Any] = {
        table.name: tuple(row for _, study in studies for row in getattr(study, table.name))
        for table in fields(Study)
        if table.init
    }
    for name in ("attributes", "pools"):
        joined[name] = tuple(dict.fromkeys(joined[name]))
    return Study(**joined)
