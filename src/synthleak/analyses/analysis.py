"""Analyses: what the tables of an audit say, each a pure function from tables to rows (METHOD §10).

An analysis sees tables and nothing else, so it runs from stored results in seconds, and one from
another package is held to the same. Its rows become `results/<name>.csv`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from typing import TYPE_CHECKING, Any

from synthleak.analyses.cells import CellRow, ProxyRow, RecordRow
from synthleak.errors import ContractError
from synthleak.registry import Shelf

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Row = type["DataclassInstance"]


@dataclass(frozen=True)
class Study:
    """What an analysis may look at: the tables of one audit, or of several joined."""

    cells: tuple[CellRow, ...]
    proxies: tuple[ProxyRow, ...]
    records: tuple[RecordRow, ...] = ()


Analyse = Callable[[Study], Sequence[Any]]


@dataclass(frozen=True)
class Analysis:
    """One analysis: its rows are of type `row`, a dataclass of strings, numbers and None."""

    name: str
    version: int | str
    row: Row
    analyse: Analyse

    def rows(self, study: Study) -> list[DataclassInstance]:
        """Run it, and hold it to its word: a list of its own rows."""
        found = list(self.analyse(study))
        for item in found:
            if type(item) is not self.row:
                raise ContractError(
                    f"the analysis {self.name!r} gave {type(item).__name__},"
                    f" not {self.row.__name__}"
                )
        return found


analyses: Shelf[Analysis] = Shelf("analysis", "synthleak.analyses")

RESERVED = ("cells", "proxies", "prior", "comparison", "records", "summary")
"""Names of tables that every audit leaves."""


def analysis(name: str, *, version: int, row: Row) -> Callable[[Analyse], Analyse]:
    """Put the decorated function on the shelf; its rows become `results/<name>.csv`."""

    def put(analyse: Analyse) -> Analyse:
        if name in RESERVED:
            raise ContractError(f"an analysis cannot be called {name!r}: a table has that name")
        if not is_dataclass(row):
            raise ContractError(f"the rows of the analysis {name!r} are no dataclass")
        made = Analysis(name, version, row, analyse)
        analyses.add(name, made, version=version, described_by=analyse)
        return analyse

    return put
