"""Printing tables, for people or as JSON for programs, and writing files."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from synthleak.core.store import cannot_write, write_whole

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_BEYOND_ASCII_CONTROL = re.compile(r"[\x7f-\x9f]")
"""Control characters that JSON may hold as they are."""
WIDE = 200
"""Columns of a table that goes into a file or a pipe, where no terminal sets a width."""
UNLIMITED = 100_000


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
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(
        box=SIMPLE_HEAD,
        title=title or None,
        title_justify="left",
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    for key in rows[0] if rows else {}:
        number = any(
            isinstance(row[key], int | float) and not isinstance(row[key], bool) for row in rows
        )
        table.add_column(
            key.replace(" ", "\n") if number else key,
            justify="right" if number else "left",
            overflow="fold",
            no_wrap=number,
        )
    for row in rows:
        table.add_row(*(shown(value) for value in row.values()))
    width = UNLIMITED if wide else terminal_width() or WIDE
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    console.print(table)
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


def columns_of(rows: Sequence[object], columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return some attributes of each row, by name."""
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
    """Print anything for a program."""
    click.echo(json_text(value))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value


def write_file(path: Path, data: bytes) -> None:
    """Write a file whole, in a folder that is made if it is missing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, data)
    except OSError as error:
        raise cannot_write(path, error) from None
