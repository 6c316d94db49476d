"""Persons: who owns which records, where an audit asks about persons (docs/method.md §15)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from synthleak.core.errors import PoolError
from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Corpus
from synthleak.pools.groups import groups_of


@dataclass(frozen=True)
class Persons:
    """The persons of a corpus, in the order of their first records.

    `records` are those of each person that take part, in corpus order: all, or a draw of
    `max_records` where there are more. `owned` are all of them. A person is stood for by the first
    record that takes part.
    """

    records: tuple[tuple[int, ...], ...]
    owned: tuple[tuple[int, ...], ...]

    @cached_property
    def owner(self) -> dict[int, int]:
        """The person that owns each record, also one that takes no part."""
        return {place: number for number, own in enumerate(self.owned) for place in own}

    @property
    def first(self) -> list[int]:
        """The record that stands for each person."""
        return [own[0] for own in self.records]

    def who_own(self, found: Iterable[int]) -> list[int]:
        """Return who owns a found record, each once, in corpus order.

        >>> Persons(((0, 2), (1,)), ((0, 2), (1,))).who_own([2])
        [0]
        """
        return sorted({self.records[self.owner[p]][0] for p in found if p in self.owner})

    def extremes(self, found: Mapping[int, float]) -> dict[int, float]:
        """Return who owns a found record, as extreme as the most extreme one owned.

        >>> Persons(((0, 2), (1,)), ((0, 2), (1,))).extremes({0: 1.0, 1: 5.0, 2: 3.0})
        {0: 3.0, 1: 5.0}
        """
        return {
            first: max(found[place] for place in self.owned[self.owner[first]] if place in found)
            for first in self.who_own(found)
        }


def persons_of(corpus: Corpus, max_records: int, seed: int) -> Persons:
    """Find the persons of a corpus: those of members and holdout, where a split is given.

    Of a person with more than `max_records` records a draw takes part, the same in every pool.
    """
    if all(record.group is None for record in corpus.records):
        raise PoolError(
            "no record says whose it is",
            "game.unit",
            "name the field of the person with corpus.group, or ask about records",
        )
    places: Iterable[int] = range(len(corpus))
    left_out: frozenset[int] = frozenset()
    if corpus.split is not None:
        groups = groups_of(corpus)
        if groups.unit != "group" and groups.torn:
            raise PoolError(
                f"{groups.torn:,} of {groups.several:,} people with several records have them on"
                " both sides, so nobody was in or out as a whole",
                "game.unit",
                'split by whole persons, or ask about records: unit = "record"',
            )
        places, left_out = corpus.split.positions("members", "holdout"), groups.left_out
    owned: dict[str, list[int]] = {}
    for place in places:
        if place not in left_out:
            owned.setdefault(corpus.person_names[place], []).append(place)
    rng = stream(seed, "persons")
    kept = [
        own
        if len(own) <= max_records
        else sorted(own[i] for i in rng.permutation(len(own))[:max_records].tolist())
        for own in owned.values()
    ]
    return Persons(tuple(map(tuple, kept)), tuple(map(tuple, owned.values())))
