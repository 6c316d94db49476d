"""Pairs of unit vectors that can be near, from products of their coordinates rounded to bytes.

A processor multiplies bytes four times as fast as numbers in single precision. What rounding leaves
of each vector is known: by Cauchy-Schwarz it bounds how far a product of rounded vectors is from
the true one (about 0.02), so pairs that are below their bound by more need no other look. NumPy has
no product of bytes, torch does: without torch, or where it is not faster, nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from time import thread_time

import numpy as np
from numpy.typing import NDArray

from synthleak.core.seeds import stream
from synthleak.evidence.fast.pairs import ByLength, Singles
from synthleak.evidence.fast.ragged import Ints
from synthleak.evidence.observation import Floats

Bytes = NDArray[np.int8]
Product = Callable[[Bytes, Bytes], NDArray[np.int32]]
"""Returns the products of all rows of one matrix with all rows of another."""

MANY = 2**15
"""Below this number of texts the rest takes longer than products."""
_DIMENSIONS = range(32, 2**16)
"""With fewer, products take no time; with more, a sum could leave 32 bits."""
_LARGEST = 127
_WIDTH = 4.3
"""A coordinate of a rotated unit vector is rarely larger, in units of its typical size."""
_GROUP = 256
_TRIAL = 1024


@dataclass(frozen=True)
class Rounded:
    """Unit vectors in whole numbers of a step, and the length of what rounding left of each."""

    whole: Bytes
    left: Floats
    step: float
    error: float
    """How far a cosine in single precision can be from the true one."""
    product: Product

    def above(
        self, a: slice, b: slice, bounds: Singles, others: Singles
    ) -> tuple[Ints, Ints, Floats]:
        """Return rows and columns of pairs of two parts, and the most that their cosines can be.

        All pairs are among them whose cosine in single precision is above the bound of either.
        Columns with similar bounds come together: a row then has one bound for all of them.
        """
        order = np.argsort(others - self.left[b], kind="stable")
        columns, other, others_left = self.whole[b][order], others[order], self.left[b][order]
        parts: list[tuple[Ints, Ints, Floats]] = []
        for start in range(0, len(order), _GROUP):
            group = slice(start, start + _GROUP)
            near = self.product(self.whole[a], columns[group])
            low = np.minimum(bounds, other[group].min())
            low = low - self._off(self.left[a], others_left[group].max())
            low = np.floor(low / self.step**2).astype(np.int32)
            at = np.flatnonzero(near > low[:, None])
            row, column = np.divmod(at, near.shape[1])
            column += start
            most = near.reshape(-1)[at].astype(np.float64) * self.step**2
            most += self._off(self.left[a][row], others_left[column])
            kept = most > np.minimum(bounds[row], other[column])
            parts.append((row[kept], order[column[kept]].astype(np.int64), most[kept]))
        rows, places, values = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(places), np.concatenate(values)

    def _off(self, left: Floats, others: Floats) -> Floats:
        """Return how far the product of rounded vectors can be below that in single precision.

        With x = q + e and y = p + f, the true product is q·p + q·f + e·y, and q is no longer than
        1 + |e|.
        """
        return left + (1 + left) * others + self.error


def round_units(texts: ByLength, product: Product | None) -> Rounded | None:
    """Round vectors at unit length after a rotation; None without a product of bytes.

    The rotation is random and always the same: afterwards no coordinate is much larger than others,
    whatever the encoder.
    """
    n, dimensions = texts.vectors.shape
    if product is None or dimensions not in _DIMENSIONS:
        return None
    axes = np.linalg.qr(stream("rounded").normal(size=(dimensions, dimensions)))[0]
    step = _WIDTH / np.sqrt(dimensions) / _LARGEST
    whole, left = np.empty((n, dimensions), dtype=np.int8), np.empty(n)
    scale = np.divide(1.0, texts.lengths, out=np.zeros(n), where=texts.lengths > 0)
    for part, vectors in texts.chunks():
        units = (vectors * scale[part, None]) @ axes
        near = np.clip(np.rint(units / step), -_LARGEST, _LARGEST)
        whole[part] = near
        left[part] = np.linalg.norm(units - near * step, axis=1)
    return Rounded(whole, left, float(step), texts.error, product)


@contextmanager
def product_of_bytes(dimensions: int) -> Iterator[Product | None]:
    """Offer torch's product of bytes, on one thread, where it is exact and pays."""
    if find_spec("torch") is None:
        yield None
        return
    import torch

    def product(rows: Bytes, columns: Bytes) -> NDArray[np.int32]:
        left, right = torch.from_numpy(rows), torch.from_numpy(columns)
        found: NDArray[np.int32] = torch._int_mm(left, right.T.contiguous()).numpy()
        return found

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield product if hasattr(torch, "_int_mm") and pays(product, dimensions) else None
    finally:
        torch.set_num_threads(threads)


def pays(product: Product, dimensions: int) -> bool:
    """Say whether a product of bytes is exact and much faster than one in single precision.

    Some processors add two products in 16 bits, which the largest bytes would show.
    """
    large = np.full((_TRIAL, dimensions), _LARGEST, dtype=np.int8)
    large[::2] *= -1
    singles = large.astype(np.float32)
    exact = np.where(np.equal.outer(large[:, 0], large[:, 0]), 1, -1) * _LARGEST**2 * dimensions
    if not np.array_equal(product(large, large), exact):
        return False
    bytes_took, singles_took = [], []
    for _ in range(3):
        start = thread_time()
        product(large, large)
        middle = thread_time()
        singles @ singles.T
        bytes_took.append(middle - start)
        singles_took.append(thread_time() - middle)
    return 1.5 * min(bytes_took) < min(singles_took)
