"""What an encoder is, and the memory that spares it from reading a text twice."""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synthleak.identity import digest
from synthleak.registry import Plugin, PluginShelf
from synthleak.store import Store, keep

Vectors = NDArray[np.float32]


class Encoder(Plugin):
    """Turns texts into vectors: `encode(texts) -> float32 [n, d]`, row i from text i alone."""

    @property
    def cheap(self) -> bool:
        """Whether encoding again costs less than keeping the vectors on disk."""
        return False

    @abstractmethod
    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return one vector per text."""


encoders: PluginShelf[Encoder] = PluginShelf("encoder", "synthleak.encoders.shelf")


def encode_once(encoder: Encoder, texts: Sequence[str], store: Store) -> Vectors:
    """Encode texts, keeping the vectors of an expensive encoder by content (METHOD §2)."""
    if encoder.cheap:
        return encoder.encode(texts)
    key = digest("vectors", encoder.identity(), texts)
    return keep(store, "vectors", key, lambda: encoder.encode(texts), dump_array, load_array)


def dump_array(array: NDArray[np.generic]) -> bytes:
    """Write an array as `.npy`."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=False)
    return buffer.getvalue()


def load_array(data: bytes) -> Vectors:
    """Read an array written by `dump_array`."""
    array: Vectors = np.load(io.BytesIO(data), allow_pickle=False)
    return array
