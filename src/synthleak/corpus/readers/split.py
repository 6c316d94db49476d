"""`split`: members and holdout of an existing release (docs/method.md §11)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from pydantic import ConfigDict, Field, field_serializer, model_validator

from synthleak.core.cell import counted
from synthleak.core.errors import CorpusError
from synthleak.core.reading import within_limits
from synthleak.core.text import fold
from synthleak.core.validation import DataPath, name_of_file
from synthleak.corpus.corpus import Corpus, Declared, Reader, Record, Role, Split, readers
from synthleak.corpus.files import Encoding
from synthleak.corpus.rows import NamedFields, check_apart
from synthleak.corpus.sources import MEMORY, Fields, Rows, numbered_rows


@readers.register("split", version=1)
class SplitFiles(Reader):
    """Members, holdout and perhaps other records of the same kind, each in a file of its own."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    members: DataPath | Rows = Field(description="the records that the release was made from")
    holdout: DataPath | Rows = Field(
        description="records of the same kind that were not used for it"
    )
    reference: DataPath | Rows | None = Field(
        default=None, description="other records of the same kind, for the attacker S2"
    )
    declared: Declared = Field(
        default="unstated",
        description="how members were chosen: a uniform random split, or a fair coin each",
    )
    insist: bool = Field(
        default=False, description="show figures, without a verdict, even if the split is unfair"
    )
    id: str = Field(default="id", description="field of the record's id; the row's number if none")
    text: str = Field(default="text", description="field of the text")
    labels: str | tuple[str, ...] = Field(default="labels", description="field of the labels")
    group: str = Field(default="group", description="field of the person or post")
    label_separator: str = Field(default=";", min_length=1)
    encoding: Encoding = "utf-8"

    @model_validator(mode="after")
    def _text_apart(self) -> Self:
        check_apart(self.text, id=self.id, labels=self.labels, group=self.group)
        return self

    @field_serializer("members", "holdout", "reference")
    def _place(self, value: Path | Rows | None) -> Path | str | None:
        return MEMORY if isinstance(value, Rows) else value

    def default_name(self) -> str:
        """Return the name of the members' file without its endings."""
        return "members" if isinstance(self.members, Rows) else name_of_file(self.members)

    def read(self) -> Iterator[Record]:
        named = NamedFields(self)
        for role in ("members", "holdout", "reference"):
            yield from self._read(role, named)

    def whole(self, name: str, description: str) -> Corpus:
        """Return the corpus with the role of every record.

        Copies stay: which of them were members was decided record by record, and so it is
        permuted. A reference record whose text stands among the others leaves, on whichever side.
        """
        named = NamedFields(self)
        read: dict[Role, list[Record]] = {
            "members": self._read("members", named),
            "holdout": self._read("holdout", named),
        }
        named.check("corpus.members and corpus.holdout")
        for role, records in read.items():
            if len(records) < 2:
                raise CorpusError(
                    counted(len(records), "record"),
                    role,
                    "a check needs two at least, and some hundreds to find anything",
                )
        asked = {fold(record.text) for records in read.values() for record in records}
        reference, dropped = _apart(self._read("reference", named), asked)
        if self.reference is not None and len(reference) < 2:
            raise CorpusError(
                f"{len(reference)} of {len(reference) + dropped} records are neither among members"
                " nor among holdout",
                "reference",
                "give other records of the same kind, or none",
            )
        read["reference"] = reference
        roles = tuple(role for role, records in read.items() for _ in records)
        return Corpus(
            name=name,
            records=tuple(_named(read)),
            description=description,
            split=Split(roles, self.declared, self.insist, dropped),
        )

    def _read(self, role: Role, named: NamedFields) -> list[Record]:
        source = getattr(self, role)
        if source is None:
            return []
        fields = Fields(
            id=self.id,
            text=self.text,
            labels=self.labels,
            group=self.group,
            label_separator=self.label_separator,
        )
        key = f"corpus.{role}"
        rows = numbered_rows(source, text=self.text, encoding=self.encoding, key=key)
        records = (fields.record(named.noted(row), number, where) for number, where, row in rows)
        return list(within_limits(records, role, key))


def _apart(records: Sequence[Record], asked: set[str]) -> tuple[list[Record], int]:
    """Return the records whose text is neither asked about nor there before."""
    kept: dict[str, Record] = {}
    for record in records:
        form = fold(record.text)
        if form not in asked:
            kept.setdefault(form, record)
    return list(kept.values()), len(records) - len(kept)


def _named(read: dict[Role, list[Record]]) -> Iterator[Record]:
    """Yield all records with ids of their own: where ids are not, files and rows name them."""
    ids = [record.id for records in read.values() for record in records]
    unique = len(set(ids)) == len(ids)
    for role, records in read.items():
        inside = {record.id for record in records}
        for number, record in enumerate(records, start=1):
            own = record.id if len(inside) == len(records) else str(number)
            yield record if unique else replace(record, id=f"{role}:{own}")
