"""`demo`: the corpus that the project writes itself."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from synthleak.corpus.corpus import Reader, Record, readers
from synthleak.corpus.demo import write_demo


@readers.register("demo", version=1)
class Demo(Reader):
    """Invented patient messages from a seeded grammar: 7 labels, a rare tail; no download."""

    size: int = Field(default=1200, ge=50, le=200_000, description="how many records")
    seed: int = Field(default=1, ge=0)
    persons: bool = Field(
        default=False, description="several records each: a person's style and facts recur"
    )

    def read(self) -> Iterator[Record]:
        """Yield the records as they are written."""
        return write_demo(self.size, self.seed, persons=self.persons)
