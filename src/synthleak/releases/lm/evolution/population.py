"""A population of texts by class, the votes of private records, and selection.

The quota of a class is the number of its texts in the release, drawn from the public prior. Its
population is L times that. Private records are used through their votes only (docs/method.md §5.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from synthleak.corpus.corpus import Labels
from synthleak.encoders.encoder import Vectors
from synthleak.releases.lm.prompting.votes import Counts, count_votes, noised, ranked

Quota = Mapping[Labels, int]


@dataclass(frozen=True)
class Population:
    """The texts of one instance with their vectors: `labels[t]` is the class of text t."""

    labels: tuple[Labels, ...]
    texts: tuple[str, ...] = field(repr=False)
    vectors: Vectors

    def of_class(self) -> dict[Labels, list[int]]:
        """Return the places of the texts of each class."""
        places: dict[Labels, list[int]] = {}
        for place, labels in enumerate(self.labels):
            places.setdefault(labels, []).append(place)
        return places

    def keep(self, places: Sequence[int]) -> Population:
        """Return the population of these texts."""
        return Population(
            tuple(self.labels[place] for place in places),
            tuple(self.texts[place] for place in places),
            self.vectors[list(places)],
        )


def histogram(population: Population, private: Mapping[Labels, Vectors]) -> Counts:
    """Return the number of private records that vote for each text of their class.

    A record whose class is not generated does not vote. Adding a record changes one bin by 1;
    replacing one changes at most two.
    """
    counts = np.zeros(len(population.texts))
    for labels, places in population.of_class().items():
        if labels in private:
            counts[places] = count_votes(private[labels], population.vectors[places])
    return counts


def survivors(
    population: Population, counts: Counts, quota: Quota, sigma: float, rng: np.random.Generator
) -> list[int]:
    """Return the selected texts: of each class its quota, those with most noised votes.

    Every bin gets noise, and negatives become 0. Ties, zeros included, are broken at random, so a
    class without votes is selected from like any other.
    """
    votes = noised(counts, sigma, rng)
    going: list[int] = []
    for labels, places in population.of_class().items():
        order = ranked(votes[places], rng)[: quota[labels]]
        going += [places[position] for position in order]
    return going
