"""`datasets`: a folder that Hugging Face's `datasets` saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from synthleak.core.errors import CorpusError, SpecError
from synthleak.core.validation import key_path, nearest, valid_name
from synthleak.corpus.arrow import arrow_rows
from synthleak.corpus.corpus import Record, readers
from synthleak.corpus.files import read_json
from synthleak.corpus.rows import FieldReader, Numbered

M = TypeVar("M", bound=BaseModel)


@readers.register("datasets", version=1)
class Datasets(FieldReader):
    """A folder written by `save_to_disk`, one split of it; the package `datasets` is not needed."""

    split: str | None = Field(default=None, description="which split, where the folder has several")

    def default_name(self) -> str:
        """Return the folder's name, as a name may be written."""
        return valid_name(self.path.name, "corpus")

    def read(self) -> Iterator[Record]:
        """Yield a record per row, with class numbers turned into class names."""
        return self.records(self._rows())

    def _rows(self) -> Iterator[Numbered]:
        folder = self._folder()
        decoders = _class_names(folder)
        number = 0
        for file in _data_files(folder):
            for row in arrow_rows(file):
                number += 1
                where = f"{folder}, row {number}"
                for column, names in decoders.items():
                    row[column] = _named(row.get(column), names, column, where)
                yield number, where, row

    def _folder(self) -> Path:
        if not self.path.is_dir():
            raise CorpusError("no such folder", str(self.path), "check corpus.path")
        index = self.path / "dataset_dict.json"
        if not index.is_file():
            return self.path
        splits = _metadata(index, _Index).splits
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
        files = [folder / item.filename for item in _metadata(state, _State).data_files]
    else:
        files = sorted(folder.glob("*.arrow"))
    if not files:
        raise CorpusError(
            "the folder holds no data", str(folder), "name a folder made by save_to_disk"
        )
    return files


def _class_names(folder: Path) -> dict[str, list[str]]:
    """Return the names of the classes, for every column of class numbers."""
    info = folder / "dataset_info.json"
    features = _metadata(info, _Info).features if info.is_file() else None
    names_of = {}
    for column, feature in (features or {}).items():
        inner = feature[0] if isinstance(feature, list) and feature else feature
        inner = inner.get("feature", inner) if isinstance(inner, dict) else {}
        if isinstance(inner, dict) and inner.get("_type") == "ClassLabel" and inner.get("names"):
            names_of[column] = _checked({"names": inner["names"]}, _Classes, info).names
    return names_of


def _named(value: Any, names: list[str], column: str, where: str) -> Any:
    if isinstance(value, list):
        inside = [
            _named(item, names, column, where) for item in value if not isinstance(item, list)
        ]
        return [item for item in inside if item is not None]
    if value is None:
        return None
    if not isinstance(value, int):
        raise CorpusError(
            f"the field {column!r} holds a {type(value).__name__}, not the number of a class", where
        )
    if value < 0:  # -1 stands for a class that is not known
        return None
    return names[value] if value < len(names) else value


class _DataFile(BaseModel):
    filename: str


class _Index(BaseModel):
    splits: list[str] = []


class _State(BaseModel):
    data_files: list[_DataFile] = Field(default=[], alias="_data_files")


class _Info(BaseModel):
    features: dict[str, Any] | None = None


class _Classes(BaseModel):
    names: list[str]


def _metadata(path: Path, kind: type[M]) -> M:
    return _checked(read_json(path), kind, path)


def _checked(content: dict[str, Any], kind: type[M], path: Path) -> M:
    """Read what `datasets` wrote beside the data; a file of another shape is refused."""
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        key = key_path(error.errors(include_url=False)[0]["loc"])
        raise CorpusError(
            f"{key} is not what `save_to_disk` writes", str(path), "save the dataset again"
        ) from None
