"""What an encoder is, and how each text is encoded only once."""

from __future__ import annotations

import importlib.util
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from synthleak.core.errors import ContractError
from synthleak.core.identity import digest
from synthleak.core.plugins import calling
from synthleak.core.registry import Plugin, PluginRegistry
from synthleak.core.store import Store
from synthleak.encoders.packs import Vectors, dump_array, load_array, packs_of, text_key

__all__ = ["Encoder", "Vectors", "dump_array", "encode_once", "encoders", "load_array"]

_PACK = 4096
"""Texts in a pack: the most that an interruption loses, and that is read to find one vector."""


class Encoder(Plugin):
    """Turns texts into vectors: `encode(texts) -> float32 [n, d]`, row i from text i alone."""

    @property
    def cheap(self) -> bool:
        """Whether encoding again costs less than keeping the vectors on disk."""
        return False

    def check(self) -> None:
        """Raise an error if an extra or a file is missing, before any work starts."""

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""


encoders: PluginRegistry[Encoder] = PluginRegistry("encoder", "synthleak.encoders.builtin")


def package_folder(package: str, *files: str) -> Path | None:
    """Return the folder of an installed package that holds these files, without importing it."""
    spec = importlib.util.find_spec(package)
    folders = map(Path, (spec.submodule_search_locations or []) if spec else [])
    return next((f for f in folders if all((f / name).is_file() for name in files)), None)


def encode_once(encoder: Encoder, texts: Sequence[str], store: Store) -> Vectors:
    """Encode texts; an expensive encoder is run on new texts only (docs/method.md §2).

    Vectors are stored by the content of each text, so a text that is in the corpus, in a pool and
    in a release is encoded once. Missing vectors are encoded and stored pack by pack.
    """
    if encoder.cheap or not texts:
        return _encode(encoder, texts)
    packs = packs_of(store, digest("encoder", encoder.identity()))  # type: ignore[arg-type]
    keys = [text_key(text) for text in texts]
    by_key = dict(zip(keys, texts, strict=True))
    found: Vectors | None = None
    while found is None:  # again only if a pack is damaged, which then counts as missing
        missing = packs.missing(keys)
        for start in range(0, len(missing), _PACK):
            some = missing[start : start + _PACK]
            packs.add(some, _encode(encoder, [by_key[key] for key in some]))
        found = packs.get(keys)
    return found


def _encode(encoder: Encoder, texts: Sequence[str]) -> Vectors:
    """Encode, and check the encoder's contract: a finite float32 row per text."""
    with calling("encoder", encoder.kind, encoder):
        vectors = encoder.encode(texts)
        if vectors.ndim != 2 or len(vectors) != len(texts) or vectors.dtype != np.float32:
            raise ContractError(
                f"the encoder {encoder.kind!r} returned {vectors.dtype} {vectors.shape} for"
                f" {len(texts)} texts, not float32 ({len(texts)}, d)"
            )
    if not np.isfinite(vectors).all():
        raise ContractError(f"the encoder {encoder.kind!r} returned a value that is not finite")
    return vectors
