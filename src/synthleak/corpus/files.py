"""Opening text files: plain or gzipped, in any encoding, with errors that name the line."""

from __future__ import annotations

import codecs
import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from synthleak.core.errors import CorpusError


def _known_encoding(name: str) -> str:
    try:
        return codecs.lookup(name).name
    except LookupError:
        raise ValueError("no such encoding; utf-8, latin-1 and cp1252 are common") from None


Encoding = Annotated[str, AfterValidator(_known_encoding)]
"""The name of a text encoding, as the spec may give it."""


def open_lines(
    path: Path, *, encoding: str = "utf-8", newline: str | None = None, key: str = "corpus.path"
) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) of a text file, plain or gzipped; `key` is what named the file."""
    check_regular(path, key)
    number = 0
    opener = gzip.open if path.suffix == ".gz" else open
    # Spreadsheets put a byte-order mark before UTF-8; it is not part of the first column's name.
    codec = "utf-8-sig" if encoding == "utf-8" else encoding
    try:
        with opener(path, "rt", encoding=codec, newline=newline) as file:
            for number, line in enumerate(file, start=1):
                yield number, line
    except UnicodeError:
        other = ", or set corpus.encoding (latin-1, cp1252, ...)" if key == "corpus.path" else ""
        raise CorpusError(
            f"not valid {encoding.upper()}",
            f"{path}, line {_undecodable_line(path, codec)}",
            f"save the file as UTF-8{other}",
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CorpusError(
            "the gzip file is broken", f"{path}, after line {number}", "fetch or pack it again"
        ) from None
    except OSError as error:
        raise cannot_open(path, error, key) from None


def _undecodable_line(path: Path, codec: str) -> int:
    """Find the line to correct: text is decoded in blocks, and an error names only the block."""
    number = 0
    with (gzip.open if path.suffix == ".gz" else open)(path, "rb") as file:
        for number, line in enumerate(file, start=1):  # noqa: B007 - the last number is the answer
            try:
                line.decode(codec)
            except UnicodeError:
                break
    return number


def check_regular(path: Path, key: str = "corpus.path") -> None:
    """Refuse a pipe, which would be waited for, and a device, which may never end."""
    if path.exists() and not path.is_file() and not path.is_dir():
        raise CorpusError("not a regular file", str(path), f"write it to a file; check {key}")


def cannot_open(path: Path, error: OSError, key: str = "corpus.path") -> CorpusError:
    """Say why a file that the spec names cannot be opened."""
    if isinstance(error, FileNotFoundError):
        return CorpusError("no such file", str(path), f"check {key}")
    if isinstance(error, IsADirectoryError):
        return CorpusError("a folder, not a file", str(path), f"check {key}")
    return CorpusError(f"cannot be read ({error.strerror or error})", str(path))


def read_json(path: Path, key: str = "corpus.path") -> dict[str, Any]:
    """Read a file that holds one JSON object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise cannot_open(path, error, key) from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise CorpusError("not a JSON object in UTF-8", str(path), "write or fetch it again")
    return content
