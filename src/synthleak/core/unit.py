"""What an audit asks about: records, or persons with all their records (docs/method.md §15)."""

from __future__ import annotations

from typing import Literal

Unit = Literal["record", "person"]

_MANY = {"person": "people"}


def noun(unit: str, count: int = 2) -> str:
    """Return what the targets of an audit, or other things, are called.

    >>> noun("record", 1), noun("person", 1), noun("person", 3), noun("release")
    ('record', 'person', 'people', 'releases')
    """
    return unit if count == 1 else _MANY.get(unit, f"{unit}s")


def counted(count: int, unit: str) -> str:
    """Return a number of targets, or of other things, in words.

    >>> counted(1, "record"), counted(1200, "person")
    ('1 record', '1,200 people')
    """
    return f"{count:,} {noun(unit, count)}"
