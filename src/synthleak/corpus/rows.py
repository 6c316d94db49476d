"""From rows to records: what the readers of tables share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Self

from pydantic import Field, model_validator

from synthleak.core.errors import CorpusError
from synthleak.core.predicate import is_marked
from synthleak.core.reading import DEEPEST, RECORD
from synthleak.core.validation import DataPath, name_of_file, nearest_column
from synthleak.corpus.corpus import Labels, Reader, Record

LARGEST = 2**64
"""Whole numbers from here on are kept as text: a float or a table cannot hold them."""


Numbered = tuple[int, str, Mapping[str, Any]]
"""A row with its number, and where it stands."""


class FieldReader(Reader):
    """A reader of rows whose columns the spec may name (docs/method.md §1); "" names none."""

    path: DataPath = Field(description="the file or folder, relative to the spec")
    id: str = Field(default="id", description="column of the record's id; the row's number if none")
    text: str = Field(default="text", description="column of the text")
    labels: str | tuple[str, ...] = Field(
        default="labels",
        description="column of the labels; or a list of columns, each a label where it is marked",
    )
    group: str = Field(default="group", description="column of the person or post; none if absent")
    label_separator: str = Field(default=";", min_length=1, description="between labels in a cell")

    @model_validator(mode="after")
    def _text_apart(self) -> Self:
        check_apart(self.text, id=self.id, labels=self.labels, group=self.group)
        return self

    def default_name(self) -> str:
        """Return the file's name without its endings, as a name may be written."""
        return name_of_file(self.path)

    def records(self, rows: Iterable[Numbered]) -> Iterator[Record]:
        """Make a record of each row; refuse a field that was named and that no row has.

        Args:
            rows: for each row its number, where it stands, and its cells by column.

        Yields:
            The records.

        Raises:
            CorpusError: a row makes no record, or no row has a field that the user named.
        """
        named = NamedFields(self)
        for number, where, row in rows:
            yield self.record(named.noted(row), number, where)
        named.check(str(self.path))

    def record(self, row: Mapping[str, Any], number: int, where: str) -> Record:
        """Make a record of a row; what is not id, text, labels or group is kept as meta.

        Args:
            row: the cells, by column.
            number: the id of a row that has none.
            where: file and line, for errors.

        Returns:
            The record.

        Raises:
            CorpusError: the text is missing, empty, too long or no text; or a cell fits no record.
        """
        text = self._cell(row, self.text, "text", where)
        if _missing(text) or (isinstance(text, str) and not text.strip()):
            raise CorpusError(f"the field {self.text!r} is empty", where, "drop that record")
        if not isinstance(text, str):
            raise CorpusError(
                f"the field {self.text!r} holds {kind_of(text)}, not a text",
                where,
                "write it as a string, or drop that record",
            )
        RECORD.check(len(text), "the text", where)
        label_columns = (self.labels,) if isinstance(self.labels, str) else self.labels
        named_columns = {self.id, self.text, self.group, *label_columns} - {""}
        try:
            return Record(
                id=self._id(row, number, where),
                text=_writable(text),
                labels=self._labels(row, where),
                group=_name(row.get(self.group)) if self.group else None,
                meta=plain_cell(
                    {key: cell for key, cell in row.items() if key not in named_columns}
                ),
            )
        except UnfitCell as error:
            raise CorpusError(str(error), where, "correct or drop that record") from None

    def _cell(self, row: Mapping[str, Any], column: str, role: str, where: str) -> Any:
        if column not in row:
            raise CorpusError(
                f"no field {column!r}",
                where,
                f"set corpus.{role} to the field of the {role} ({nearest_column(column, row)})",
            )
        return row[column]

    def _id(self, row: Mapping[str, Any], number: int, where: str) -> str:
        if not self.id or self.id not in row:
            return str(number)
        name = _name(row[self.id])
        if name is None:
            raise CorpusError(
                f"the field {self.id!r} is empty", where, "fill it, or set corpus.id to another"
            )
        return name

    def _labels(self, row: Mapping[str, Any], where: str) -> Labels:
        if isinstance(self.labels, str):
            cell = row.get(self.labels) if self.labels else None
            return labels_of(cell, self.labels, self.label_separator, where)
        cells = {name: self._cell(row, name, "labels", where) for name in self.labels}
        return tuple(sorted(name for name, cell in cells.items() if is_marked(plain_cell(cell))))


class NamedFields:
    """The fields that the user named, other than the defaults, and that no row had so far."""

    def __init__(self, reader: Reader) -> None:
        self._missing = {
            role: column
            for role in ("id", "labels", "group")
            if (column := getattr(reader, role))
            and isinstance(column, str)
            and column != type(reader).model_fields[role].default
        }
        self._first: Mapping[str, Any] = {}

    def noted(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return one more row, after a look at its fields."""
        self._first = self._first or row
        if self._missing:
            self._missing = {r: name for r, name in self._missing.items() if name not in row}
        return row

    def check(self, where: str) -> None:
        """Refuse a field that no row had, once all are read."""
        for role, column in self._missing.items() if self._first else ():
            raise CorpusError(
                f"no record has the field {column!r}",
                where,
                f"set corpus.{role} to a field of the file ({nearest_column(column, self._first)})",
            )


def check_apart(text: str, **others: str | tuple[str, ...]) -> None:
    """Refuse a text that is also an id, label or group: tables and pages show those."""
    for name, fields in others.items():
        if text == fields or text in (fields if isinstance(fields, tuple) else ()):
            raise ValueError(
                f"{name} and text name the same field, {text!r}; {name} is shown in tables, a text"
                " never is: name another field"
            )


class UnfitCell(ValueError):  # noqa: N818 - reads as what it is
    """A cell holds what no record can: too deep, or not valid Unicode."""


def kind_of(value: Any) -> str:
    """Say what a cell holds, without its content.

    >>> kind_of(5), kind_of(["a"]), kind_of({}), kind_of(True), kind_of(None)
    ('a number', 'a list', 'an object', 'true or false', 'nothing')
    """
    names = {
        int: "a number",
        float: "a number",
        bool: "true or false",
        dict: "an object",
        type(None): "nothing",
    }
    return names.get(type(value), f"a {type(value).__name__}")


def labels_of(value: Any, column: str, separator: str, where: str) -> Labels:
    """Return the labels that a cell holds: a list, one string with separators, or one number."""
    if _missing(value):
        return ()
    if isinstance(value, str):
        value = [part.strip() for part in value.split(separator)]
    elif isinstance(value, bool | int | float):
        value = [_name(value) or ""]
    if not isinstance(value, list | tuple) or not all(isinstance(x, str | int) for x in value):
        kind = type(value).__name__
        inner = f" of {type(value[0]).__name__}" if isinstance(value, list) and value else ""
        raise CorpusError(
            f"the field {column!r} holds a {kind}{inner}",
            where,
            "labels are a list of strings, or one string",
        )
    try:
        names = {str(plain_cell(label)) for label in value}
    except UnfitCell as error:
        raise CorpusError(str(error), where, "correct or drop that record") from None
    return tuple(sorted(names - {""}))


def plain_cell(value: Any, depth: int = 0) -> Any:
    """Reduce a cell to what JSON can hold, so that a corpus has one fingerprint everywhere.

    >>> plain_cell([1, float("nan"), date(2020, 5, 17), Decimal("1.5")])
    [1, None, '2020-05-17', 1.5]
    """
    if isinstance(value, str):
        return _writable(value)
    if depth > DEEPEST:
        raise UnfitCell(f"a field holds more than {DEEPEST} lists within one another")
    if isinstance(value, dict | Mapping):
        return {_writable(str(key)): plain_cell(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_cell(item, depth + 1) for item in value]
    if isinstance(value, Decimal):
        value = float(value)
    if isinstance(value, float) and math.isnan(value):
        value = None
    if isinstance(value, int) and abs(value) >= LARGEST:
        value = str(Decimal(value))
    if value is None or isinstance(value, bool | int | float):
        return value
    dated = isinstance(value, datetime | date | time)
    return _writable(value.isoformat() if dated else str(value))


def _writable(text: str) -> str:
    """Refuse half of a pair, such as of an emoji that was cut: no file can hold it."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise UnfitCell("a text holds invalid Unicode (an unpaired surrogate)") from None
    return text


def _missing(value: Any) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


def _name(value: Any) -> str | None:
    """Write an id, a group or a label; a whole number that a table keeps as 3.0 is the number 3."""
    if isinstance(value, str | int | list | tuple | Mapping):
        value = plain_cell(value)
    if _missing(value):
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
