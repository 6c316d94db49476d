"""Noised votes of private records on a population of texts, and selection (docs/method.md §5.2).

Private records are used through their votes only. The quota of a class is the number of its texts
in the release, drawn from the public prior. Its population is L times that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from synthleak.core.store import Store
from synthleak.corpus.corpus import Labels
from synthleak.encoders.encoder import Encoder, Vectors, encode_once

Counts = NDArray[np.float64]
_SLACK = 1e-12
"""An upper bound on the rounding error of a product in double precision, relative to squares."""


def nearest_texts(private: Vectors, texts: Vectors) -> NDArray[np.int64]:
    """Return the text that is nearest to each private vector by L2, the first of ties.

    A vote depends on its own vector alone, to the last bit. The rounding of a product of all
    records with all texts depends on their number, so other records could break ties between equal
    texts. So the product only preselects; texts within its rounding error are compared one by one.
    """
    if not len(private):
        return np.zeros(0, dtype=np.int64)
    x, y = private.astype(np.float64), texts.astype(np.float64)
    lengths = (y * y).sum(axis=1)
    product = lengths - 2 * x @ y.T
    slack = _SLACK * ((x * x).sum(axis=1) + lengths.max())
    close = product <= (product.min(axis=1) + slack)[:, None]
    nearest: NDArray[np.int64] = close.argmax(axis=1)
    for row in np.flatnonzero(close.sum(axis=1) > 1):
        positions = np.flatnonzero(close[row])
        nearest[row] = positions[((y[positions] - x[row]) ** 2).sum(axis=1).argmin()]
    return nearest


def count_votes(private: Vectors, texts: Vectors) -> Counts:
    """Return how many private vectors have each text as their nearest.

    >>> texts = np.array([[0, 0], [3, 0], [3, 0]], dtype=np.float32)
    >>> count_votes(np.array([[1, 0], [2, 0], [9, 9]], dtype=np.float32), texts).tolist()
    [1.0, 2.0, 0.0]
    """
    return np.bincount(nearest_texts(private, texts), minlength=len(texts)).astype(np.float64)


def noised(counts: Counts, sigma: float, rng: np.random.Generator) -> Counts:
    """Add noise to every bin and set negatives to 0; σ = 0 means no noise."""
    total = counts + rng.normal(0.0, sigma, len(counts)) if sigma else counts
    return np.maximum(total, 0.0)


def ranked(counts: Counts, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return the bins from most to fewest votes, ties in random order.

    So texts of a class without votes are chosen at random.
    """
    return np.lexsort((rng.random(len(counts)), -counts))


def vectors_of(encoder: Encoder, texts: Sequence[str], store: Store | None) -> Vectors:
    """Encode private texts, through the audit's store where there is one."""
    if not texts:
        return np.zeros((0, 1), dtype=np.float32)
    return encoder.encode(texts) if store is None else encode_once(encoder, texts, store)


Quota = Mapping[Labels, int]


@dataclass(frozen=True)
class Population:
    """The texts of one instance with their vectors: `labels[t]` is the class of text t."""

    labels: tuple[Labels, ...]
    texts: tuple[str, ...] = field(repr=False)
    vectors: Vectors

    def of_class(self) -> dict[Labels, list[int]]:
        positions: dict[Labels, list[int]] = {}
        for position, labels in enumerate(self.labels):
            positions.setdefault(labels, []).append(position)
        return positions

    def keep(self, positions: Sequence[int]) -> Population:
        return Population(
            tuple(self.labels[position] for position in positions),
            tuple(self.texts[position] for position in positions),
            self.vectors[list(positions)],
        )


def histogram(population: Population, private: Mapping[Labels, Vectors]) -> Counts:
    """Return the number of private records that vote for each text of their class.

    A record whose class is not generated does not vote. Adding a record changes one bin by 1;
    replacing one changes at most two.
    """
    counts = np.zeros(len(population.texts))
    for labels, positions in population.of_class().items():
        if labels in private:
            counts[positions] = count_votes(private[labels], population.vectors[positions])
    return counts


def votes_near(
    population: Population, votes: Counts, asked: Mapping[Labels, Vectors]
) -> dict[Labels, Counts]:
    """Return the noised votes of the text that each vector would vote for; none without a class."""
    return {
        labels: votes[positions][nearest_texts(asked[labels], population.vectors[positions])]
        for labels, positions in population.of_class().items()
        if labels in asked
    }


def survivors(
    population: Population, votes: Counts, quota: Quota, rng: np.random.Generator
) -> list[int]:
    """Return the selected texts: of each class its quota, those with most noised votes.

    Ties, zeros included, are broken at random, so a class without votes is selected from like any
    other.
    """
    going: list[int] = []
    for labels, positions in population.of_class().items():
        order = ranked(votes[positions], rng)[: quota[labels]]
        going += [positions[rank] for rank in order]
    return going
