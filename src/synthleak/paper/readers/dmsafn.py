"""`dmsafn`: Financial PhraseBank as published for sentiment analysis."""

from __future__ import annotations

from collections.abc import Iterator

from synthleak.core.errors import CorpusError
from synthleak.core.validation import DataPath
from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.delimited import delimited_rows
from synthleak.paper.published import Published

LABELS = ("negative", "neutral", "positive")


@readers.register("dmsafn", version=1)
class Dmsafn(Published):
    """Financial news (all-data.csv): a sentiment and a sentence a row, Latin-1, no header."""

    path: DataPath

    def read_all(self) -> Iterator[Record]:
        """Yield a record per row."""
        rows = delimited_rows(self.path, encoding="latin-1", columns=("label", "text"))
        for number, (line, row) in enumerate(rows, start=1):
            where = f"{self.path}, line {line}"
            if row["label"] not in LABELS:
                raise CorpusError(
                    "the first cell is not a sentiment",
                    where,
                    f"a row holds one of {', '.join(LABELS)} and a sentence",
                )
            if not row["text"].strip():
                raise CorpusError("the second cell holds no text", where, "drop that row")
            yield Record(id=f"dmsafn-{number}", text=row["text"], labels=(row["label"],))
