"""`given`: an existing release, or a series of them, read from files (docs/method.md §11)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from pydantic import ConfigDict, Field, field_serializer

from synthleak.core.errors import GeneratorError
from synthleak.core.reading import RECORD, within_limits
from synthleak.core.seeds import digest
from synthleak.core.validation import DataPath, nearest_column
from synthleak.corpus.files import Encoding
from synthleak.corpus.rows import kind_of, labels_of
from synthleak.corpus.sources import MEMORY, Rows, numbered_rows
from synthleak.releases.generator import StatedGenerator, generators
from synthleak.releases.release import Request, Synthetic

KEY = "generator.path"


@generators.register("given", version=1)
class GivenRelease(StatedGenerator):
    """An existing release, read from a file, with any number of records.

    A `series` was published after it: what all tell together is looked at, and what was known after
    each of them.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    any_size: ClassVar[bool] = True
    ignores_seed: ClassVar[bool] = True
    path: DataPath | Rows = Field(description="the file of the release")
    series: tuple[DataPath | Rows, ...] = Field(
        default=(), description="files that were published after it, in their order"
    )
    text: str = Field(default="text", description="field of the text")
    labels: str = Field(default="labels", description="field of the labels, if there is one")
    private: bool = Field(default=False, description="the maker states that epsilon holds")
    encoding: Encoding = "utf-8"

    @field_serializer("path", "series")
    def _place(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return [self._place(one) for one in value]
        return MEMORY if isinstance(value, Rows) else value

    @property
    def in_order(self) -> bool:
        """Whether a smaller size is what was published first."""
        return bool(self.series)

    def identity(self) -> dict[str, Any]:
        """Leave out where the release lies: its content is its fingerprint."""
        return {"kind": self.kind, "version": self.version, **self.stated}

    def fingerprint(self, request: Request) -> str:
        """Return the content hash of the texts, so that a replaced release is noticed."""
        return digest("given", [[record.text, record.labels] for record in self.generate(request)])

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Read the release. A blank text is accepted; a row without the field is an error."""
        records = (record for part in (self.path, *self.series) for record in self.read(part))
        return list(within_limits(records, "the release", KEY))

    def read(self, path: Path | Rows) -> list[Synthetic]:
        """Read one file.

        Args:
            path: the file, or rows in memory.
        """
        rows = numbered_rows(path, text=self.text, encoding=self.encoding, key=KEY)
        records = (self._record(row, where) for _, where, row in rows)
        release = list(within_limits(records, "the release", KEY))
        if not release:
            raise GeneratorError(
                "the release is empty",
                str(path) if isinstance(path, Path) else KEY,
                "give a release of some hundred records",
            )
        return release

    def _record(self, row: Any, where: str) -> Synthetic:
        if self.text not in row:
            raise GeneratorError(
                f"no field {self.text!r}",
                where,
                f"set generator.text to its field ({nearest_column(self.text, row)})",
            )
        text = row[self.text]
        if not isinstance(text, str):
            raise GeneratorError(
                f"the field {self.text!r} holds {kind_of(text)}, not a text",
                where,
                "write it as a string, or drop that record",
            )
        RECORD.check(len(text), "the text", where)
        try:
            text.encode()
        except UnicodeEncodeError:
            raise GeneratorError(
                f"the field {self.text!r} holds invalid Unicode (an unpaired surrogate)",
                where,
                "correct or drop that record",
            ) from None
        return Synthetic(text, labels_of(row.get(self.labels), self.labels, ";", where))
