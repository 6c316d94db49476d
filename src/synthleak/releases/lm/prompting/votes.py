"""Noised nearest-neighbour votes: what private records say about public texts (docs/method.md
§5.2).

Every private record votes once, for the text of its own class that is nearest to it. One record
more moves one bin by 1; one replaced moves two bins by 1 each, which is √2 in all. Noise goes onto
every bin, also where no record voted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synthleak.core.store import Store
from synthleak.encoders.encoder import Encoder, Vectors, encode_once

Counts = NDArray[np.float64]
_SLACK = 1e-12
"""More than a product in double precision can be wrong by, relative to the squares in it."""


def count_votes(private: Vectors, texts: Vectors) -> Counts:
    """Return how many private vectors have each text as their nearest by L2, the first of ties.

    A vote depends on its own vector alone, to the last bit: a product of all records with all texts
    rounds by how many there are, and other records would break ties between equal texts. So it
    only narrows down; what is as near as rounding lets us see is measured pair by pair.

    >>> texts = np.array([[0, 0], [3, 0], [3, 0]], dtype=np.float32)
    >>> count_votes(np.array([[1, 0], [2, 0], [9, 9]], dtype=np.float32), texts).tolist()
    [1.0, 2.0, 0.0]
    """
    if not len(private):
        return np.zeros(len(texts))
    x, y = private.astype(np.float64), texts.astype(np.float64)
    lengths = (y * y).sum(axis=1)
    product = lengths - 2 * x @ y.T
    slack = _SLACK * ((x * x).sum(axis=1) + lengths.max())
    close = product <= (product.min(axis=1) + slack)[:, None]
    nearest = close.argmax(axis=1)
    for row in np.flatnonzero(close.sum(axis=1) > 1):
        places = np.flatnonzero(close[row])
        nearest[row] = places[((y[places] - x[row]) ** 2).sum(axis=1).argmin()]
    return np.bincount(nearest, minlength=len(texts)).astype(np.float64)


def noised(counts: Counts, sigma: float, rng: np.random.Generator) -> Counts:
    """Add noise to every bin and cut negatives; σ = 0 is no noise at all."""
    total = counts + rng.normal(0.0, sigma, len(counts)) if sigma else counts
    positive: Counts = np.maximum(total, 0.0)
    return positive


def ranked(counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the bins from most to fewest votes, ties in random order.

    So a class that nobody voted for keeps going with texts chosen at random.
    """
    order: NDArray[np.int64] = np.lexsort((rng.random(len(counts)), -counts))
    return order


def vectors_of(encoder: Encoder, texts: Sequence[str], store: Store | None) -> Vectors:
    """Encode private texts, from the memory of the audit where there is one."""
    if not texts:
        return np.zeros((0, 1), dtype=np.float32)
    return encoder.encode(texts) if store is None else encode_once(encoder, texts, store)
