"""Files that external programs read and write: JSON Lines, one record a line.

A training file holds `text` and `labels` of each private record and nothing else. A release holds
`text`, and may hold `labels`. Errors name the line of a release and never quote its text
(docs/generators.md).
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from synthleak.core.cell import format_epsilon
from synthleak.core.errors import GeneratorError
from synthleak.core.limits import FILE, RECORD
from synthleak.core.reading import Boundary, check_file
from synthleak.corpus.corpus import Labels, Record
from synthleak.releases.generator import owners_of
from synthleak.releases.release import Synthetic

SEED_LIMIT = 2**31 - 1
"""Seeds for external programs stay below this: R, awk and many libraries take no more."""

_LINE_ENDS = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\x85\u2028\u2029"}
"""Characters at which some languages break lines though JSON does not escape them."""


def dump_training(records: Sequence[Record], *, persons: bool = False) -> bytes:
    """Write private records for a program: equal sets give equal bytes.

    Where an audit asks about `persons` each record has the number of its person within the file.
    """
    owners = owners_of(records) if persons else ()
    rows: list[dict[str, Any]] = [{"text": r.text, "labels": list(r.labels)} for r in records]
    for row, owner in zip(rows, owners, strict=False):
        row["person"] = owner + 1
    return b"".join(map(_line, rows))


def _line(row: dict[str, Any]) -> bytes:
    text = json.dumps(row, ensure_ascii=False).translate(_LINE_ENDS)
    try:
        return f"{text}\n".encode()
    except UnicodeEncodeError:  # an unpaired surrogate has no UTF-8 form
        return f"{json.dumps(row)}\n".encode()


def program_seed(seed: int) -> int:
    """Cut a seed to what every language can take."""
    return seed % SEED_LIMIT


def budget(epsilon: float) -> str:
    """Write ε for an argument or a file name.

    >>> budget(float("inf")), budget(4.0), budget(0.5), budget(1 / 3)
    ('inf', '4', '0.5', '0.3333333333333333')
    """
    return format_epsilon(epsilon, infinity="inf", exact=True)


def content_hash(data: bytes) -> str:
    """Return the SHA-256 of a file's bytes, as `sha256sum` prints it."""
    return hashlib.sha256(data).hexdigest()


def file_hash(path: Path) -> str:
    """Return the content hash of a file, read again only when it has changed; "" if not there."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return ""
    return _file_hash(path, status.st_mtime_ns, status.st_size) if path.is_file() else ""


@lru_cache(maxsize=10_000)
def _file_hash(path: Path, changed: int, size: int) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise GeneratorError(f"cannot be read ({error.strerror})", str(path)) from None


def read_release(path: Path, size: int, where: str, *, of_set: str = "") -> list[Synthetic]:
    """Read a release of exactly `size` records; `of_set` is whose it must be if it says so.

    Lines are read one by one, no farther than the limits: a program may write anything.
    """
    found, release = 0, []
    for number, line in _lines(path, where):
        if line.strip():
            found += 1
            record = _record(line, f"{where}, line {number}", of_set)
            if found <= size:  # what is too many is counted, not kept
                release.append(record)
    if not found:
        raise GeneratorError("the file is empty", where, f"write {size} lines of JSON")
    if found != size:
        raise GeneratorError(
            f"too {'few' if found < size else 'many'} records: {found}, not {size}",
            where,
            f"write exactly {size}, one a line",
        )
    return release


def check_release(path: Path) -> None:
    """Refuse what is not a regular file, or too large; a missing file passes."""
    check_file(path, FILE, GeneratorError, "replace it with the release file for this set")


def _lines(path: Path, where: str) -> Iterator[tuple[int, bytes]]:
    check_release(path)
    longest, number = RECORD.value, 0
    with Boundary(lambda error: _unreadable(error, where)), path.open("rb") as file:
        while line := file.readline(longest + 1):
            number += 1
            if len(line) > longest:
                RECORD.check(len(line), "the line", f"{where}, line {number}", GeneratorError)
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


def _record(line: bytes, where: str, of_set: str) -> Synthetic:
    def invalid(error: Exception) -> GeneratorError:
        if isinstance(error, UnicodeError):
            return GeneratorError("not valid UTF-8", where, "write UTF-8")
        return GeneratorError(
            "not valid JSON", where, 'each line must be one whole object: {"text": "..."}'
        )

    with Boundary(invalid):
        row = json.loads(line.decode())
    if not isinstance(row, dict) or not isinstance(row.get("text"), str):
        raise GeneratorError(
            "no string 'text'", where, 'each line must be an object: {"text": "..."}'
        )
    labels = _labels(row.get("labels"), where)
    try:
        "".join([row["text"], *labels]).encode()
    except UnicodeEncodeError:
        raise GeneratorError(
            "'text' or a label holds invalid Unicode (an unpaired surrogate)",
            where,
            "correct or drop that record",
        ) from None
    if of_set and row.get("set", of_set) != of_set:
        raise GeneratorError(
            f"the line says that it belongs to {_set_name(row['set'])}",
            where,
            f"put the release of {of_set!r} here: some were swapped",
        )
    return Synthetic(row["text"], labels)


def _set_name(value: Any) -> str:
    """Show the name of a set, and nothing else that may stand in its place."""
    known = isinstance(value, str) and re.fullmatch(r"set-[0-9]{1,9}", value)
    return repr(value) if known else "another set"


def _labels(value: Any, where: str) -> Labels:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(label, str) for label in value):
        raise GeneratorError(
            "'labels' is not a list of strings", where, 'write ["A", "B"], or none'
        )
    return tuple(sorted(set(value)))


def _unreadable(error: Exception, where: str) -> GeneratorError:
    why = error.strerror if isinstance(error, OSError) else type(error).__name__
    return GeneratorError(f"cannot be read ({why})", where)
