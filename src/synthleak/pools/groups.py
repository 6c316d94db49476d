"""Groups in a given split: which records were drawn together (docs/method.md §11).

If whole groups were drawn, the null must permute whole groups. If single records were drawn, it
must permute single records. Which of the two it was shows in the torn groups, those with records on
both sides: none, or a few by mistake, in the first case; about as many as chance tears in the
second. Where both fit, because chance would tear few, either is permuted and the larger p counts.
Where neither fits, it is a split that nobody can permute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from synthleak.corpus.corpus import Corpus

FEW_TORN = 0.05
"""Of the groups with several records, how many may be torn by mistake and are left out."""
REACH = 3.29
"""Standard deviations within which a count agrees with chance: 999 times in 1,000."""


@dataclass(frozen=True)
class Groups:
    """How the groups of a split lie over members and holdout.

    `unit` is what was drawn: whole groups, single records, either where both fit, or None where
    neither does. Of `several` groups with two or more records `torn` have records on both sides.
    `left_out` are the positions of the records of torn groups, where whole groups were drawn. Where
    either fits nobody is left out: who is would depend on the split of single records.
    """

    unit: Literal["group", "record", "either"] | None
    several: int
    torn: int
    left_out: frozenset[int] = frozenset()


def groups_of(corpus: Corpus) -> Groups:
    """Find out from the torn groups what the split drew."""
    assert corpus.split is not None
    places: dict[str, list[int]] = {}
    for place in corpus.split.positions("members", "holdout"):
        group = corpus.records[place].group
        if group is not None:
            places.setdefault(group, []).append(place)
    several = [own for own in places.values() if len(own) > 1]
    torn = [own for own in several if len({corpus.split.roles[place] for place in own}) > 1]
    few = len(torn) <= FEW_TORN * len(several)
    by_chance = bool(several) and _as_by_chance(
        [len(own) for own in several],
        len(torn),
        len(corpus.split.positions("members")),
        len(corpus.split.positions("members", "holdout")),
    )
    if few and not by_chance:
        left_out = frozenset(place for own in torn for place in own)
        return Groups("group", len(several), len(torn), left_out)
    unit: Literal["record", "either"] = "either" if few else "record"
    return Groups(unit if by_chance else None, len(several), len(torn))


def _as_by_chance(sizes: Sequence[int], torn: int, members: int, records: int) -> bool:
    """Say whether a split of single records would tear about as many groups of these sizes."""
    from scipy.stats import hypergeom

    # A group of k stays whole if none of its records is a member, or all are.
    rates = [
        1
        - float(
            hypergeom.pmf(0, records, members, size) + hypergeom.pmf(size, records, members, size)
        )
        for size in sizes
    ]
    spread = math.sqrt(sum(rate * (1 - rate) for rate in rates))
    return abs(torn - sum(rates)) <= REACH * spread + 0.5


def blocks_of(corpus: Corpus, targets: Sequence[int]) -> tuple[int, ...]:
    """Number what is permuted: the groups of the targets, or single records.

    A record without a group is its own. Where either was drawn, groups are numbered.
    """
    whole = groups_of(corpus).unit in ("group", "either")
    names: dict[str | int, int] = {}
    keys: list[str | int] = [
        group if whole and (group := corpus.records[target].group) is not None else target
        for target in targets
    ]
    return tuple(names.setdefault(key, len(names)) for key in keys)
