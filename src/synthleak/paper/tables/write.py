"""The list of paper tables, and their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from synthleak.analyses.analysis import Unavailable
from synthleak.core.errors import UserError
from synthleak.core.validation import nearest
from synthleak.paper.tables import audited, comparisons, membership, records
from synthleak.paper.tables.formats import (
    PREAMBLE,
    csv_table,
    latex_document,
    latex_table,
    markdown_table,
)
from synthleak.paper.tables.layout import Table
from synthleak.paper.tables.source import Source

_IN_ORDER: tuple[Callable[[Source], Table], ...] = (
    *(audited.corpora, audited.pools, audited.proxy_families),
    *(membership.main, membership.main_intervals, membership.rare, membership.rare_intervals),
    *(comparisons.prior, comparisons.control_gap, comparisons.dp_removal),
    *(comparisons.merged,),
    *(records.distribution, records.attributes, records.selection, records.combined),
    *(records.cross_generator, membership.meta_outlier, membership.meta_rare),
)
TABLES = MappingProxyType({make.__name__: make for make in _IN_ORDER})
"""Every table by its name, in the order of the study."""

FORMATS: Mapping[str, tuple[str, Callable[[Table], str]]] = MappingProxyType(
    {"csv": ("csv", csv_table), "md": ("md", markdown_table), "latex": ("tex", latex_table)}
)
"""Each format with its ending and its writer."""


@dataclass(frozen=True)
class Tables:
    """The tables that could be made, and what each of the others needs."""

    tables: tuple[Table, ...]
    unavailable: Mapping[str, str]


def check_names(only: Sequence[str]) -> None:
    """Raise an error for an unknown table, before any work is done."""
    for name in only:
        if name not in TABLES:
            raise UserError(f"unknown table {name!r}", "--only", nearest(name, TABLES))


def make_tables(source: Source, only: Sequence[str] = ()) -> Tables:
    """Make every table, or `only` these; a table without its input does not stop the others."""
    tables, unavailable = [], {}
    for name, make in TABLES.items():
        if only and name not in only:
            continue
        try:
            tables.append(make(source))
        except Unavailable as reason:
            unavailable[name] = str(reason)
    return Tables(tuple(tables), unavailable)


def files(made: Tables, formats: Sequence[str], *, whole: bool = True) -> dict[str, str]:
    """Return the files of all tables by name; for LaTeX also a preamble and a `whole` document."""
    texts: dict[str, str] = {}
    for name in formats:
        ending, write = FORMATS[name]
        texts |= {f"{item.name}.{ending}": write(item) for item in made.tables}
    if "latex" in formats:
        texts["preamble.tex"] = PREAMBLE.read_text("utf-8")
        if whole:
            texts["tables.tex"] = latex_document([item.name for item in made.tables])
    return texts
