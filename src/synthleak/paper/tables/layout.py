"""A paper table as data, before it is written as LaTeX, Markdown or CSV.

Text is plain Unicode everywhere; each format escapes it in its own way, so that no name from a
corpus or a spec can break a table.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from synthleak.core.cell import LEVEL, format_epsilon

Value = str | float | int | bool | None
Form = Literal["plain", "sup", "sub", "small"]
Colour = Literal["", "lexcol", "embcol", "best", "topheavy", "gray"]
Shade = tuple[Colour, int]
Size = Literal["small", "footnotesize"]
Arrangement = Literal["beside", "below", "apart"]
"""Parts of a table: side by side, one under the other, or each on its own."""


@dataclass(frozen=True)
class Piece:
    """A run of text in one style."""

    text: str
    form: Form = "plain"
    colour: Colour = ""
    bold: bool = False
    underlined: bool = False
    italic: bool = False


Words = tuple[Piece, ...]


def words(*parts: str | Piece) -> Words:
    return tuple(Piece(part) if isinstance(part, str) else part for part in parts)


@dataclass(frozen=True)
class Entry:
    """One table cell: lines of text for people, and the numbers behind them for programs.

    `shade` is a colour and its strength in per cent; a value that chance alone would reach is
    `faint`.
    """

    lines: tuple[Words, ...]
    values: Mapping[str, Value] = field(default_factory=dict)
    shade: Shade | None = None
    bold: bool = False
    faint: bool = False


def entry(
    *parts: str | Piece,
    values: Mapping[str, Value] | None = None,
    shade: Shade | None = None,
    bold: bool = False,
    faint: bool = False,
) -> Entry:
    return Entry((words(*parts),), values or {}, shade, bold, faint)


def values_of(row: object, names: str) -> dict[str, Value]:
    """Return some columns of a row, named with spaces between them."""
    return {name: getattr(row, name) for name in names.split()}


NOTHING = entry(Piece("–", colour="gray"))
"""Where a study has no such cell."""


@dataclass(frozen=True)
class Column:
    """A column of entries; `group` is a heading above several columns in a row.

    `plain` is its full name for formats without groups.
    """

    head: str
    group: str = ""
    align: Literal["l", "c", "r"] = "c"
    upright: bool = False
    plain: str = ""

    @property
    def name(self) -> str:
        """Its name where a table has one line of headings."""
        return self.plain or " ".join(filter(None, (self.group, self.head)))


@dataclass(frozen=True)
class Row:
    """Names at the left, then an entry for each column."""

    stubs: Sequence[str]
    entries: Sequence[Entry]


@dataclass(frozen=True)
class Block:
    """Rows that belong together, perhaps under a title."""

    rows: Sequence[Row]
    title: str = ""


@dataclass(frozen=True)
class Part:
    """One grid. A `turned` one is narrow: first names upright, no headings above them.

    `name` identifies it in CSV files.
    """

    stubs: Sequence[str]
    columns: Sequence[Column]
    blocks: Sequence[Block]
    caption: Words = ()
    turned: bool = False
    name: str = ""


@dataclass(frozen=True)
class Table:
    """A table: its caption, its parts, and notes on how to read it."""

    name: str
    caption: Words
    parts: Sequence[Part]
    notes: Sequence[Words] = ()
    arrangement: Arrangement = "below"
    size: Size = "footnotesize"

    @property
    def rows(self) -> Iterator[tuple[Part, Block, Row]]:
        """Every row with its part and block."""
        return (
            (part, block, row) for part in self.parts for block in part.blocks for row in block.rows
        )


def budgets_of(epsilons: Iterable[float]) -> list[float]:
    """Return the budgets once each, the weakest protection first."""
    return sorted(set(epsilons), reverse=True)


def budget(epsilon: float) -> str:
    return f"ε = {format_epsilon(epsilon)}"


def budget_list(epsilons: Sequence[float]) -> str:
    return f"ε = {', '.join(map(format_epsilon, epsilons))}"


def short(value: float, digits: int = 2) -> str:
    """Write a share without its leading zero, as narrow columns want it.

    >>> short(0.793), short(1.0), short(-0.04)
    ('.79', '1.00', '−.04')
    """
    text = f"{abs(value):.{digits}f}"
    text = text.removeprefix("0") if text.startswith("0.") else text
    return f"−{text}" if value < 0 and float(f"{value:.{digits}f}") != 0 else text


def signed(value: float, digits: int = 3) -> str:
    """Write a difference with its sign.

    >>> signed(0.0651), signed(-0.012), signed(0.0)
    ('+0.065', '−0.012', '+0.000')
    """
    rounded = round(value, digits)
    return f"{'−' if rounded < 0 else '+'}{abs(rounded):.{digits}f}"


def percent(value: float, digits: int = 0) -> str:
    """Write a share in per cent, without the sign.

    >>> percent(0.457), percent(0.457, 1)
    ('46', '45.7')
    """
    return f"{100 * value:.{digits}f}"


def interval(low: float, high: float) -> str:
    """Write an interval of differences.

    >>> interval(-0.012, 0.5)
    '[−0.01,+0.50]'
    """
    return f"[{signed(low, 2)},{signed(high, 2)}]"


def significant(p: float | None) -> bool:
    return p is not None and p <= LEVEL


def within(value: float, low: float | None, high: float | None) -> bool:
    """Say whether a value lies inside a band; outside where there is none."""
    return low is not None and high is not None and low <= value <= high


def chance(p: float | None) -> str:
    """Write a p-value.

    >>> chance(0.0004), chance(0.0451), chance(None)
    ('<0.001', '0.045', '–')
    """
    if p is None:
        return "–"
    return "<0.001" if p < 0.001 else f"{p:.3f}"


def tag(view: str, more: str = "") -> Piece:
    """Return the letter of a view, raised, in the view's colour.

    >>> tag("lexical").text, tag("embedding", "*").text
    ('L', 'E*')
    """
    colour = colour_of(view)
    return Piece((view[:1].upper() or "?") + more, form="sup", colour=colour, bold=True)


def colour_of(view: str) -> Colour:
    return "lexcol" if view == "lexical" else "embcol" if view == "embedding" else ""


STYLES = {
    "bold": Piece("", bold=True),
    "italic": Piece("", italic=True),
    "underlined": Piece("", underlined=True),
    "raised": Piece("", form="sup"),
    "grey": Piece("", colour="gray"),
    "lexical": Piece("", colour="lexcol", bold=True),
    "embedding": Piece("", colour="embcol", bold=True),
}


def marked(text: str) -> Words:
    """Return text in which `[style:words]` sets words in one of `STYLES`.

    >>> [(piece.text, piece.bold) for piece in marked("[bold:Bold]: p ≤ 0.05.")]
    [('Bold', True), (': p ≤ 0.05.', False)]
    """
    pieces = []
    for place, part in enumerate(re.split(r"(\[\w+:[^]]+\])", text)):
        style, _, inside = part.strip("[]").partition(":")
        pieces.append(replace(STYLES[style], text=inside) if place % 2 else Piece(part))
    return tuple(piece for piece in pieces if piece.text)


@cache
def _captions() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("captions.toml").read_text("utf-8"))


def table(
    name: str,
    parts: Sequence[Part],
    *,
    arrangement: Arrangement = "below",
    size: Size = "footnotesize",
    captions: str = "",
    **values: object,
) -> Table:
    """Return a table with the caption and the notes that captions.toml holds under its name.

    `captions` is the name there, if it is another; `values` fill in what the texts leave open.
    """
    texts = _captions()[captions or name]
    shared = _captions()["shared_notes"]
    notes = [marked(shared.get(note, note).format(**values)) for note in texts.get("notes", ())]
    return Table(name, marked(texts["caption"].format(**values)), parts, notes, arrangement, size)
