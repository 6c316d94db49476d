"""Noised nearest-neighbour votes of private records on synthetic texts (docs/method.md §5.2).

Every private record votes once, for the nearest text of its own class. Adding a record changes one
bin by 1; replacing one changes two bins by 1 each, which is √2 in L2. Noise is added to every bin,
also where no record voted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from synthleak.core.store import Store
from synthleak.encoders.encoder import Encoder, Vectors, encode_once

Counts = NDArray[np.float64]
_SLACK = 1e-12
"""An upper bound on the rounding error of a product in double precision, relative to squares."""


def count_votes(private: Vectors, texts: Vectors) -> Counts:
    """Return how many private vectors have each text as their nearest by L2, the first of ties.

    A vote depends on its own vector alone, to the last bit. The rounding of a product of all
    records with all texts depends on their number, so other records could break ties between equal
    texts. So the product only preselects; texts within its rounding error are compared one by one.

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
    """Add noise to every bin and set negatives to 0; σ = 0 means no noise."""
    total = counts + rng.normal(0.0, sigma, len(counts)) if sigma else counts
    positive: Counts = np.maximum(total, 0.0)
    return positive


def ranked(counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the bins from most to fewest votes, ties in random order.

    So texts of a class without votes are chosen at random.
    """
    order: NDArray[np.int64] = np.lexsort((rng.random(len(counts)), -counts))
    return order


def vectors_of(encoder: Encoder, texts: Sequence[str], store: Store | None) -> Vectors:
    """Encode private texts, through the audit's store where there is one."""
    if not texts:
        return np.zeros((0, 1), dtype=np.float32)
    return encoder.encode(texts) if store is None else encode_once(encoder, texts, store)
