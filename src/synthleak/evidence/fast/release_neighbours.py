"""What the texts of a large observation are to one another: radii, hubness, outlier factor.

Every text is compared with every other (`strips.py`); vectors that repeat an earlier one do not
count for the radii.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from io import BytesIO

import numpy as np
from numpy.typing import NDArray

from synthleak.core.seeds import stream
from synthleak.evidence.fast.outlier_factor import FittedFactor, factor_of_neighbours
from synthleak.evidence.fast.pairs import ByLength, cosines_of, pair_distances, sort_by_length
from synthleak.evidence.fast.rounded import MANY, product_of_bytes
from synthleak.evidence.fast.strips import Comparison
from synthleak.evidence.observation import Floats

_SOME = 256
_AXES = 4


@dataclass(frozen=True)
class ReleaseStatistics:
    """Radii, hubness and outlier factor of an observation (docs/method.md §6)."""

    cosine_radius: float
    distance_radius: float
    hubness: Floats
    factor: FittedFactor

    def to_bytes(self) -> bytes:
        """Write the statistics for the store."""
        out = BytesIO()
        radii = np.array([self.cosine_radius, self.distance_radius, self.factor.k])
        texts = np.stack([self.hubness, self.factor.reach, self.factor.density])
        np.savez(out, radii=radii, texts=texts)
        return out.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> ReleaseStatistics:
        """Read statistics from the store."""
        with np.load(BytesIO(data), allow_pickle=False) as kept:
            (cosine, distance, k), (hubness, reach, density) = kept["radii"], kept["texts"]
        return cls(float(cosine), float(distance), hubness, FittedFactor(reach, density, int(k)))


def release_statistics(
    vectors: NDArray[np.floating] | ByLength, same: float, threads: int = 1
) -> ReleaseStatistics:
    """Compare every text with all others; vectors nearer than `same` (relative) are one vector.

    The number of threads changes no digit.
    """
    texts = vectors if isinstance(vectors, ByLength) else sort_by_length(vectors)
    first = first_of_kind(texts, same * float(texts.lengths[-1]))
    offered = product_of_bytes(texts.vectors.shape[1]) if len(texts) >= MANY else nullcontext()
    with ThreadPoolExecutor(threads) as pool, offered as product:
        compared = Comparison(texts, first, pool.map if threads > 1 else map, product)
        compared.compare()
        return _statistics(compared)


def _statistics(compared: Comparison) -> ReleaseStatistics:
    """Return the statistics in the order of O."""
    texts = compared.texts
    n, order = len(texts), texts.order
    hubness, reached = np.empty(n), np.empty(compared.squares.values.shape)
    neighbours = np.empty(reached.shape, dtype=np.int64)
    hubness[order] = np.sort(compared.cosines.values, axis=1).mean(axis=1)
    neighbours[order] = order[compared.squares.places]
    for start in range(0, n, _SOME):
        part = slice(start, start + _SOME)
        own = texts.vectors[part].astype(np.float64)
        reached[order[part]] = pair_distances(own, _vectors(texts, compared.squares.places[part]))
    near_cosine, near_distance = _nearest_of_kind(compared)
    alone = len(near_cosine) < 2
    return ReleaseStatistics(
        cosine_radius=0.0 if alone else float(np.median(1 - near_cosine)),
        distance_radius=0.0 if alone else float(np.median(near_distance)),
        hubness=hubness,
        factor=factor_of_neighbours(neighbours, reached, reached.shape[1]),
    )


def _vectors(texts: ByLength, places: NDArray[np.integer]) -> Floats:
    return np.asarray(texts.vectors[places], dtype=np.float64)


def _nearest_of_kind(compared: Comparison) -> tuple[Floats, Floats]:
    """Return the largest cosine and the smallest distance among the first of their kind.

    A text whose neighbours all repeat others is compared with all once more.
    """
    kind = np.flatnonzero(compared.first)
    if len(kind) < 2:
        return np.zeros(len(kind)), np.zeros(len(kind))
    cosine, square = compared.near_cosine, compared.near_square
    known = (cosine >= compared.cosines.least) & (-square >= compared.squares.least)
    cosine, square = cosine[kind], square[kind]
    unsure = np.flatnonzero(~known[kind])
    others, lengths = None, compared.texts.lengths[kind]
    for start in range(0, len(unsure), _SOME):
        others = _vectors(compared.texts, kind) if others is None else others
        rows = unsure[start : start + _SOME]
        dot = others[rows] @ others.T
        near = cosines_of(dot, lengths[rows, None], lengths)
        apart = np.maximum(lengths[rows, None] ** 2 + lengths**2 - 2 * dot, 0.0)
        near[np.arange(len(rows)), rows] = -np.inf
        apart[np.arange(len(rows)), rows] = np.inf
        cosine[rows], square[rows] = near.max(axis=1), apart.min(axis=1)
    return cosine, np.sqrt(square)


def first_of_kind(texts: ByLength, tolerance: float) -> NDArray[np.bool_]:
    """Say which vectors are within the tolerance of none that comes earlier in O.

    Vectors that are near have near projections on any axis: those that are neighbours on one axis
    and near on a few more are compared, others cannot be the same.

    >>> first_of_kind(sort_by_length(np.array([[0.0, 0], [5, 5], [0, 0]])), 1e-6).tolist()
    [True, False, True]
    """
    n, order = len(texts), texts.order
    seen: dict[bytes, int] = {}
    first = np.zeros(n, dtype=np.bool_)
    for place in np.argsort(order):
        own = blake2b(texts.vectors[place].tobytes(), digest_size=16).digest()
        first[place] = seen.setdefault(own, int(place)) == place
    places = np.flatnonzero(first)
    axes = stream("first of kind").normal(size=(texts.vectors.shape[1], _AXES))
    axes /= np.linalg.norm(axes, axis=0)
    shadows = np.concatenate([part @ axes for _, part in texts.chunks()])[places]
    sort = np.argsort(shadows[:, 0], kind="stable")
    places, shadows = places[sort], shadows[sort]
    for step in range(1, len(places)):
        near = np.flatnonzero(shadows[step:, 0] - shadows[:-step, 0] <= tolerance)
        if not len(near):
            break
        apart = np.abs(shadows[near] - shadows[near + step]).max(axis=1)
        near = near[apart <= tolerance]
        one, other = places[near], places[near + step]
        difference = texts.vectors[one].astype(np.float64) - texts.vectors[other]
        same = np.linalg.norm(difference, axis=1) <= tolerance
        later = np.where(order[one] > order[other], one, other)
        first[later[same]] = False
    return first
