"""`eurlex57k`: EU laws with EuroVoc concepts, one JSON file each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from synthleak.core.errors import CorpusError
from synthleak.core.validation import DataPath
from synthleak.corpus.corpus import Labels, Record, readers
from synthleak.corpus.delimited import delimited_rows
from synthleak.corpus.files import read_json
from synthleak.paper.published import Published

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
        """Yield a record per law that keeps a label."""
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
