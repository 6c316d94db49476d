"""Records, and how a corpus is made of them (docs/method.md §1)."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from synthleak.core.errors import ContractError, CorpusError
from synthleak.core.reading import within_limits
from synthleak.core.registry import Plugin, PluginRegistry, calling
from synthleak.core.seeds import digest
from synthleak.core.text import fold

Labels = tuple[str, ...]
Role = Literal["members", "holdout", "reference"]
Declared = Literal["unstated", "random", "coins"]
"""How members and holdout were split: not stated, uniformly at random, by a coin per record."""


@dataclass(frozen=True, slots=True)
class Record:
    """One person's text: the unit that an audit asks about. Its repr shows no private field.

    Attributes:
        id: what tables call the record; unique within a corpus.
        text: the private text.
        labels: what it is about, sorted.
        group: the person that it belongs to; None if it is a person of its own.
        meta: further columns, which predicates of pool rules may use.
    """

    id: str
    text: str = field(repr=False)
    labels: Labels = ()
    group: str | None = None
    meta: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Split:
    """Who was in the private set behind an existing release (docs/method.md §11).

    `roles[i]` is what record i was. `insist` asks for figures even where a classifier that never
    sees the release tells members from holdout. `dropped` counts the reference records whose text
    stands among members or holdout.
    """

    roles: tuple[Role, ...]
    declared: Declared = "unstated"
    insist: bool = False
    dropped: int = 0

    def positions(self, *wanted: Role) -> list[int]:
        return [place for place, role in enumerate(self.roles) if role in wanted]


@dataclass(frozen=True)
class Corpus:
    """All records of an audit, without exact duplicates.

    Where the membership of every record is given (`split`), copies stay: to drop one side's would
    make the sides unlike. `written` are records made for the audit (canaries, docs/method.md §13):
    no part of the corpus, they have the positions that follow its own.

    Attributes:
        name: what tables call it.
        records: the records, in the order in which they were read.
        duplicates: how many records were dropped because their text stood there before.
        description: in a line, what kind of texts these are.
        split: who was in the private set behind an existing release.
        written: records that were written for the audit.
    """

    name: str
    records: tuple[Record, ...]
    duplicates: int = 0
    description: str = ""
    split: Split | None = None
    written: tuple[Record, ...] = field(default=(), compare=False)

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        return f"<Corpus {self.name!r}: {len(self):,} records>"

    @cached_property
    def all_records(self) -> tuple[Record, ...]:
        """The records of the corpus, then those that were written for the audit."""
        return (*self.records, *self.written)

    @cached_property
    def fingerprint(self) -> str:
        """The content hash of the corpus, order included."""
        given = self.split
        return digest(
            "corpus",
            [[r.id, r.text, r.labels, r.group, dict(r.meta)] for r in self.records],
            *([[given.roles, given.declared, given.insist]] if given else []),
        )

    @cached_property
    def combinations(self) -> Counter[Labels]:
        return Counter(record.labels for record in self.records)

    @cached_property
    def person_names(self) -> tuple[str, ...]:
        """The person that each record belongs to; one without a group is a person of its own."""
        groups = {record.group for record in self.records}
        return tuple(
            record.group
            if record.group is not None
            else f"record:{record.id}"
            if record.id in groups
            else record.id
            for record in self.records
        )

    @cached_property
    def label_names(self) -> tuple[str, ...]:
        return tuple(sorted({label for labels in self.combinations for label in labels}))


class Reader(Plugin):
    """Reads records from wherever they lie; a mistake in a file is named with its line."""

    @abstractmethod
    def read(self) -> Iterator[Record]:
        """Yield the records in the order in which they stand."""

    def whole(self, name: str, description: str) -> Corpus | None:
        """Return the corpus, where a reader knows more than its records; else None.

        Args:
            name: what to call the corpus.
            description: in a line, what kind of texts these are.
        """
        return None

    def default_name(self) -> str:
        """Return what to call the corpus if the spec does not say."""
        return self.kind


readers: PluginRegistry[Reader] = PluginRegistry(
    "reader", "synthleak.corpus.readers", "synthleak.paper.readers"
)


def assemble(reader: Reader, *, name: str | None = None, description: str = "") -> Corpus:
    """Read a corpus and drop exact duplicates.

    A copy of a target left among the candidates would make a non-member a member, so of texts that
    are equal after case and white-space folding only the first stays (docs/method.md §1).

    Args:
        reader: where the records come from.
        name: what to call the corpus; by default the reader says.
        description: in a line, what kind of texts these are.

    Returns:
        The corpus.

    Raises:
        CorpusError: it is empty, too large, or two different texts have one id.
        ContractError: the reader yields something else than records of texts.
    """
    name = name or reader.default_name()
    corpus = reader.whole(name, description)
    if corpus is not None:
        return corpus
    with calling("reader", reader.kind, reader):
        kept, dropped = drop_duplicates(within_limits(_checked(reader), "the corpus", name))
    if not kept:
        raise CorpusError("the corpus is empty", name, "a corpus needs some hundred records")
    ids = Counter(record.id for record in kept)
    twice = next((key for key, count in ids.items() if count > 1), None)
    if twice is not None:
        raise CorpusError(f"two different texts have the id {twice!r}", name, "make ids unique")
    return Corpus(name, tuple(kept), dropped, description)


def _checked(reader: Reader) -> Iterator[Record]:
    """Yield what a reader reads; anything but records of texts breaks its contract."""
    for record in reader.read():
        texts = (record.id, record.text, *record.labels, record.group or "")
        if not all(isinstance(text, str) for text in texts) or isinstance(record.labels, str):
            raise ContractError(f"the reader {reader.kind!r} yields a record of other than texts")
        yield record


def drop_duplicates(records: Iterable[Record]) -> tuple[list[Record], int]:
    """Return the first of every text, and how many records were dropped.

    >>> kept, dropped = drop_duplicates([Record("1", "Hello  you"), Record("2", "hello you")])
    >>> [record.id for record in kept], dropped
    (['1'], 1)
    """
    seen: set[str] = set()
    kept = []
    read = 0
    for record in records:
        read += 1
        form = fold(record.text)
        if form not in seen:
            seen.add(form)
            kept.append(record)
    return kept, read - len(kept)
