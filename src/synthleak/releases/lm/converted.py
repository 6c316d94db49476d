"""Converted copies of GGUF backbones in the user's cache: parsing such a file takes 8 to 30 s.

A copy holds what the library made of the file: configuration, tokenizer, and tensors in one dtype.
It is named after a digest of the file, and used only if its own digests hold and the same versions
of the libraries made it; otherwise the file is read again and the copy replaced. So a run finds the
same numbers with a copy and without (docs/method.md §5.2). A backbone is public: a copy holds no
record.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import logging
import os
import shutil
import tempfile
import time
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

VARIABLE = "SYNTHLEAK_CACHE"
"""Names another folder for copies, or is `none`, and no copy is kept."""

VERSION = 1
"""Raise it when copies of the same file would differ from those made so far."""

LIBRARIES = ("torch", "transformers", "tokenizers", "safetensors", "gguf")
CONTENTS = "contents.json"
CONFIG = "config.json"
_ABANDONED_AFTER = 3600.0

log = logging.getLogger("synthleak.lm")


def cache_folder() -> Path | None:
    """Return the folder of synthleak in the user's cache, or None if nothing is to be kept."""
    named = os.environ.get(VARIABLE, "").strip()
    if named:
        return None if named == "none" else Path(named).expanduser()
    above = os.environ.get("XDG_CACHE_HOME", "").strip()
    try:
        return (Path(above) if above else Path.home() / ".cache") / "synthleak"
    except RuntimeError:  # a user without a home
        return None


@dataclass(frozen=True)
class Copy:
    """The copy of one GGUF file in one dtype, whether or not it is there yet."""

    source: Path
    dtype: str

    @cached_property
    def folder(self) -> Path | None:
        """Where the copy lies, named after the content of the file."""
        cache = cache_folder()
        if cache is None:
            return None
        return cache / "backbones" / f"{self.source.stem}-{_digest(self.source)[:32]}-{self.dtype}"

    def find(self, *names: str) -> Path | None:
        """Return the folder if the copy is whole, or if the files `names` are, where given."""
        if self.folder is None:
            return None
        try:
            contents = json.loads((self.folder / CONTENTS).read_bytes())
            if contents["made_by"] != _made_by():
                return None
            digests = contents["files"]
            sound = all(
                _digest(self.folder / name) == digests[name] for name in names or sorted(digests)
            )
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None
        return self.folder if sound else None

    def write(self, model: Any, tokenizer: Any) -> None:
        """Keep what was loaded from the file; without a place to write, nothing is kept."""
        if self.folder is None or not self._is_unpacked(model):
            return
        from safetensors import SafetensorError
        from safetensors.torch import save_model

        part: Path | None = None
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            _remove_abandoned(self.folder.parent)
            part = Path(tempfile.mkdtemp(prefix=".", suffix=".part", dir=self.folder.parent))
            config = deepcopy(model.config)
            if hasattr(config, "quantization_config"):  # the tensors are no longer quantised
                del config.quantization_config
            config.save_pretrained(part)
            model.generation_config.save_pretrained(part)
            tokenizer.save_pretrained(part)
            save_model(model, str(part / "model.safetensors"), metadata={"format": "pt"})
            digests = {path.name: _digest(path) for path in sorted(part.iterdir())}
            contents = {"made_by": _made_by(), "files": digests}
            (part / CONTENTS).write_text(json.dumps(contents, indent=1), encoding="utf-8")
            if self.folder.exists():
                self.folder.rename(part / "replaced")
            part.rename(self.folder)
            shutil.rmtree(self.folder / "replaced", ignore_errors=True)
        except (OSError, SafetensorError) as error:
            log.info("no converted copy of %s was kept: %s", self.source.name, error)
            if part is not None:
                shutil.rmtree(part, ignore_errors=True)

    def _is_unpacked(self, model: Any) -> bool:
        """Say whether every tensor has the dtype: a library may keep some packed."""
        return all(str(x.dtype) == f"torch.{self.dtype}" for x in model.state_dict().values())


def _made_by() -> dict[str, Any]:
    versions: dict[str, Any] = {"converter": VERSION}
    for library in LIBRARIES:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[library] = importlib.metadata.version(library)
    return versions


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _remove_abandoned(folder: Path) -> None:
    """Remove what processes that were killed while writing left behind."""
    for path in folder.glob(".*.part"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > _ABANDONED_AFTER:
                shutil.rmtree(path, ignore_errors=True)
