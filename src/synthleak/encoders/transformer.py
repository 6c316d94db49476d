"""Loading sentence-transformers models, for the encoders that run one."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from pydantic import Field

from synthleak.core.errors import MissingExtra, UserError, import_extra
from synthleak.encoders.encoder import Encoder, Vectors

_UNUSED = {".md", ".onnx", ".png", ".h5", ".msgpack", ".ot"}


class TransformerEncoder(Encoder):
    """An encoder that runs a sentence-transformers model.

    `batch` and `device` change the speed, not the vectors (but for the last bits of a float), so
    they are not part of an encoder's identity.
    """

    extra: ClassVar[str]

    batch: int = Field(default=32, ge=1, description="texts at a time; changes speed only")
    device: str = Field(
        default="auto", description="cpu, cuda, ...; auto takes a GPU if there is one; speed only"
    )

    def identity(self) -> dict[str, Any]:
        """Return what decides the vectors; batch, device and location do not."""
        settings = super().identity()
        return {key: value for key, value in settings.items() if key not in ("batch", "device")}

    def check(self) -> None:
        """Raise an error if sentence-transformers is missing, without importing it (seconds)."""
        if importlib.util.find_spec("sentence_transformers") is None:
            raise MissingExtra(
                f"the encoder {self.kind!r} needs the package sentence-transformers",
                remedy=f"pip install 'synthleak[{self.extra}]'",
            )

    def run(self, source: str, texts: Sequence[str], **settings: Any) -> Vectors:
        """Encode with the model at `source`, loaded once per process."""
        who = f"the encoder {self.kind!r}"
        library = import_extra("sentence_transformers", extra=self.extra, by=who)
        import_extra("transformers.utils.logging", extra=self.extra, by=who).disable_progress_bar()
        model = load_model(library, source, self.device, tuple(sorted(settings.items())))
        if not texts:
            return self.run(source, [""], **settings)[:0]
        # The engine shows progress; a bar here would be one per observation.
        vectors = model.encode(list(texts), batch_size=self.batch, show_progress_bar=False)
        return np.ascontiguousarray(vectors, dtype=np.float32)


@lru_cache(maxsize=2)
def load_model(
    library: Any, source: str, device: str, settings: tuple[tuple[str, Any], ...]
) -> Any:
    """Load a model from a folder or by its name on the Hugging Face hub, in single precision."""
    chosen = dict(settings)
    try:
        model = library.SentenceTransformer(
            source,
            device=None if device == "auto" else device,
            revision=chosen.get("revision"),
            local_files_only=Path(source).is_dir(),
        ).float()
    except Exception as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError(
            f"the model {source!r} cannot be loaded ({type(error).__name__}: {reason})",
            remedy="name a folder that sentence-transformers saved, or a model this machine can"
            " fetch, and a device that it has",
        ) from None
    if chosen.get("max_tokens"):
        model.max_seq_length = chosen["max_tokens"]
    return model


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
