"""The published corpora of the study (docs/method.md §1), of which one may take a seeded part.

`dmsafn` is Financial PhraseBank, `eurlex57k` are EU laws with EuroVoc concepts, `n2c2` discharge
summaries of the 2008 obesity challenge, `psytar` sentences of psychiatric drug reviews.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal
from xml.etree import ElementTree
from zipfile import ZipFile

from pydantic import BeforeValidator, Field, field_validator

from synthleak.core.errors import CorpusError, import_extra
from synthleak.core.predicate import is_marked
from synthleak.core.reading import FILE, Boundary
from synthleak.core.seeds import stream
from synthleak.core.validation import DataPath, listed
from synthleak.corpus.corpus import Labels, Reader, Record, readers
from synthleak.corpus.files import cannot_open, check_regular, delimited_rows, read_json
from synthleak.corpus.rows import plain_cell


class Published(Reader):
    """A reader of a corpus in its published form.

    Studies often take a random part of one: 85% of PsyTAR's 6,003 sentences are the 5,102, and 80%
    of DMSAFN's 4,846 rows the 3,876 of docs/method.md §1, so a part is rounded down.
    """

    split: float | None = Field(
        default=None,
        gt=0,
        description="share of the records to take, or above 1 their number; all if not set",
    )
    split_seed: int = Field(default=0, ge=0, description="which random part")

    @field_validator("split")
    @classmethod
    def _whole_above_one(cls, value: float | None) -> float | None:
        if value is not None and value > 1 and not value.is_integer():
            raise ValueError("a share is at most 1, a number of records is whole")
        return value

    @abstractmethod
    def read_all(self) -> Iterator[Record]:
        """Yield every record of the published files, in their order."""

    def read(self) -> Iterator[Record]:
        if self.split is None:
            return self.read_all()
        records = list(self.read_all())
        # 0.29 * 100 is a hair below 29 in floating point.
        size = int(self.split if self.split > 1 else len(records) * self.split + 1e-9)
        if size > len(records):
            raise CorpusError(
                f"the published files hold {len(records)} records",
                "corpus.split",
                f"take at most as many, not {size}",
            )
        part = stream(self.split_seed, "split", self.kind).permutation(len(records))[:size]
        return iter([records[position] for position in sorted(part)])


SENTIMENTS = ("negative", "neutral", "positive")


@readers.register("dmsafn", version=1)
class Dmsafn(Published):
    """Financial news (all-data.csv): a sentiment and a sentence a row, Latin-1, no header."""

    path: DataPath

    def read_all(self) -> Iterator[Record]:
        rows = delimited_rows(self.path, encoding="latin-1", columns=("label", "text"))
        for number, (line, row) in enumerate(rows, start=1):
            where = f"{self.path}, line {line}"
            if row["label"] not in SENTIMENTS:
                raise CorpusError(
                    "the first cell is not a sentiment",
                    where,
                    f"a row holds one of {', '.join(SENTIMENTS)} and a sentence",
                )
            if not row["text"].strip():
                raise CorpusError("the second cell holds no text", where, "drop that row")
            yield Record(id=f"dmsafn-{number}", text=row["text"], labels=(row["label"],))


Fold = Callable[[Labels], Labels]


@readers.register("eurlex57k", version=1)
class Eurlex57k(Published):
    """EURLEX57K: a folder of one JSON file per law, subfolders too; labels are its concepts."""

    path: DataPath
    parts: tuple[str, ...] = Field(
        default=("title", "header", "recitals", "main_body"),
        min_length=1,
        description="the parts that make up the text, in this order",
    )
    folding: DataPath | None = Field(
        default=None,
        description="a CSV file with columns concept and label, or a JSON object of the same:"
        " a concept takes its label's place, one without a label is dropped",
    )
    top: int | None = Field(default=None, ge=1, description="keep the most frequent labels only")

    def read_all(self) -> Iterator[Record]:
        if not self.path.is_dir():
            raise CorpusError("no such folder", str(self.path), "check corpus.path")
        fold = _folding(self.folding) if self.folding else tuple
        laws = [self._law(file, fold) for file in sorted(self.path.rglob("*.json"))]
        if not laws:
            raise CorpusError("the folder holds no .json file", str(self.path), "check corpus.path")
        if self.top is not None:
            counts = Counter(label for law in laws for label in law.labels)
            kept = set(sorted(counts, key=lambda label: (-counts[label], label))[: self.top])
            laws = [replace(law, labels=tuple(x for x in law.labels if x in kept)) for law in laws]
        return iter([law for law in laws if law.labels])

    def _law(self, file: Path, fold: Fold) -> Record:
        law = read_json(file)
        text = "\n".join(part for name in self.parts if (part := _text(law.get(name))))
        concepts = law.get("concepts")
        if not text:
            raise CorpusError(f"none of {', '.join(self.parts)} holds text", str(file))
        if not isinstance(concepts, list) or not all(isinstance(x, str | int) for x in concepts):
            raise CorpusError("'concepts' is not a list of concepts", str(file), "fetch it again")
        return Record(
            id=str(law.get("celex_id") or file.stem),
            text=text,
            labels=tuple(sorted(set(fold(tuple(map(str, concepts)))))),
            meta={"type": law.get("type"), "part": file.parent.name},
        )


def _text(value: Any) -> str:
    """Return a part as text; the main body is a list of articles."""
    lines = value if isinstance(value, list) else [value]
    return "\n".join(str(line).strip() for line in lines if line and str(line).strip())


def _folding(path: Path) -> Fold:
    table: dict[str, set[str]] = {}
    for concept, label in _pairs(path):
        table.setdefault(concept, set()).add(label)
    if not table:
        raise CorpusError("the file folds no concept", str(path), "check corpus.folding")
    return lambda concepts: tuple(x for concept in concepts for x in table.get(concept, ()))


def _pairs(path: Path) -> Iterator[tuple[str, str]]:
    if path.suffix == ".json":
        for concept, labels in read_json(path, "corpus.folding").items():
            for label in labels if isinstance(labels, list) else [labels]:
                yield concept, str(label)
        return
    for line, row in delimited_rows(path, key="corpus.folding"):
        if "concept" not in row or "label" not in row:
            raise CorpusError("columns concept and label are needed", f"{path}, line {line}")
        yield row["concept"], row["label"]


Paths = Annotated[tuple[DataPath, ...], BeforeValidator(listed), Field(min_length=1)]


@readers.register("n2c2", version=1)
class N2c2(Published):
    """n2c2 2008 obesity: summaries from `records`, diseases judged present from `annotations`."""

    records: Paths = Field(description="XML files of <doc id><text>")
    annotations: Paths = Field(description="XML files of <disease name><doc id judgment>")
    source: Literal["intuitive", "textual"] = Field(
        default="intuitive", description="whose judgments: what is meant, or what is written"
    )
    judgments: tuple[str, ...] = Field(default=("Y",), min_length=1)

    def read_all(self) -> Iterator[Record]:
        diseases, judged = self._judgments()
        for path in self.records:
            for doc in _parse(path).iter("doc"):
                name = doc.get("id", "")
                text = doc.findtext("text")
                if not name or text is None or not text.strip():
                    raise CorpusError(
                        f"the document {name!r} has no text" if name else "a document has no id",
                        str(path),
                        'a document is <doc id="..."><text>...</text></doc>',
                    )
                if name in judged:
                    labels = tuple(sorted(diseases[name]))
                    yield Record(id=name, text=text.strip(), labels=labels)

    def _judgments(self) -> tuple[dict[str, set[str]], set[str]]:
        """Return the diseases of every document, and which documents were judged at all."""
        diseases: dict[str, set[str]] = defaultdict(set)
        judged: set[str] = set()
        sources: set[str] = set()
        for path in self.annotations:
            for part in _parse(path).iter("diseases"):
                sources.add(part.get("source", ""))
                if part.get("source") != self.source:
                    continue
                for disease in part.iter("disease"):
                    for doc in disease.iter("doc"):
                        judged.add(doc.get("id", ""))
                        if doc.get("judgment") in self.judgments:
                            diseases[doc.get("id", "")].add(disease.get("name", ""))
        if not judged:
            raise CorpusError(
                f"no {self.source} judgments found",
                ", ".join(map(str, self.annotations)),
                f"check corpus.source; the files have {', '.join(sorted(sources)) or 'none'}",
            )
        return diseases, judged


def _parse(path: Path) -> ElementTree.Element:
    def invalid(error: Exception) -> CorpusError:
        if isinstance(error, OSError):
            return cannot_open(path, error)
        if not isinstance(error, ElementTree.ParseError):  # an encoding that nobody knows
            return CorpusError("not valid XML", str(path), "fetch it again")
        line, column = error.position
        return CorpusError(
            f"not valid XML at column {column + 1}", f"{path}, line {line}", "fetch it again"
        )

    check_regular(path)
    with Boundary(invalid):
        return ElementTree.parse(path).getroot()


LABELS = ("ADR", "WD", "EF", "INF", "SSI", "DI", "Others")
_MOST_ROWS = 1_048_576
"""The rows that a sheet can have in the format."""
_TEXT, _POST, _ID = "sentences", "drug_id", "id"


@readers.register("psytar", version=1)
class Psytar(Published):
    """PsyTAR_dataset.xlsx, sheet Sentence_Labeling: any mark in a label's cell counts."""

    path: DataPath
    sheet: str = Field(default="Sentence_Labeling")

    def read_all(self) -> Iterator[Record]:
        """Yield a record per sentence; a review is a group, so that it leaves the game as a whole.

        The sheet ends in a row of totals and holds some rows without a sentence: what has no id or
        no sentence is not a record.
        """
        rows = self._rows()
        header = [str(cell or "").strip() for cell in next(rows, ())]
        columns = {name.casefold(): place for place, name in enumerate(header) if name}
        for wanted in (_TEXT, _POST, *LABELS):
            if wanted.casefold() not in columns:
                raise CorpusError(
                    f"there is no column {wanted!r}",
                    f"{self.path}, sheet {self.sheet}",
                    "use the workbook as published",
                )
        for number, row in enumerate(rows, start=2):
            cells = {name: row[place] for name, place in columns.items() if place < len(row)}
            text = str(cells.get(_TEXT) or "").strip()
            if text and cells.get(_ID, "") is not None:
                yield _record(number, text, cells)

    def _rows(self) -> Iterator[tuple[Any, ...]]:
        openpyxl = import_extra("openpyxl", extra="xlsx", by="the reader 'psytar'")

        def broken(error: Exception) -> CorpusError:
            if isinstance(error, OSError) and error.errno is not None:
                return cannot_open(self.path, error)
            return CorpusError("not a whole .xlsx workbook", str(self.path), "fetch it again")

        check_regular(self.path)
        boundary = Boundary(broken)
        with boundary:
            file = self.path.open("rb")
        with file:
            with boundary, warnings.catch_warnings():
                # Workbooks carry forms and styles that openpyxl leaves out; no cell is lost.
                warnings.simplefilter("ignore", UserWarning)
                unpacked = sum(part.file_size for part in ZipFile(file).infolist())
                FILE.check(unpacked, "the unpacked file", str(self.path))
                book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            if self.sheet not in book.sheetnames:
                raise CorpusError(
                    f"there is no sheet {self.sheet!r}",
                    str(self.path),
                    f"it holds: {', '.join(book.sheetnames)}",
                )
            with boundary:
                # Rows that a file leaves out are filled in: a row number may claim billions.
                rows = book[self.sheet].iter_rows(values_only=True, max_row=_MOST_ROWS)
            yield from boundary.each(rows)


def _record(number: int, text: str, cells: dict[str, Any]) -> Record:
    labels = tuple(sorted(name for name in LABELS if is_marked(cells.get(name.casefold()))))
    not_meta = {_TEXT, _ID, *(name.casefold() for name in LABELS)}
    return Record(
        id=f"psytar-{number}",
        text=text,
        labels=labels,
        group=str(cells[_POST]) if cells.get(_POST) else None,
        meta={name: plain_cell(value) for name, value in cells.items() if name not in not_meta},
    )
