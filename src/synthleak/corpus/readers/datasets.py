"""`datasets`: a folder that Hugging Face's `datasets` saved."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import Field

from synthleak.core.errors import CorpusError, SpecError
from synthleak.core.validation import nearest
from synthleak.corpus.arrow import arrow_rows
from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import read_json
from synthleak.corpus.rows import FieldReader

Decode = Callable[[Any], Any]


@readers.register("datasets", version=1)
class Datasets(FieldReader):
    """A folder written by `save_to_disk`, one split of it; the package `datasets` is not needed."""

    split: str | None = Field(default=None, description="which split, where the folder has several")

    def default_name(self) -> str:
        """Return the folder's name."""
        return self.path.name

    def read(self) -> Iterator[Record]:
        """Yield a record per row, with class numbers turned into class names."""
        folder = self._folder()
        decoders = _class_names(folder)
        number = 0
        for file in _data_files(folder):
            for row in arrow_rows(file):
                number += 1
                for column, decode in decoders.items():
                    row[column] = decode(row.get(column))
                yield self.record(row, number, f"{folder}, row {number}")

    def _folder(self) -> Path:
        if not self.path.is_dir():
            raise CorpusError("no such folder", str(self.path), "check corpus.path")
        index = self.path / "dataset_dict.json"
        if not index.is_file():
            return self.path
        splits = [str(name) for name in read_json(index).get("splits", [])]
        if self.split is None and len(splits) > 1:
            raise SpecError(
                "the folder holds several splits", "corpus.split", f"name one: {', '.join(splits)}"
            )
        chosen = self.split if self.split is not None else "".join(splits)
        if chosen not in splits:
            raise SpecError(f"no split {chosen!r}", "corpus.split", nearest(chosen, splits))
        return self.path / chosen


def _data_files(folder: Path) -> list[Path]:
    """Return the data files in order: those that state.json names, else all of the folder."""
    state = folder / "state.json"
    if state.is_file():
        files = [folder / str(item["filename"]) for item in read_json(state).get("_data_files", [])]
    else:
        files = sorted(folder.glob("*.arrow"))
    if not files:
        raise CorpusError(
            "the folder holds no data", str(folder), "name a folder made by save_to_disk"
        )
    return files


def _class_names(folder: Path) -> dict[str, Decode]:
    """Return, for every column of class numbers, what turns them into names."""
    info = folder / "dataset_info.json"
    features = read_json(info).get("features") if info.is_file() else None
    found = {}
    for column, feature in (features or {}).items():
        inner = feature[0] if isinstance(feature, list) and feature else feature
        inner = inner.get("feature", inner) if isinstance(inner, dict) else {}
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            found[column] = _namer(inner["names"])
    return found


def _namer(names: list[str]) -> Decode:
    def decode(value: Any) -> Any:
        if isinstance(value, list):
            return [decode(item) for item in value if item is not None and item >= 0]
        if value is None or value < 0:  # -1 stands for a class that is not known
            return None
        return names[value] if value < len(names) else value

    return decode
