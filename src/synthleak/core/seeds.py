"""Randomness by name.

Every random choice in an audit comes from a stream that is named by what it is for, so that adding
a pool, an ε or a worker never shifts the choices made elsewhere. See design/seeds.md.
"""

from __future__ import annotations

import hashlib
import json

import numpy as np

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
