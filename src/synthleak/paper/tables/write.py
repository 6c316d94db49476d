"""The list of paper tables, and their files as LaTeX, Markdown and CSV.

LaTeX: a file per table, a preamble, and a document of all. Only packages of a small LaTeX are used
(`texlive-latex-base` and `-recommended`): no multirow, no makecell, no threeparttable. A name that
spans rows is set in the middle one of them. Whatever a name holds, it is set and never executed.
Markdown: with the little HTML that every renderer supports. CSV: the same rows and columns, with
the numbers behind each entry in full.
"""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from types import MappingProxyType
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from synthleak.analyses.analysis import Unavailable
from synthleak.core.errors import UserError
from synthleak.core.validation import nearest
from synthleak.paper.tables import audited, comparisons, membership, records
from synthleak.paper.tables.layout import Block, Entry, Part, Piece, Row, Table, Words, words
from synthleak.paper.tables.source import Source
from synthleak.report.tables import csv_cell, guarded

_SYMBOLS = tomllib.loads(Path(__file__).with_name("symbols.toml").read_text("utf-8"))
_LATIN = range(0xC0, 0x180)
"""Letters that every LaTeX sets from UTF-8, but for those below."""
_UNSET = set("ÐÞðþĦħĸŊŋŦŧŉſ×÷ĿŀĐđĄąĘęĮįŲų")


def latex_text(text: str) -> str:
    r"""Write any text so that LaTeX sets it and executes nothing of it.

    A letter that a small LaTeX has no glyph for is named by its code.

    >>> latex_text("a_b & 50% {x} ~^\\")
    'a\\_b \\& 50\\% \\{x\\} \\textasciitilde{}\\textasciicircum{}\\textbackslash{}'
    >>> latex_text("é 你")
    'é {[}U+4F60{]}'
    """
    return "".join(_escaped(character) for character in text)


def _escaped(character: str) -> str:
    if character in _SYMBOLS:
        return str(_SYMBOLS[character])
    if character.isspace():
        return " "
    if " " <= character <= "~" or (ord(character) in _LATIN and character not in _UNSET):
        return character
    return f"{{[}}U+{ord(character):04X}{{]}}"


def latex_words(text: Words) -> str:
    return "".join(_latex_piece(piece) for piece in text)


def _latex_piece(piece: Piece) -> str:
    text = latex_text(piece.text)
    for yes, command in (
        (piece.underlined, r"\underline"),
        (piece.italic, r"\textit"),
        (piece.bold, r"\textbf"),
        (piece.colour, rf"\textcolor{{{piece.colour}}}"),
        (piece.form == "sup", r"\textsuperscript"),
        (piece.form == "sub", r"\textsubscript"),
    ):
        if yes:
            text = f"{command}{{{text}}}"
    return rf"{{\scriptsize{{}}{text}}}" if piece.form == "small" else text


PREAMBLE = Path(__file__).with_name("preamble.tex")
"""Packages, colours and commands of the tables."""


def latex_cell(item: Entry) -> str:
    lines = [latex_words(line) for line in item.lines]
    style = (r"\bfseries\boldmath " if item.bold else "") + (r"\color{gray}" if item.faint else "")
    if len(lines) > 1:
        stacked = r" \\ ".join(style + line for line in lines)
        body = rf"\slcell{{{stacked}}}"
    else:
        body = f"{{{style}{lines[0]}}}" if style else lines[0]
    if item.shade is not None:
        colour, strength = item.shade
        body = rf"\cellcolor{{{colour}!{strength}}}{body}"
    return body


def _groups(part: Part) -> Iterator[tuple[str, int, int]]:
    """Yield each group of columns, how many it has, and the place of the first."""
    place = len(part.stubs) + 1
    for group, run in groupby(part.columns, key=lambda column: column.group):
        size = len(list(run))
        yield group, size, place
        place += size


def _latex_rows(block: Block, part: Part) -> Iterator[tuple[bool, list[str]]]:
    """Yield the cells of each row, and whether a line stands above it.

    Equal first names that follow each other are set once.
    """
    spans = len(part.stubs) > 1
    for number, (_, run) in enumerate(groupby(block.rows, key=lambda row: row.stubs[:1])):
        rows = list(run)
        for place, row in enumerate(rows):
            names = [latex_text(name) for name in row.stubs]
            if spans:
                names[:1] = [_spanning(names[0], place, rows, part)]
            yield spans and number > 0 and place == 0, [*names, *map(latex_cell, row.entries)]


def _spanning(name: str, place: int, rows: Sequence[Row], part: Part) -> str:
    """Set a name in the middle of its rows, lowered by half a row where they are even."""
    if place != (len(rows) - 1) // 2:
        return ""
    if len(rows) == 1:
        return name
    drop = "0pt" if len(rows) % 2 else r"-0.5\normalbaselineskip"
    upright = part.turned and len(rows) > 2 and len(rows[0].stubs[0]) <= 3 * len(rows)
    return rf"\{'slturn' if upright else 'slside'}{{{drop}}}{{{name}}}"


def latex_table(item: Table) -> str:
    floats: list[tuple[Sequence[Part], str, Words]] = [(item.parts, item.name, ())]
    if item.arrangement == "apart":
        floats = [
            ([part], f"{item.name}-{number}", part.caption)
            for number, part in enumerate(item.parts, start=1)
        ]
    return "\n".join(
        _macros().latex_float(item, parts, re.sub("[^A-Za-z0-9]", "-", label), more)
        for parts, label, more in floats
    )


def latex_document(names: Sequence[str]) -> str:
    inputs = "\n".join(rf"\input{{{name}}}\clearpage" for name in names)
    return str(_macros().latex_document(inputs))


_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~])")


def markdown_text(text: str) -> str:
    r"""Write any text so that Markdown shows it as it is.

    >>> markdown_text("a_b | <b>")
    'a\\_b \\| \\<b\\>'
    """
    return _SPECIAL.sub(r"\\\1", text.replace("\n", " ").replace("\r", " "))


def markdown_words(text: Words) -> str:
    """Write a run of pieces; colours are left to the letters that carry them."""
    return "".join(_markdown_piece(piece) for piece in text)


def _markdown_piece(piece: Piece) -> str:
    text = markdown_text(piece.text)
    for yes, mark in (
        (piece.underlined, "u"),
        (piece.form == "sup", "sup"),
        (piece.form == "sub", "sub"),
        (piece.form == "small", "small"),
        (piece.italic, "i"),
    ):
        if yes:
            text = f"<{mark}>{text}</{mark}>"
    return f"<b>{text}</b>" if piece.bold and piece.form == "plain" else text


def markdown_cell(item: Entry) -> str:
    """Write one entry: bold where it is shaded or bold, in italics where chance would reach it."""
    text = "<br>".join(markdown_words(line) for line in item.lines)
    if item.faint:
        text = f"<i>{text}</i>"
    return f"<b>{text}</b>" if item.bold or item.shade is not None else text


def markdown_table(item: Table) -> str:
    return str(_macros().markdown_table(item, [*item.notes, *_without_colours(item)]))


def _without_colours(item: Table) -> list[Words]:
    """Say how this format writes shading and grey, where a table has them."""
    entries = [entry for _, _, row in item.rows for entry in row.entries]
    notes = []
    if any(entry.shade is not None for entry in entries):
        notes.append("what is shaded is bold")
    if any(entry.faint for entry in entries):
        notes.append("what is grey is in italics")
    return [words(f"Without colours, {' and '.join(notes)} here.")] if notes else []


@cache
def _macros() -> Any:
    """Return the macros of tables.jinja. Its signs are not those of LaTeX."""
    templates = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        block_start_string="<%",
        block_end_string="%>",
        variable_start_string="<<",
        variable_end_string=">>",
        comment_start_string="<#",
        comment_end_string="#>",
    )
    templates.filters |= {
        "groups": _groups,
        "latex": latex_text,
        "latex_rows": _latex_rows,
        "latex_words": latex_words,
        "markdown": markdown_text,
        "markdown_cell": markdown_cell,
        "markdown_words": markdown_words,
        "ruler": lambda column: {"l": ":---", "c": ":---:", "r": "---:"}[column.align],
    }
    return templates.get_template("tables.jinja").module


def csv_table(item: Table) -> str:
    """Write one table. A column of entries becomes a column for each number that they hold."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    heads = _csv_heads(item)
    writer.writerow(heads)
    for part, block, row in item.rows:
        cells = {"part": part.name, "block": block.title}
        cells |= dict(zip(part.stubs, map(guarded, row.stubs), strict=True))
        for column, entry in zip(part.columns, row.entries, strict=True):
            cells |= {
                f"{column.name} {key}".strip(): csv_cell(value)
                for key, value in entry.values.items()
            }
        writer.writerow(cells.get(head, "") for head in heads)
    return buffer.getvalue()


def _csv_heads(item: Table) -> list[str]:
    """Name every column once, in the order of the table: parts may have different ones."""
    heads = ["part"] if len(item.parts) > 1 else []
    if any(block.title for part in item.parts for block in part.blocks):
        heads.append("block")
    heads += [name for part in item.parts for name in part.stubs]
    heads += [
        f"{column.name} {key}".strip()
        for part in item.parts
        for place, column in enumerate(part.columns)
        for block in part.blocks
        for row in block.rows
        for key in row.entries[place].values
    ]
    return list(dict.fromkeys(heads))


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
