"""Printing tables: for people by default, as JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

WIDE = 200
"""Columns of a table that goes into a file or a pipe, where no terminal sets a width."""


def print_table(rows: Sequence[Mapping[str, Any]], *, as_json: bool, title: str = "") -> None:
    """Print rows that share their keys."""
    if as_json:
        print_json(rows)
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, title=title or None, title_justify="left", pad_edge=False)
    for key, value in (rows[0] if rows else {}).items():
        number = isinstance(value, int | float) and not isinstance(value, bool)
        table.add_column(key, justify="right" if number else "left", overflow="fold")
    for row in rows:
        table.add_row(*(shown(value) for value in row.values()))
    width = None if sys.stdout.isatty() else WIDE
    console = Console(highlight=False, markup=False, emoji=False, width=width)
    console.print(table)


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
    return str(value)


def print_json(value: Any) -> None:
    """Print anything for a program; ε without privacy is written `inf`."""
    click.echo(json.dumps(_plain(value), indent=1, ensure_ascii=False))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return "inf" if isinstance(value, float) and math.isinf(value) else value
