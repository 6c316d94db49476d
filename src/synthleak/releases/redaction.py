"""Redaction of a program's stderr: lines that quote private text are removed.

A line is removed if it shares 20 characters of folded text with a training record, if it is
nothing but a piece of one, or if a shorter record stands in it as a whole. Records are also looked
for as JSON and as Python bytes would spell them.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from synthleak.core.text import fold
from synthleak.corpus.corpus import Record

FRAGMENT = 20
_LINES = 40
_WIDTH = 400
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def redact(output: str, records: Iterable[Record]) -> tuple[list[str], int]:
    """Return the last lines that quote no record, and how many were removed.

    >>> redact("bad line: she took 20mg of zoloft\\nexit", [Record("1", "Took 20mg of Zoloft")])
    (['exit'], 1)
    """
    lines = [
        _CONTROL.sub("", line)[:_WIDTH].strip()
        for line in output.replace("\r", "\n").split("\n")
        if line.strip()
    ][-_LINES:]
    secret = _quoting([fold(line) for line in lines], records)
    kept = [line for number, line in enumerate(lines) if line and number not in secret]
    return kept, len(secret)


def _quoting(lines: list[str], records: Iterable[Record]) -> set[int]:
    """Return the numbers of the folded lines that quote a record."""
    windows: dict[str, set[int]] = defaultdict(set)
    for number, line in enumerate(lines):
        for start in range(len(line) - FRAGMENT + 1):
            windows[line[start : start + FRAGMENT]].add(number)
    found: set[int] = set()
    for form in _forms(records):
        found |= {number for number, line in enumerate(lines) if line and line in form}
        if len(form) < FRAGMENT:
            whole = re.compile(rf"(?<!\w){re.escape(form)}(?!\w)")
            found |= {number for number, line in enumerate(lines) if whole.search(line)}
        for start in range(len(form) - FRAGMENT + 1):
            found |= windows.get(form[start : start + FRAGMENT], _NONE)
    return found


_NONE: set[int] = set()


def _forms(records: Iterable[Record]) -> Iterator[str]:
    """Yield each record as it may be printed, folded."""
    for record in records:
        spelled = (record.text, json.dumps(record.text)[1:-1], repr(_bytes(record.text))[2:-1])
        yield from sorted({fold(text) for text in spelled} - {""})


def _bytes(text: str) -> bytes:
    return text.encode(errors="replace")
