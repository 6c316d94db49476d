"""Printing tables, for people or as JSON for programs, and writing files."""

from __future__ import annotations

import json
import math
import re
import sys
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


def print_table(
    rows: Sequence[Mapping[str, Any]], *, title: str = "", as_json: bool = False
) -> None:
    """Print rows that share their keys."""
    if as_json:
        print_json(rows)
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    class Output(Console):
        def on_broken_pipe(self) -> None:
            raise  # noqa: PLE0704 - what is being handled; rich would exit 1, like a failed gate

    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for key, value in (rows[0] if rows else {}).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(key, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(shown(value) for value in row.values()))
    width = None if sys.stdout.isatty() else WIDE
    console = Output(highlight=False, markup=False, emoji=False, width=width)
    console.print(table)


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
