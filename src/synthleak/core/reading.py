"""Files of others: limits on what is read, and one line instead of a traceback.

A broken or hostile file must not fill the memory. Each limit has an environment variable that sets
another value; workers see it too. Limits say how much a machine is asked to hold, never what an
audit finds, so they enter no key.

Parsers raise what they like on a malformed file: `json` a `RecursionError`, `int` a `ValueError`
over 4,300 digits, `codecs` a `LookupError`, Arrow its own errors. Whatever a parser raises inside a
`Boundary` becomes one error that names the file and the line. What our own code raises does not:
that is a bug, and must be seen as one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeVar

import synthleak
from synthleak.core.errors import CorpusError, SpecError, SynthleakError, UserError


class HasText(Protocol):
    """A record, private or synthetic."""

    @property
    def text(self) -> str:
        """Its text."""


R = TypeVar("R", bound=HasText)


@dataclass(frozen=True)
class Limit:
    """A largest number, in units of `scale`, that the environment variable `variable` may set."""

    variable: str
    default: int
    unit: str = ""
    scale: int = 1

    @property
    def value(self) -> int:
        written = os.environ.get(self.variable, "").strip()
        if not written:
            return self.default * self.scale
        if not written.isdecimal() or len(written) > 15 or not int(written):
            raise SpecError(f"{written!r}", self.variable, "use a whole number from 1")
        return int(written) * self.scale

    def check(self, size: int, what: str, where: str, error: type[UserError] = CorpusError) -> None:
        """Raise `error` if `size` is too large; `what` names it, such as "the line"."""
        if size > self.scale and size > self.value:  # the first alone spares a look outside
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


def within_limits(items: Iterable[R], what: str, where: str) -> Iterator[R]:
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


T = TypeVar("T")
_PACKAGE = f"{Path(synthleak.__file__).parent}{os.sep}"


class Boundary:
    """Turns what a parser raises within `with` into the error that `explain` returns.

    The message of a parser may quote a record, so `explain` decides what of it is shown.

    >>> with Boundary(lambda error: UserError("not a number", "line 3")):
    ...     int("ten")
    Traceback (most recent call last):
    ...
    synthleak.core.errors.UserError: line 3: not a number
    """

    def __init__(self, explain: Callable[[Exception], UserError]) -> None:
        self._explain = explain

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        if not isinstance(error, Exception) or isinstance(error, SynthleakError):
            return
        if at is None or not _is_ours(at):
            raise self._explain(error) from None

    def each(self, items: Iterable[T]) -> Iterator[T]:
        """Yield what a parser yields; whoever uses it does not run inside the boundary."""
        with self:
            yield from items


def _is_ours(at: TracebackType) -> bool:
    """Say whether a function of synthleak raised, called from within the `with`."""
    last = at
    while last.tb_next is not None:
        last = last.tb_next
    return last is not at and last.tb_frame.f_code.co_filename.startswith(_PACKAGE)


DEEPEST = 50
"""Lists and mappings within one another that anything read from a file may hold."""


def is_deep(value: object) -> bool:
    """Say whether lists and mappings are nested so deeply that code of ours could not follow."""
    waiting = [(1, value)]
    while waiting:
        depth, item = waiting.pop()
        inside = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        if depth > DEEPEST and inside:
            return True
        waiting += [(depth + 1, each) for each in inside if isinstance(each, dict | list)]
    return False


def check_file(path: Path, limit: Limit, error: type[UserError], remedy: str) -> None:
    """Refuse a pipe, which would be waited for, a device, which may never end, and a huge file.

    A missing file or a folder passes: whoever opens it says so.
    """

    def refused(reason: Exception) -> UserError:
        why = reason.strerror if isinstance(reason, OSError) else None
        return error(f"not a path that can be read ({why or reason})", str(path)[:200], remedy)

    with Boundary(refused):
        try:
            about = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return
    if stat.S_ISREG(about.st_mode):
        limit.check(about.st_size, "the file", str(path), error)
    elif not stat.S_ISDIR(about.st_mode):
        raise error("not a regular file", str(path), f"write it to a file; {remedy}")
