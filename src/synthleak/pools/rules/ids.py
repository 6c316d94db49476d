"""`ids`: records that somebody has listed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from synthleak.core.errors import CorpusError, PoolError
from synthleak.core.seeds import digest
from synthleak.core.validation import DataPath, nearest_column
from synthleak.corpus.files import open_lines
from synthleak.corpus.sources import numbered_rows
from synthleak.pools.selection import Filter, Ground, rules


@rules.register("ids", version=1)
class Ids(Filter):
    """The records whose ids a file lists: one a line, or a column of a CSV, TSV or JSONL file."""

    path: DataPath
    field: str = Field(default="id", description="the column, where the file has columns")
    missing: Literal["refuse", "skip"] = Field(
        default="refuse",
        description="an id that the corpus does not have: an error, or passed over",
    )

    def identity(self) -> dict[str, Any]:
        """Return what decides the pool: the ids that the file lists, not where it lies."""
        return {**super().identity(), "ids": digest("ids", sorted(self._listed()))}

    def matches(self, ground: Ground) -> Sequence[int]:
        listed = self._listed()
        positions = {record.id: position for position, record in enumerate(ground.corpus.records)}
        unknown = [number for number, name in enumerate(listed, 1) if name not in positions]
        if unknown and (self.missing == "refuse" or len(unknown) == len(listed)):
            more = ", ..." if len(unknown) > 3 else ""
            raise PoolError(
                f"{len(unknown)} of {len(listed)} ids in {self.path} are not in the corpus"
                f" (entries {', '.join(map(str, unknown[:3]))}{more})",
                remedy="correct them (a record that repeats an earlier text is dropped from the"
                ' corpus), or set missing = "skip"',
            )
        return sorted(positions[name] for name in listed if name in positions)

    def _listed(self) -> list[str]:
        listed = list(dict.fromkeys(name for name in _names(self.path, self.field) if name))
        if not listed:
            raise PoolError(f"{self.path} lists no id", remedy="write one id a line")
        return listed


def _names(path: Path, field: str) -> Iterator[str]:
    if Path(path.name.lower().removesuffix(".gz")).suffix in (".csv", ".tsv", ".jsonl"):
        for _, where, row in numbered_rows(path, text=field, key="pool.path"):
            yield str(_column(row, field, where)).strip()
    else:
        yield from (text.strip() for _, text in open_lines(path, key="pool.path"))


def _column(row: Mapping[str, Any], field: str, where: str) -> Any:
    if row.get(field) is None:
        raise CorpusError(
            f"there is no field {field!r}", where, f"set pool.field ({nearest_column(field, row)})"
        )
    if not isinstance(row[field], str | int | float):
        raise CorpusError(f"the field {field!r} holds a {type(row[field]).__name__}", where)
    return row[field]
