"""`sentence-transformers`: any model of that library (docs/method.md §2)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo

from synthleak.encoders import Vectors, encoders
from synthleak.encoders.encoder import TransformerEncoder

_UNUSED = {".md", ".onnx", ".png", ".h5", ".msgpack", ".ot"}


def _name_or_folder(value: str, info: ValidationInfo) -> str:
    """Prefer a folder beside the spec; a value that looks like a path must be one."""
    base = (info.context or {}).get("base")
    folder = Path(base or ".", Path(value).expanduser())
    if folder.is_dir():
        return str(folder.absolute())
    if value.startswith((".", "/", "~")) or not value:
        raise ValueError("no such folder")
    return value


@encoders.register("sentence-transformers", version=1)
class SentenceTransformers(TransformerEncoder):
    """Any sentence-transformers model, by its name on the Hugging Face hub or from a folder."""

    extra: ClassVar[str] = "sentence-transformers"

    model: Annotated[str, AfterValidator(_name_or_folder)]
    revision: str | None = Field(default=None, description="a commit of a model on the hub")
    max_tokens: int | None = Field(
        default=None, ge=1, description="cut longer texts here; the model's own length if not set"
    )

    def identity(self) -> dict[str, Any]:
        """Return what decides the vectors: a folder counts by its content, a name as it is."""
        settings = super().identity()
        if Path(self.model).is_dir():
            settings["model"] = folder_digest(Path(self.model))
        return settings

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return the model's own sentence vectors."""
        return self.run(self.model, texts, revision=self.revision, max_tokens=self.max_tokens)


def folder_digest(folder: Path) -> str:
    """Return the content hash of a model folder, independent of its location."""
    files = sorted(
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.suffix not in _UNUSED
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    )
    seen = tuple((str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files)
    return _digest(str(folder), seen)


@lru_cache(maxsize=16)
def _digest(folder: str, files: tuple[tuple[str, int, int], ...]) -> str:
    """Hash the files; sizes and times make the cache notice a changed file."""
    whole = hashlib.sha256()
    for name, _, _ in files:
        path = Path(name)
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        whole.update(f"{path.relative_to(folder).as_posix()} {content}\n".encode())
    return whole.hexdigest()
