"""What a verification compares, and how it says what it found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from synthleak.audit.setup import Setup
from synthleak.audit.steps.releases import wanted_sets
from synthleak.core.cell import Cell
from synthleak.core.errors import Damaged
from synthleak.core.store import Store
from synthleak.plan.plan import RecordSet

VERIFIED, DIFFERS, UNCHECKED = "verified", "differs", "not checked"
NAMED = 3
"""Differences that are named one by one."""


@dataclass(frozen=True)
class Finding:
    """One thing that was compared, and how that ended."""

    what: str
    outcome: str
    detail: str


@dataclass(frozen=True)
class Verification:
    """What was compared; `draw` is the seed that chose the units to make again."""

    findings: tuple[Finding, ...]
    draw: int

    @property
    def verified(self) -> bool:
        """Whether nothing differs. What could not be checked is said in the findings."""
        return all(finding.outcome != DIFFERS for finding in self.findings)


def compared(what: str, differing: Sequence[str], whole: str) -> Finding:
    """Name the first differences, or say what was compared."""
    if not differing:
        return Finding(what, VERIFIED, whole)
    return Finding(what, DIFFERS, first_of(differing))


def first_of(names: Sequence[str]) -> str:
    """Name the first of many, and count the rest.

    >>> first_of(["a", "b"]), first_of(list("abcde"))
    ('a, b', 'a, b, c and 2 more')
    """
    more = f" and {len(names) - NAMED:,} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def unless_damaged(what: str, compare: Callable[[], Finding]) -> Finding:
    """Turn what is damaged on the way into a difference."""
    try:
        return compare()
    except Damaged as error:
        return Finding(what, DIFFERS, error.what)


def is_stored(store: Store, name: str, data: bytes) -> bool:
    """Say whether a store holds exactly this under `name`."""
    try:
        return store.get(name) == data
    except (KeyError, Damaged):
        return False


def title_of(cell: Cell) -> str:
    """Name a cell in a finding."""
    return f"{cell.pool}/{cell.generator}/{cell.epsilon:g}"


def all_releases(setup: Setup) -> Iterator[tuple[Cell, RecordSet]]:
    """Yield every release of an audit: its cell, and the set that it was made from."""
    for cell in setup.cells:
        for _, item in wanted_sets(setup, cell):
            yield cell, item
