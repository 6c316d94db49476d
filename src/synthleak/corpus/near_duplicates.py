"""Near-duplicates: records that another record all but repeats."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synthleak.encoders.encoder import Vectors

THRESHOLD = 0.95
_TALL, _WIDE = 1024, 8192


def near_duplicates(vectors: Vectors, threshold: float = THRESHOLD) -> NDArray[np.bool_]:
    """Say of each record whether another has a cosine of at least `threshold` to it.

    A target with a near-duplicate among the candidates has a twin in every world, so that its
    absence can hardly be seen. Worked tile by tile: memory does not grow with the square of the
    corpus. A zero vector is near nothing.

    >>> near_duplicates(np.array([[1, 0], [2, 0.1], [0, 1], [0, 0]], dtype=np.float32)).tolist()
    [True, True, False, False]
    """
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, norms, out=np.zeros_like(vectors), where=norms > 0)
    near = np.zeros(len(unit), dtype=bool)
    for top in range(0, len(unit), _TALL):
        rows = unit[top : top + _TALL]
        for left in range(top - top % _WIDE, len(unit), _WIDE):
            close = rows @ unit[left : left + _WIDE].T >= threshold
            here = np.arange(max(top, left), min(top + len(rows), left + close.shape[1]))
            close[here - top, here - left] = False  # a record is not its own duplicate
            near[top : top + _TALL] |= close.any(axis=1)
            near[left : left + _WIDE] |= close.any(axis=0)
    return near
