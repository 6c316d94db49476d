"""Limits on what is read and drawn, so that a broken or hostile file cannot fill the memory.

Each has a variable of the environment that sets another value; workers see it too. They say how
much a machine is asked to hold, never what an audit finds, so they enter no key.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, TypeVar

from synthleak.core.errors import CorpusError, SpecError, UserError


class HasText(Protocol):
    """A record, private or synthetic."""

    @property
    def text(self) -> str:
        """Its text."""


T = TypeVar("T", bound=HasText)


@dataclass(frozen=True)
class Limit:
    """A largest number, in units of `scale`, that the environment variable `variable` may set."""

    variable: str
    default: int
    unit: str = ""
    scale: int = 1

    @property
    def value(self) -> int:
        """The largest number that is accepted."""
        written = os.environ.get(self.variable, "").strip()
        if not written:
            return self.default * self.scale
        if not written.isdecimal() or len(written) > 15 or not int(written):
            raise SpecError(f"{written!r}", self.variable, "use a whole number from 1")
        return int(written) * self.scale

    def check(
        self, found: int, what: str, where: str, error: type[UserError] = CorpusError
    ) -> None:
        """Raise `error` if `found` is too large; `what` names it, such as "the line"."""
        if found > self.scale and found > self.value:  # the first alone spares a look outside
            raise error(
                f"{what} is larger than the limit of {self.value // self.scale:,}{self.unit}",
                where,
                f"set {self.variable} to raise it, if this is right",
            )


RECORD = Limit("SYNTHLEAK_MAX_RECORD_MB", 4, " MB", 1_000_000)
"""Characters of one record: a line or a row. A novel has about half a million."""
FILE = Limit("SYNTHLEAK_MAX_FILE_MB", 512, " MB", 1_000_000)
"""Bytes of one file of records, unpacked."""
RECORDS = Limit("SYNTHLEAK_MAX_RECORDS", 1_000_000, " records")
"""Records of a corpus or of a release."""
DRAWS = Limit("SYNTHLEAK_MAX_DRAWS", 5_000_000, " draws")
"""Records that the sets of one plan hold together, and trials that it scores."""


LINES_PER_RECORD = 10
"""Lines that a record takes at most on average: blank ones, and line ends within quotes."""


def within_limits(items: Iterable[T], what: str, where: str) -> Iterator[T]:
    """Yield the records of a corpus or release until they are too many, or their texts too long.

    A table may store one text once and name it in a million rows, so texts are counted here.
    """
    most, largest, size = RECORDS.value, FILE.value, 0
    for number, item in enumerate(items, start=1):
        size += len(item.text)
        if number > most:
            RECORDS.check(number, what, where)
        if size > largest:
            FILE.check(size, what, where)
        yield item
