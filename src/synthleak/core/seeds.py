"""Keys and seeds: hashes of content, and of names.

Two artefacts made from the same content by the same version of the same plug-in have the same key,
whatever machine, worker count or batch made them (docs/design/decisions.md). Every random choice
comes from a stream that is named by what it is for, so that adding a pool, an ε or a worker never
shifts the choices made elsewhere (docs/design/decisions.md).
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

KEY_LENGTH = 32
_PLAIN = {str, int, bool, type(None)}


def plain(value: Any) -> Any:
    """Reduce `value` to JSON types in one way only, so that equal content gives equal text.

    >>> plain({"epsilon": float("inf"), "order": (1, 2.0)})
    {'epsilon': 'inf', 'order': [1, 2.0]}
    """
    if isinstance(value, float):
        if math.isnan(value):
            raise ValueError("a key cannot be made from NaN")
        return value if math.isfinite(value) else ("inf" if value > 0 else "-inf")
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, Mapping):
        return {
            str(key): item if type(item) in _PLAIN else plain(item) for key, item in value.items()
        }
    if isinstance(value, np.generic):
        return plain(value.item())
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, Iterable):
        return [item if type(item) in _PLAIN else plain(item) for item in value]
    raise TypeError(f"a key cannot be made from {type(value).__name__}")


def digest(*parts: Any, length: int = KEY_LENGTH) -> str:
    """Return the key of `parts`: mappings count regardless of order, sequences in order.

    >>> digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})
    True
    """
    content = json.dumps(
        plain(parts), sort_keys=True, ensure_ascii=True, separators=(",", ":"), allow_nan=False
    )
    return hashlib.sha256(content.encode()).hexdigest()[:length]


def sha256_of(*parts: Any) -> str:
    """Return the whole SHA-256 that the key of `parts` is the beginning of."""
    return digest(*parts, length=64)


Part = str | int


def derive(*parts: Part) -> int:
    """Return a 64-bit seed named by `parts`.

    >>> derive(7, "plan", "outlier") == derive(7, "plan", "outlier")
    True
    >>> derive(7, "plan", "outlier") == derive(7, "plan", "rare")
    False
    """
    name = json.dumps(parts, ensure_ascii=True, separators=(",", ":"))
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")


def stream(*parts: Part) -> np.random.Generator:
    """Return a fresh random generator named by `parts`."""
    return np.random.Generator(np.random.PCG64(derive(*parts)))
