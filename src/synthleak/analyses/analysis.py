"""Analyses: what the tables of an audit say, each a pure function from tables to rows
(docs/method.md §10).

An analysis sees tables and nothing else, so it runs from stored results in seconds, and one from
another package is held to the same. Its rows become `results/<name>.csv`. An analysis that a study
has too little for raises `Unavailable` with what it needs, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from synthleak.analyses.cell_data import (
    CANARIES,
    CANARY,
    CONTROLS,
    EVERY,
    RANDOM,
    SELECTED,
    UNION,
    AttributeRow,
    CellData,
    PoolFacts,
)
from synthleak.analyses.cells import CellRow, ProxyRow, RecordRow
from synthleak.analyses.prior import ComparisonRow, PriorRow
from synthleak.core.cell import Cell
from synthleak.core.errors import ContractError, UserError
from synthleak.core.registry import Registry

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = type["DataclassInstance"]
T = TypeVar("T")


@dataclass(frozen=True)
class Study:
    """What an analysis may look at: the tables of one audit, or of several joined.

    `cell_data` holds the plan, coins and V of every cell, in the order of `cells`; `attributes`
    what every record of every pool is like; `pools` by which rule each pool was made.
    """

    cells: tuple[CellRow, ...]
    proxies: tuple[ProxyRow, ...]
    records: tuple[RecordRow, ...] = ()
    prior: tuple[PriorRow, ...] = ()
    comparison: tuple[ComparisonRow, ...] = ()
    cell_data: tuple[CellData, ...] = ()
    attributes: tuple[AttributeRow, ...] = ()
    pools: tuple[PoolFacts, ...] = ()
    _made: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """Return what several analyses of this study share, made when the first one asks."""
        if name not in self._made:
            self._made[name] = make()
        made: T = self._made[name]
        return made

    def groups(self, corpus: str, pool: str) -> tuple[str, ...]:
        """Return which of `selected`, `controls`, `all` and `canaries` a pool counts in."""
        rules = self.once("rules", lambda: {(p.corpus, p.name): p.rule for p in self.pools})
        rule = rules.get((corpus, pool))
        if rule == CANARY:
            return (CANARIES,)
        if rule in (None, UNION):
            return (EVERY,)
        return (CONTROLS if rule == RANDOM else SELECTED, EVERY)


class Unavailable(Exception):  # noqa: N818 - reads as what it is
    """The study does not hold what an analysis needs; the message says what, in one line."""


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

    One that is `opt_in` takes long: it runs where it is asked for by name. `shown` are the columns
    that a person reads first, all where it is empty.
    """

    name: str
    version: int | str
    row: Row
    analyse: Analyse
    opt_in: bool = False
    shown: tuple[str, ...] = ()

    def rows(self, study: Study) -> list[DataclassInstance]:
        """Run it and return its rows: none if something it needs is missing."""
        return list(self.outcome(study).rows)

    def outcome(self, study: Study) -> Outcome:
        """Run it, hold it to its word (rows of its own kind), and say what it needs."""
        try:
            found = list(self.analyse(study))
        except Unavailable as reason:
            return Outcome(self.name, (), str(reason))
        for item in found:
            if type(item) is not self.row:
                raise ContractError(
                    f"the analysis {self.name!r} gave {type(item).__name__},"
                    f" not {self.row.__name__}"
                )
        return Outcome(self.name, tuple(found))


analyses: Registry[Analysis] = Registry("analysis", "synthleak.analyses")

RESERVED = (
    "cells",
    "proxies",
    "prior",
    "comparison",
    "records",
    "summary",
    "utility",
    "adjudication",
)
"""Names of tables that every audit leaves."""


def analysis(
    name: str, *, version: int, row: Row, opt_in: bool = False, shown: Sequence[str] = ()
) -> Callable[[Analyse], Analyse]:
    """Register the decorated function; its rows become `results/<name>.csv`."""

    def put(analyse: Analyse) -> Analyse:
        if name in RESERVED:
            raise ContractError(f"an analysis cannot be called {name!r}: a table has that name")
        if not is_dataclass(row):
            raise ContractError(f"the rows of the analysis {name!r} must be a dataclass")
        made = Analysis(name, version, row, analyse, opt_in, tuple(shown))
        analyses.add(name, made, version=version, described_by=analyse)
        return analyse

    return put


def outcomes_of(
    study: Study, *, only: Sequence[str] = (), also: Sequence[str] = ()
) -> list[Outcome]:
    """Run the analyses on a study: all that take seconds, and `also` some; or `only` some."""
    return [
        entry.plugin.outcome(study)
        for entry in sorted(analyses, key=lambda entry: entry.name)
        if (entry.name in only if only else entry.name in also or not entry.plugin.opt_in)
    ]


def join_studies(studies: Sequence[tuple[str, Study]]) -> Study:
    """Join the studies of several run folders, each with its folder's name.

    A cell that two of them hold would count twice, and a pool of one name must be one pool.
    """
    owner: dict[Cell, str] = {}
    pools: dict[tuple[str, str], tuple[str, PoolFacts]] = {}
    for folder, study in studies:
        for cell in dict.fromkeys(Cell.of(row) for row in study.cells):
            if cell in owner:
                raise UserError(
                    f"{cell.name} of {cell.corpus} is in {owner[cell]} too",
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
    columns = [column.name for column in fields(Study) if not column.name.startswith("_")]
    parts = {name: [getattr(study, name) for _, study in studies] for name in columns}
    joined: dict[str, Any] = {
        name: tuple(row for part in found for row in part) for name, found in parts.items()
    }
    for name in ("attributes", "pools"):
        joined[name] = tuple(dict.fromkeys(joined[name]))
    return Study(**joined)
