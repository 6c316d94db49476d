"""A population: texts by class, what private records say of them, and who survives.

The quota of a class is how many texts of it the release will hold, drawn from the public prior. Its
population is L times that. Private records are seen through their votes alone (docs/method.md
§5.2).
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
        """Return where the texts of each class stand."""
        places: dict[Labels, list[int]] = {}
        for place, labels in enumerate(self.labels):
            places.setdefault(labels, []).append(place)
        return places

    def keep(self, places: Sequence[int]) -> Population:
        """Return the population of these texts alone."""
        return Population(
            tuple(self.labels[place] for place in places),
            tuple(self.texts[place] for place in places),
            self.vectors[list(places)],
        )


def histogram(population: Population, private: Mapping[Labels, Vectors]) -> Counts:
    """Return how many private records voted for each text, each within its class.

    A record whose class is not generated has nothing to vote for. Adding a record moves one bin by
    1; replacing one moves at most two.
    """
    counts = np.zeros(len(population.texts))
    for labels, places in population.of_class().items():
        if labels in private:
            counts[places] = count_votes(private[labels], population.vectors[places])
    return counts


def survivors(
    population: Population, counts: Counts, quota: Quota, sigma: float, rng: np.random.Generator
) -> list[int]:
    """Return the texts that go on: of each class its quota, those with most noised votes.

    Every bin gets noise and negatives are cut. Ties, zeros among them, are broken at random, so a
    class that nobody voted for goes on like any other.
    """
    votes = noised(counts, sigma, rng)
    going: list[int] = []
    for labels, places in population.of_class().items():
        order = ranked(votes[places], rng)[: quota[labels]]
        going += [places[position] for position in order]
    return going
