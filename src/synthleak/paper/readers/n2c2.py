"""`n2c2`: discharge summaries of the 2008 obesity challenge, in the published XML."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal
from xml.etree import ElementTree

from pydantic import BeforeValidator, Field

from synthleak.core.errors import CorpusError
from synthleak.core.reading import Boundary
from synthleak.core.validation import DataPath, listed
from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import cannot_open, check_regular
from synthleak.paper.published import Published

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
        """Yield a record per summary that was judged; its labels are the diseases found in it."""
        found, judged = self._judgments()
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
                    labels = tuple(sorted(found[name]))
                    yield Record(id=name, text=text.strip(), labels=labels)

    def _judgments(self) -> tuple[dict[str, set[str]], set[str]]:
        """Return the diseases of every document, and which documents were judged at all."""
        found: dict[str, set[str]] = defaultdict(set)
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
                            found[doc.get("id", "")].add(disease.get("name", ""))
        if not judged:
            raise CorpusError(
                f"no {self.source} judgments found",
                ", ".join(map(str, self.annotations)),
                f"check corpus.source; the files have {', '.join(sorted(sources)) or 'none'}",
            )
        return found, judged


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
