"""Which members one release gives away, each against the holdout (docs/method.md §11).

What a fifth of the members is scored by is chosen by the other members, against that fifth and the
holdout as one. What was drawn into the members is a group, so p-values and false discoveries count
groups: a person with many records that are alike is one stroke of luck, not many.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.member_comparison import FOLDS, split_folds
from synthleak.metrics.null import SLACK, false_discovery_rates
from synthleak.metrics.types import Bools, Ints, Rng

NAMING_VERSION = 3
STRONGEST = 5
"""Signals whose mean scores a member, at most."""
TAIL = 0.05
"""Signals are chosen by how often members reach the highest scores of others, this share."""
QUARTILES = (0.25, 0.5, 0.75)
LEAST_COMPARED = 100
"""Records, those of the holdout among them, that a stratum of lengths needs."""
CENTRE, TOP = 0.5, 0.9
"""The points of a stratum's scores that are 0 and 1 once scores are made comparable."""


def member_p_values(
    values: Floats,
    member: Bools,
    rng: Rng,
    group: Ints | None = None,
    words: Ints | None = None,
) -> tuple[Ints, Floats, Floats, Floats]:
    """Return (targets, share of the holdout that each outscores, p, q), the most exposed first.

    Only members are returned. The record that scores k-th highest in its group is compared with the
    k-th highest of every held-out group, and q is the false-discovery rate among k-th records over
    all groups of members (docs/method.md §11).

    Args:
        values: scores as [target, signal].
        member: who was in.
        rng: divides the members into fifths.
        group: what was drawn as a whole, per target; without it each target was drawn alone.
        words: the length of each target; scores are then compared within strata of length.
    """
    group = np.arange(len(member)) if group is None else np.unique(group, return_inverse=True)[1]
    held_out, targets = ~member, np.flatnonzero(member)
    groups, others = (len(np.unique(group[side])) for side in (member, held_out))
    share, p, q = np.ones((3, len(member)))
    rank_in_group = np.zeros(len(member), dtype=np.int64)
    above = np.zeros(len(member))  # by group: the p-value of the record one place higher
    for tested, _, score in _parts(values, member, rng, group, words):
        compared = np.flatnonzero(tested | held_out)
        known = np.sort(score[held_out])
        below, upto = (np.searchsorted(known, score[tested], side=end) for end in ("left", "right"))
        share[tested] = (below + upto) / (2 * max(len(known), 1))
        for rank, places in enumerate(_tiers(score[compared], member[compared], group[compared])):
            tier = compared[places]
            at, kth = tier[member[tier]], np.sort(score[tier[held_out[tier]]])
            as_high = len(kth) - np.searchsorted(kth, score[at], side="left")
            p[at] = np.maximum((1 + as_high) / (1 + others), above[group[at]])
            above[group[at]], rank_in_group[at] = p[at], rank
    for places in _by_rank(rank_in_group[targets]):
        q[targets[places]] = false_discovery_rates(p[targets[places]], groups)
    order = targets[np.lexsort((targets, -share[targets], p[targets], q[targets]))]
    return order, share[order], p[order], q[order]


def _tiers(score: Floats, member: Bools, group: Ints) -> list[Ints]:
    """Return the targets that score highest in their group, then those that are second, and so on.

    Members of a group and held-out targets of it are counted apart.
    """
    order = np.lexsort((-score, group, member))
    key = (2 * group + member)[order]
    first = np.concatenate([[0], np.flatnonzero(np.diff(key)) + 1])
    rank_in_group = np.empty(len(order), dtype=np.int64)
    rank_in_group[order] = np.arange(len(order)) - np.repeat(first, np.diff([*first, len(order)]))
    return _by_rank(rank_in_group)


def _by_rank(rank: Ints) -> list[Ints]:
    """Return the places of each rank, from the lowest."""
    ends = np.cumsum(np.bincount(rank))
    return np.split(np.argsort(rank, kind="stable"), ends[:-1])


def naming_signals(
    values: Floats,
    member: Bools,
    rng: Rng,
    group: Ints | None = None,
    words: Ints | None = None,
) -> Ints:
    """Return which signal weighs most in the score of each target; same arguments, same draw.

    Held-out targets, which every fifth of the members is compared with, have that of the first.
    """
    leading = np.full(len(member), -1)
    for tested, strongest, _ in _parts(values, member, rng, group, words):
        leading[tested | (leading < 0)] = strongest
    return leading


def _parts(
    values: Floats, member: Bools, rng: Rng, group: Ints | None, words: Ints | None
) -> Iterator[tuple[Bools, int, Floats]]:
    """Yield each fifth of the members, the signal that weighs most for it, and its scores.

    The other members choose: a signal weighs as much as their tail in it exceeds that of chance.
    """
    targets = np.flatnonzero(member)
    units = None if group is None else group[targets]
    fold = split_folds(len(targets), FOLDS, rng, 1, units)[:, 0].argmax(axis=1)
    for number in np.unique(fold):
        tested = np.zeros(len(member), dtype=np.bool_)
        tested[targets[fold == number]] = True
        choosing, compared = member & ~tested, tested | ~member
        strata = length_strata(np.zeros(len(member)) if words is None else words, compared)
        columns = (_comparable(column, compared, strata) for column in values.T)
        excess = np.array([_excess(column[choosing], column[compared]) for column in columns])
        strongest = np.argsort(-excess, kind="stable")[:STRONGEST]
        weights = np.maximum(excess[strongest], 0)
        if not weights.any():
            weights[0] = 1.0
        score = np.zeros(len(member))
        for signal, weight in zip(strongest, weights, strict=True):
            score += weight * _comparable(values[:, signal], compared, strata)
        yield tested, int(strongest[0]), score


def _excess(members: Floats, others: Floats) -> float:
    """Return by how much the tail of members is larger than chance has it (docs/method.md §8.2)."""
    if not len(members):
        return 0.0
    known = np.sort(others)
    reached = 1 - np.searchsorted(known, members, side="left") / len(known)
    return float(np.maximum(1 - reached / TAIL, 0).mean()) - TAIL / 2


def _comparable(column: Floats, compared: Bools, strata: Ints) -> Floats:
    """Return the scores of a signal relative to those `compared` that are about as long.

    Short texts recur everywhere and score high without having been in; their scores also vary more.
    """
    scaled = np.empty_like(column)
    for name in np.unique(strata):
        inside = strata == name
        known = column[inside & compared]
        centre, top = np.quantile(known, (CENTRE, TOP))
        scale = top - centre if top - centre > SLACK else known.std()
        scaled[inside] = (column[inside] - centre) / (scale if scale > SLACK else 1.0)
    return scaled


def length_strata(words: Ints | Floats, counted: Bools) -> Ints:
    """Number strata of length: quartiles, merged until each holds enough `counted` records.

    >>> words = np.repeat([5, 10, 20, 80], 120)
    >>> np.bincount(length_strata(words, words > 0)).tolist()
    [120, 120, 120, 120]
    >>> np.bincount(length_strata(words, words > 5)).tolist()
    [240, 120, 120]
    """
    cuts = np.unique(np.quantile(words, QUARTILES)).tolist()
    while cuts:
        counts = np.bincount(np.searchsorted(cuts, words[counted]), minlength=len(cuts) + 1)
        least = int(counts.argmin())
        if counts[least] >= LEAST_COMPARED:
            break
        before = least > 0 and (least == len(cuts) or counts[least - 1] <= counts[least + 1])
        del cuts[least - before]
    return np.searchsorted(cuts, words)
