"""Files that external programs read and write, and the manifest of an exported plan.

A training file holds `text` and `labels` of each private record and nothing else. A release holds
`text`, and may hold `labels`, one record a line of JSON. Errors name the line of a release and
never quote its text (docs/generators.md).

In an exported plan a set goes out under a neutral name: nothing in the folder says whether it is a
play of the game or a reference, or who is a member. A release is found again by its ticket, the
hash of all that it is to be made from; so a folder that was exported for another plan is noticed.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from synthleak.core.cell import format_epsilon
from synthleak.core.errors import GeneratorError
from synthleak.core.reading import FILE, RECORD, Boundary, check_file
from synthleak.core.seeds import digest
from synthleak.core.spec import Epsilon, Name
from synthleak.core.text import fold
from synthleak.corpus.corpus import Labels, Record
from synthleak.releases.generator import owners_of
from synthleak.releases.release import Request, Synthetic

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
    n_records, release = 0, []
    for number, line in _lines(path, where):
        if line.strip():
            n_records += 1
            record = _record(line, f"{where}, line {number}", of_set)
            if n_records <= size:  # what is too many is counted, not kept
                release.append(record)
    if not n_records:
        raise GeneratorError("the file is empty", where, f"write {size} lines of JSON")
    if n_records != size:
        raise GeneratorError(
            f"too {'few' if n_records < size else 'many'} records: {n_records}, not {size}",
            where,
            f"write exactly {size}, one a line",
        )
    return release


def read_numbers(path: Path, count: int, where: str) -> list[float]:
    """Read exactly `count` finite numbers, one a line."""
    numbers: list[float] = []
    for number, line in _lines(path, where):
        if not line.strip():
            continue
        try:
            numbers.append(float(line))
        except ValueError:
            numbers.append(math.nan)
        if not math.isfinite(numbers[-1]):
            raise GeneratorError(
                "not a finite number", f"{where}, line {number}", "write one number a line"
            )
    if len(numbers) != count:
        raise GeneratorError(
            f"too {'few' if len(numbers) < count else 'many'} numbers: {len(numbers)}, not {count}",
            where,
            "write one number a line, in the order of the texts",
        )
    return numbers


def check_release(path: Path) -> None:
    """Refuse what is not a regular file, or too large; a missing file passes."""
    check_file(path, FILE, GeneratorError, "replace it with the release file for this set")


def _lines(path: Path, where: str) -> Iterator[tuple[int, bytes]]:
    check_release(path)
    longest, number = RECORD.value, 0
    with Boundary(lambda error: _unreadable(error, where)), path.open("rb") as file:
        while line := file.readline(longest + 1):
            number += 1
            if number == 1:
                _refuse_binary(line, where)
            if len(line) > longest:
                RECORD.check(len(line), "the line", f"{where}, line {number}", GeneratorError)
            yield number, line.removeprefix(codecs.BOM_UTF8) if number == 1 else line


_BEGINNINGS = {
    b"PAR1": "Parquet",
    b"ARROW1": "Arrow",
    b"\xff\xff\xff\xff": "Arrow",
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
}


def _refuse_binary(line: bytes, where: str) -> None:
    """Name the format of a file that is known by its first bytes and is not JSON Lines."""
    for beginning, name in _BEGINNINGS.items():
        if line.startswith(beginning):
            raise GeneratorError(f"expected JSON Lines, and this is {name}", where, _EACH_LINE)


_EACH_LINE = 'write one object a line: {"text": "..."}'


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


MANIFEST = "manifest.json"
TRAIN = "train.jsonl"
FORMAT = 1


@dataclass(frozen=True)
class Slot:
    """One release that is asked for: made from `train`, to be put at `file`."""

    pool: str
    set: str
    train_hash: str
    nominal: int
    size: int
    epsilon: float
    delta: float
    seed: int
    ticket: str
    tied: bool = False

    @property
    def train(self) -> str:
        """Where the training file lies, from the folder."""
        return f"{self.pool}/{self.set}/{TRAIN}"

    @property
    def file(self) -> str:
        """Where the release is to be put, from the folder."""
        return f"{self.pool}/{self.set}/release-{budget(self.epsilon)}.jsonl"

    @property
    def made_from(self) -> str:
        """Where the hash of the training file goes that the release was made from."""
        return f"{self.file}.made-from"


def ticket_of(request: Request, *, tied: bool = False) -> str:
    """Return the hash of all that a release is made from.

    The seed is in it, because two sets may hold the same records where N is close to |C|. Whoever
    makes the releases does not know it, and so cannot turn a `tied` ticket into another one.
    """
    return digest(
        "tied ticket" if tied else "ticket",
        content_hash(dump_training(request.records, persons=request.persons)),
        [request.nominal, request.size, request.epsilon, request.delta, request.seed],
    )


def dump_manifest(slots: Sequence[Slot], generator: str, *, tied: bool = False) -> bytes:
    """Write the manifest: sets in the order of their names, each with its releases.

    If `tied`, every release has to come with the hash of the training file it was made from.
    """
    sets: dict[tuple[str, str], dict[str, Any]] = {}
    for slot in sorted(slots, key=lambda slot: (slot.pool, slot.set, -slot.epsilon)):
        entry = sets.setdefault(
            (slot.pool, slot.set),
            {
                "pool": slot.pool,
                "set": slot.set,
                "train": slot.train,
                "train_sha256": slot.train_hash,
                "nominal": slot.nominal,
                "releases": [],
            },
        )
        entry["releases"].append(
            {
                "file": slot.file,
                "n": slot.size,
                "epsilon": budget(slot.epsilon),
                "delta": slot.delta,
                "seed": slot.seed,
                "ticket": slot.ticket,
            }
        )
    content = {"format": FORMAT, "generator": generator, **({"tied": True} if tied else {})}
    content |= {"sets": list(sets.values())}
    return (json.dumps(content, indent=1) + "\n").encode()


def read_manifest(folder: Path) -> list[Slot]:
    path = folder / MANIFEST

    def damaged(error: Exception) -> GeneratorError:
        if isinstance(error, FileNotFoundError):
            return GeneratorError(
                "not an exported plan: manifest.json is missing",
                str(folder),
                "write it with `synthleak plan export SPEC DIR`",
            )
        if isinstance(error, OSError):
            return GeneratorError(f"cannot be read ({error.strerror})", str(path))
        return GeneratorError(
            "the manifest is damaged", str(path), "export the plan again into another folder"
        )

    check_file(path, FILE, GeneratorError, "name the folder of an export")
    with Boundary(damaged):
        content = _Manifest.model_validate_json(path.read_bytes())
    return [
        Slot(
            pool=entry.pool,
            set=entry.set,
            train_hash=entry.train_sha256,
            nominal=entry.nominal,
            size=release.n,
            epsilon=release.epsilon,
            delta=release.delta,
            seed=release.seed,
            ticket=release.ticket,
            tied=content.tied,
        )
        for entry in content.sets
        for release in entry.releases
    ]


class _Release(BaseModel):
    n: int = Field(ge=1)
    epsilon: Epsilon
    delta: float = Field(gt=0, lt=1)
    seed: int = Field(ge=0)
    ticket: str


class _Set(BaseModel):
    """Pool and set are names: a path in their place could lead out of the folder."""

    pool: Name
    set: Name
    train_sha256: str
    nominal: int = Field(ge=1)
    releases: list[_Release]


class _Manifest(BaseModel):
    sets: list[_Set]
    tied: bool = False


FRAGMENT = 20
_LINES = 40
_WIDTH = 400
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f]")


def redact(output: str, records: Iterable[Record]) -> tuple[list[str], int]:
    """Return the last lines of a program's stderr that quote no record, and how many were removed.

    A line is removed if it shares 20 characters of folded text with a training record, if it is
    nothing but a piece of one, or if a shorter record stands in it as a whole. Records are also
    looked for as JSON and as Python bytes would spell them.

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
    quoting: set[int] = set()
    for form in _forms(records):
        quoting |= {number for number, line in enumerate(lines) if line and line in form}
        if len(form) < FRAGMENT:
            whole = re.compile(rf"(?<!\w){re.escape(form)}(?!\w)")
            quoting |= {number for number, line in enumerate(lines) if whole.search(line)}
        for start in range(len(form) - FRAGMENT + 1):
            quoting.update(windows.get(form[start : start + FRAGMENT], ()))
    return quoting


def _forms(records: Iterable[Record]) -> Iterator[str]:
    """Yield each record as it may be printed, folded."""
    for record in records:
        as_bytes = repr(record.text.encode(errors="replace"))[2:-1]
        spelled = (record.text, json.dumps(record.text)[1:-1], as_bytes)
        yield from sorted({fold(text) for text in spelled} - {""})
