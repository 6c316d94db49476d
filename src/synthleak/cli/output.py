"""Printing tables, for people or as JSON for programs."""

from __future__ import annotations

import json
import math
import os
import re
import shlex
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_BEYOND_ASCII_CONTROL = re.compile(r"[\x7f-\x9f]")
"""Control characters that JSON may hold as they are."""
WIDE = 200
"""Columns of a table that goes into a file or a pipe, where no terminal sets a width."""
UNLIMITED = 100_000
EXIT_FAILED = 1
LONG_WORD = 24
"""Longer words, such as paths, are broken where there is no room."""


def print_table(
    rows: Sequence[Mapping[str, Any]],
    *,
    title: str = "",
    as_json: bool = False,
    wide: bool = False,
) -> None:
    """Print rows that share their keys; numbers are never broken, nor is anything if `wide`."""
    if as_json:
        print_json(rows)
        return
    width = UNLIMITED if wide else terminal_width() or WIDE
    columns = [_Column.of(key, rows) for key in (rows[0] if rows else {})]
    if title:
        print_prose(title)
    for part in _parts(columns, width):
        _print_part(part, width)


@dataclass(frozen=True)
class _Column:
    """A column of a table, and how narrow it may be: no number, and hardly a word, is broken."""

    key: str
    cells: tuple[str, ...]
    number: bool

    @classmethod
    def of(cls, key: str, rows: Sequence[Mapping[str, Any]]) -> _Column:
        values = [row[key] for row in rows]
        number = any(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
        return cls(key, tuple(shown(value) for value in values), number)

    @property
    def pieces(self) -> list[str]:
        """The header in pieces: it may be broken at spaces and after underscores."""
        return re.findall(r"[^ _]+_?|_", self.key)

    @property
    def least(self) -> int:
        """The smallest width: that of the longest word, or of the longest number."""
        words = self.cells if self.number else [w for cell in self.cells for w in cell.split()]
        longest = max(map(len, words), default=0)
        return max(longest if self.number else min(longest, LONG_WORD), *map(len, self.pieces))

    @property
    def natural(self) -> int:
        return max(len(self.key), *map(len, self.cells))

    def header(self, width: int) -> str:
        """Return the header in lines of at most `width`."""
        lines = [""]
        for piece in self.pieces:
            gap = "" if not lines[-1] or lines[-1].endswith("_") else " "
            if len(lines[-1] + gap + piece) <= width:
                lines[-1] += gap + piece
            else:
                lines.append(piece)
        return "\n".join(lines)


def _parts(columns: Sequence[_Column], width: int) -> list[list[_Column]]:
    """Cut a table that is too wide into several, which repeat the columns that name a row.

    Those stand before the first number; ε is a name too.
    """
    numbers = (at for at, one in enumerate(columns) if one.number and one.key != "epsilon")
    first = max(1, next(numbers, 1))
    parts = [list(columns[:first])]
    for column in columns[first:]:
        wider = [*parts[-1], column]
        if len(wider) > first + 1 and _gaps(wider) + sum(one.least for one in wider) > width:
            parts.append(list(columns[:first]))
        parts[-1].append(column)
    return parts


def _gaps(columns: Sequence[_Column]) -> int:
    return 2 * (len(columns) - 1)


def _widths(columns: Sequence[_Column], width: int) -> list[int]:
    """Share the width: each column gets its least, and what is left where it is missing most."""
    granted = [column.least for column in columns]
    for _ in range(max(0, width - _gaps(columns) - sum(granted))):
        wanted = [column.natural - has for column, has in zip(columns, granted, strict=True)]
        if max(wanted) <= 0:
            break
        granted[wanted.index(min(want for want in wanted if want > 0))] += 1
    return granted


def _print_part(columns: Sequence[_Column], width: int) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - what is being handled; rich would exit 1, like a failed gate

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column, granted in zip(columns, _widths(columns, width), strict=True):
        justify: Literal["right", "left"] = "right" if column.number else "left"
        table.add_column(column.header(granted), justify=justify, overflow="fold", width=granted)
    for cells in zip(*(column.cells for column in columns), strict=True):
        table.add_row(*cells)
    Output(highlight=False, markup=False, emoji=False, width=max(width, 1)).print(table)
    click.echo()


def terminal_width() -> int | None:
    """Return how many columns the reader sees; None in a file or a pipe."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return None


def print_prose(text: str) -> None:
    """Print a paragraph; on a terminal no word is broken."""
    width = terminal_width()
    if width is not None:
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    click.echo(printable(text))


def check_command(
    option: str, folder: Path, files: Sequence[str], fields: Mapping[str, str]
) -> str:
    """Return the `check` of these files of a folder, to be copied; usual fields are not named."""
    words = ["synthleak", "check", option]
    for name in files:
        words += [f"--{name}", str(folder / f"{name}.jsonl")]
    for name, field in fields.items():
        words += [f"--{name}", field] if field != name else []
    return shlex.join(words)


def columns_of(rows: Sequence[object], columns: Sequence[str]) -> list[dict[str, Any]]:
    return [{name: getattr(row, name) for name in columns} for row in rows]


def shown(value: Any) -> str:
    """Write a value for people; a small one keeps a digit, so that a p is never shown as 0.

    >>> shown(0.12345), shown(0.0004998), shown(math.inf), shown(3), shown(None)
    ('0.123', '0.0005', 'inf', '3', '')
    """
    if value is None:
        return ""
    if isinstance(value, float):
        if math.isinf(value) or value == int(value):
            return f"{value:g}"
        return f"{value:.1g}" if abs(value) < 0.001 else f"{value:.3f}"
    return printable(str(value))


def printable(text: str) -> str:
    """Replace control characters: an id in a file must not command a terminal.

    >>> printable("id\\x1b[2J7")
    'id�[2J7'
    """
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text)


def json_text(value: Any) -> str:
    """Write anything for a program; an infinite ε is written `inf`."""
    text = json.dumps(_plain(value), indent=1, ensure_ascii=False)
    return _BEYOND_ASCII_CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def print_json(value: Any) -> None:
    click.echo(json_text(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
