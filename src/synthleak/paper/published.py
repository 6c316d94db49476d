"""What the readers of published corpora share: a seeded part of the whole."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

from pydantic import Field

from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Reader, Record


class Published(Reader):
    """A reader of a corpus in its published form.

    Studies often take a random part of one: 85% of PsyTAR's 6,003 sentences are the 5,102, and 80%
    of DMSAFN's 4,846 rows the 3,876 of docs/method.md §1, so a part is rounded down.
    """

    split: float | None = Field(
        default=None, gt=0, le=1, description="share of the records to take; all if not set"
    )
    split_seed: int = Field(default=0, ge=0, description="which random part")

    @abstractmethod
    def read_all(self) -> Iterator[Record]:
        """Yield every record of the published files, in their order."""

    def read(self) -> Iterator[Record]:
        """Yield the records of the chosen part, in their order."""
        if self.split is None:
            return self.read_all()
        records = list(self.read_all())
        # 0.29 * 100 is a hair below 29 in floating point.
        size = int(len(records) * self.split + 1e-9)
        part = stream(self.split_seed, "split", self.kind).permutation(len(records))[:size]
        return iter([records[position] for position in sorted(part)])
