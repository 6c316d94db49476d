"""What the readers of row files share: opening, field names, and errors with a line number."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from synthleak.corpus.corpus import Labels, Reader, Record
from synthleak.errors import CorpusError
from synthleak.validation import DataPath, nearest


class FieldReader(Reader):
    """A reader of rows whose columns the spec may name."""

    path: DataPath
    id: str = Field(default="id", description="column of the record's id; the line number if none")
    text: str = Field(default="text", description="column of the text")
    labels: str = Field(default="labels", description="column of the labels; none if not there")
    group: str = Field(default="group", description="column of the person or post; none if absent")
    label_separator: str = Field(default=";", min_length=1)

    def default_name(self) -> str:
        """Return the file's name without its endings."""
        return self.path.name.partition(".")[0]

    def record(self, row: Mapping[str, Any], line: int) -> Record:
        """Make a record of a row; what is not id, text, labels or group is kept as meta."""
        where = f"{self.path}, line {line}"
        if self.text not in row:
            raise CorpusError(
                f"there is no field {self.text!r}",
                where,
                f"set corpus.text to the field of the text ({nearest(self.text, row)})",
            )
        text = row[self.text]
        if not isinstance(text, str) or not text.strip():
            raise CorpusError(f"the field {self.text!r} holds no text", where, "drop that record")
        group = row.get(self.group)
        own = {self.id, self.text, self.labels, self.group}
        return Record(
            id=str(row.get(self.id, line)),
            text=text,
            labels=self._labels(row.get(self.labels), where),
            group=None if group is None or group == "" else str(group),
            meta={key: value for key, value in row.items() if key not in own},
        )

    def _labels(self, value: Any, where: str) -> Labels:
        if value is None:
            return ()
        if isinstance(value, str):
            value = [part.strip() for part in value.split(self.label_separator)]
        if isinstance(value, bool | int | float):
            value = [str(value)]
        if not isinstance(value, list) or not all(isinstance(x, str | int) for x in value):
            raise CorpusError(
                f"the field {self.labels!r} holds {type(value).__name__}",
                where,
                "labels are a list of strings, or one string",
            )
        return tuple(sorted({str(label) for label in value if str(label)}))


def open_lines(path: Path, newline: str | None = None) -> Iterator[tuple[int, str]]:
    """Yield (line number, line) of a text file, plain or gzipped."""
    number = 0
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", newline=newline) as file:
            for number, line in enumerate(file, start=1):
                yield number, line
    except FileNotFoundError:
        raise CorpusError("there is no such file", str(path), "mend corpus.path") from None
    except UnicodeDecodeError:
        raise CorpusError(
            "not valid UTF-8", f"{path}, after line {number}", "save the file as UTF-8"
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CorpusError(
            "the gzip file is broken", f"{path}, after line {number}", "fetch or pack it again"
        ) from None
    except OSError as error:
        raise CorpusError(f"cannot be read ({error.strerror})", str(path)) from None
