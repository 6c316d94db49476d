"""`sentence-transformers`: any model of that library (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, ValidationInfo

from synthleak.encoders import Vectors, encoders
from synthleak.encoders.transformer import TransformerEncoder, folder_digest


def _name_or_folder(value: str, info: ValidationInfo) -> str:
    """Prefer a folder beside the spec; a value that looks like a path must be one."""
    base = (info.context or {}).get("base")
    folder = Path(base or ".", Path(value).expanduser())
    if folder.is_dir():
        return str(folder.absolute())
    if value.startswith((".", "/", "~")) or not value:
        raise ValueError("no such folder")
    return value


@encoders.register(
    "sentence-transformers", version=1, needs="sentence_transformers", extra="sentence-transformers"
)
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
