"""Pool rules: what a rule may look at, and what it selects or writes (docs/method.md §3)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synthleak.core.errors import PoolError
from synthleak.core.registry import Plugin, PluginRegistry
from synthleak.core.unit import Unit
from synthleak.corpus.corpus import Corpus, Record
from synthleak.encoders.encoder import Vectors
from synthleak.pools.persons import Persons

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Ground:
    """What a rule may look at when it selects.

    Where an audit asks about `persons`, a rule still selects records, and every person who owns one
    of them is selected. The first record of a person stands for the person.
    """

    corpus: Corpus
    vectors: Callable[[], Vectors]
    earlier: Mapping[str, Sequence[int]]
    rng: np.random.Generator
    persons: Persons | None = None

    @property
    def unit(self) -> Unit:
        """What is selected."""
        return "record" if self.persons is None else "person"

    @property
    def everybody(self) -> Sequence[int]:
        """What can be selected: every record, or the first record of every person."""
        return range(len(self.corpus)) if self.persons is None else self.persons.first


class Rule(Plugin):
    """Selects targets: `select(ground) -> positions`."""

    def count(self) -> int:
        """Return how many pools one section makes: more than one only for random controls."""
        return 1

    @property
    def uses_vectors(self) -> bool:
        """Whether the pool encoder is part of what the selection was made from."""
        return False

    @abstractmethod
    def select(self, ground: Ground) -> Sequence[int]:
        """Return the positions of the selected records."""

    def origins(self, targets: Sequence[int], ground: Ground) -> Sequence[str] | None:
        """Return which earlier pool each target came from; none for a pool of its own."""
        return None


@dataclass(frozen=True)
class Material:
    """What a rule may write targets from: R, and the records that they must not resemble."""

    corpus: Corpus
    auxiliary: Sequence[Record]
    others: Sequence[Record]
    rng: np.random.Generator


class Writer(Rule):
    """A rule that writes its targets: no record of the corpus is one (docs/method.md §13)."""

    size: int = Field(default=60, ge=2, description="how many are written")
    repeats: int = Field(default=1, ge=1, le=64, description="copies that are in where one is in")

    def select(self, ground: Ground) -> Sequence[int]:
        """Return the positions of what will be written: those that follow all others."""
        if self.size > len(ground.corpus):
            raise PoolError(
                f"size = {self.size:,}, and the corpus has {len(ground.corpus):,} records",
                remedy="write fewer",
            )
        taken = [position for pool in ground.earlier.values() for position in pool]
        first = max([len(ground.corpus) - 1, *taken]) + 1
        return range(first, first + self.size)

    @abstractmethod
    def write(self, material: Material) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Return `size` texts with labels. No coin was tossed so far, so none depends on one."""


class Filter(Rule):
    """A rule that looks for matching records and keeps at most `size` of them.

    Which ones it keeps: the most extreme, if the rule says how extreme each match is; otherwise a
    uniform draw (docs/method.md §3).
    """

    size: int | None = Field(
        default=None,
        ge=1,
        description="at most this many: the most extreme where the rule ranks, else a draw by seed",
    )

    def select(self, ground: Ground) -> Sequence[int]:
        """Return the matching records, or the persons who own one, at most `size` of them."""
        found = self.matches(ground)
        if ground.persons is not None:
            found = (
                ground.persons.extremes(found)
                if isinstance(found, Mapping)
                else ground.persons.who_own(found)
            )
        return cap(found, self.size, ground.rng)

    @abstractmethod
    def matches(self, ground: Ground) -> Sequence[int] | Mapping[int, float]:
        """Return the positions of all records that match.

        A mapping also says how extreme each one is: the larger, the sooner `size` keeps it.
        """


rules: PluginRegistry[Rule] = PluginRegistry("pool rule", "synthleak.pools.rules")
"""Registers the decorated class: `@rules.register(name, version=1)`."""


def cap(
    found: Sequence[int] | Mapping[int, float], size: int | None, rng: np.random.Generator
) -> list[int]:
    """Keep at most `size` of the found records, in corpus order.

    A mapping says how extreme each record is: the largest values are kept, and a draw decides
    between equal ones. Without it all are drawn uniformly.

    >>> cap({3: 1.0, 5: 9.0, 7: 2.0}, 2, np.random.default_rng(1))
    [5, 7]
    """
    positions = sorted(found)
    if size is None or len(positions) <= size:
        return positions
    if not isinstance(found, Mapping):
        return sorted(int(x) for x in rng.choice(np.asarray(found), size, replace=False))
    drawn = [positions[place] for place in rng.permutation(len(positions))]
    return sorted(sorted(drawn, key=lambda position: -found[position])[:size])


def mean_ranks(*measures: NDArray[Any]) -> Floats:
    """Return the mean rank of each record over the measures, among all records of the corpus.

    Values are rounded first, so that the last digits of a sum cannot order equal records.

    >>> mean_ranks(np.array([5, 7, 7]), np.array([0.3, 0.2, 0.1]))
    array([2.  , 2.25, 1.75])
    """
    from scipy.stats import rankdata

    ranks: Floats = np.mean([rankdata(np.round(values, 9)) for values in measures], axis=0)
    return ranks
