"""Markdown that holds names and figures from data: nothing in them is read as markup."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from synthleak.core.errors import one_line


def plain(text: str) -> str:
    """Escape what Markdown or HTML would read as markup; one line, without control characters.

    >>> print(plain("a_b | <b>"))
    a\\_b \\| &lt;b>
    """
    text = one_line(text).replace("\\", "\\\\").replace("<", "&lt;")
    return re.sub(r"([|*_`\[\]])", r"\\\1", " ".join(text.split()))


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows that share their keys as a table of pipes."""
    lines = [list(rows[0]), ["---"] * len(rows[0])]
    lines += [[plain(_figure(value)) for value in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _figure(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.3g}" if isinstance(value, float) else str(value)
