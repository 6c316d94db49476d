"""The boundary between files of others and our own code: one line instead of a traceback.

Parsers raise what they like on a malformed file: `json` a `RecursionError`, `int` a `ValueError`
over 4,300 digits, `codecs` a `LookupError`, Arrow its own errors. Whatever a parser raises inside a
`Boundary` becomes one error that names the file and the line. What our own code raises does not:
that is a bug, and must be seen as one.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import synthleak
from synthleak.core.errors import SynthleakError, UserError
from synthleak.core.limits import Limit

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
        said = reason.strerror if isinstance(reason, OSError) else None
        return error(f"not a path that can be read ({said or reason})", str(path)[:200], remedy)

    with Boundary(refused):
        try:
            about = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return
    if stat.S_ISREG(about.st_mode):
        limit.check(about.st_size, "the file", str(path), error)
    elif not stat.S_ISDIR(about.st_mode):
        raise error("not a regular file", str(path), f"write it to a file; {remedy}")
