"""`hashing`: signed feature hashing of words and letters, for tests."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from pydantic import Field

from synthleak.core.text import char_grams, tokens
from synthleak.encoders import Encoder, Vectors, encoders
from synthleak.encoders.encoder import at_unit_length


@encoders.register("hashing", version=1)
class Hashing(Encoder):
    """Signed feature hashing of words and letter triples: no model needed, little meaning."""

    dimensions: int = Field(default=64, ge=2, le=4096)

    @property
    def cheap(self) -> bool:
        """Hashing again is faster than reading a file."""
        return True

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Return unit vectors (zero for an empty text)."""
        vectors = np.zeros((len(texts), self.dimensions), dtype=np.float32)
        for row, text in enumerate(texts):
            for feature in [*tokens(text), *sorted(char_grams(text, 3))]:
                position, sign = _slot(feature, self.dimensions)
                vectors[row, position] += sign
        return at_unit_length(vectors)


@lru_cache(maxsize=100_000)
def _slot(feature: str, dimensions: int) -> tuple[int, int]:
    number = int.from_bytes(hashlib.blake2b(feature.encode(), digest_size=8).digest(), "big")
    return (number >> 1) % dimensions, 1 if number & 1 else -1
