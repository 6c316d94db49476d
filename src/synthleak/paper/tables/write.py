"""The list of paper tables, and their files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from synthleak.analyses.analysis import Unavailable
from synthleak.core.errors import UserError
from synthleak.core.validation import nearest
from synthleak.paper.tables import latex, markdown, sheet
from synthleak.paper.tables.attributes import attributes, combined, selection
from synthleak.paper.tables.corpora import corpora, pools
from synthleak.paper.tables.cross import cross_generator
from synthleak.paper.tables.distribution import distribution
from synthleak.paper.tables.gap import control_gap
from synthleak.paper.tables.layout import Table
from synthleak.paper.tables.main import main, main_intervals, rare, rare_intervals
from synthleak.paper.tables.merged import merged
from synthleak.paper.tables.meta import meta_outlier, meta_rare
from synthleak.paper.tables.prior import prior
from synthleak.paper.tables.proxies import proxy_families
from synthleak.paper.tables.source import Source

TABLES: Mapping[str, Callable[[Source], Table]] = MappingProxyType(
    {
        make.__name__: make
        for make in (
            *(corpora, pools, proxy_families, main, main_intervals, rare, rare_intervals),
            *(prior, control_gap),
            *(merged, distribution, attributes, selection, combined, cross_generator),
            *(meta_outlier, meta_rare),
        )
    }
)
"""Every table by its name, in the order of the study."""

FORMATS: Mapping[str, tuple[str, Callable[[Table], str]]] = MappingProxyType(
    {"csv": ("csv", sheet.table), "md": ("md", markdown.table), "latex": ("tex", latex.table)}
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


def files(made: Tables, formats: Sequence[str]) -> dict[str, str]:
    """Return the files of all tables by name; for LaTeX also a preamble and a whole document."""
    found: dict[str, str] = {}
    for name in formats:
        ending, write = FORMATS[name]
        found |= {f"{item.name}.{ending}": write(item) for item in made.tables}
    if "latex" in formats:
        found["preamble.tex"] = latex.PREAMBLE
        found["tables.tex"] = latex.document([item.name for item in made.tables])
    return found
