"""Which members one release gives away, each against the holdout (docs/method.md §11).

With one release a record cannot be compared with itself. What can be said of a member is how many
groups that were never in hold a record that scores as high. The signal is chosen on one half of the
records, by its tail, and used on the other, so that no record helps to choose what it is measured
by. What was drawn into the members is a group, so p-values and false discoveries count groups: a
person with many records that are alike is one stroke of luck, not many.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.member_comparison import split_folds
from synthleak.metrics.membership import Assignment, ranks_of
from synthleak.metrics.null import SLACK, false_discovery_rates
from synthleak.metrics.types import Bools, Ints, Rng
from synthleak.metrics.verdict_statistics import AUC, TAIL, pool_statistics

NAMING_VERSION = 1
QUARTILES = (0.25, 0.5, 0.75)
LEAST_HELD_OUT = 50
"""Held-out records of one half that a stratum of lengths needs: 100 of both halves."""
CENTRE, TOP = 0.5, 0.9
"""The points of held-out scores that are 0 and 1 once scores are made comparable over lengths."""


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
        rng: draws the halves.
        group: what was drawn as a whole, per target; without it each target was drawn alone.
        words: the length of each target; scores are then compared within strata of length.
    """
    group = np.arange(len(member)) if group is None else np.unique(group, return_inverse=True)[1]
    halves = list(_halves(values, member, rng, group, words))
    score = np.where(halves[0][0], halves[0][2], halves[1][2])
    share, p, q = np.ones((3, len(member)))
    for side, _, _ in halves:
        held_out = np.sort(score[side & ~member])
        below, upto = (
            np.searchsorted(held_out, score[side], side=end) for end in ("left", "right")
        )
        share[side] = (below + upto) / (2 * max(len(held_out), 1))
    n_groups = len(np.unique(group[member]))
    n_held_out = [len(np.unique(group[side & ~member])) for side, _, _ in halves]
    above = np.zeros(len(member))  # by group: the p-value of the record one place higher
    for tier in _tiers(score, member, group):
        for (side, _, _), count in zip(halves, n_held_out, strict=True):
            at, others = (tier[(side & one)[tier]] for one in (member, ~member))
            below = np.searchsorted(np.sort(score[others]), score[at], side="left")
            p[at] = np.maximum((1 + len(others) - below) / (1 + count), above[group[at]])
            above[group[at]] = p[at]
        at = tier[member[tier]]
        q[at] = false_discovery_rates(p[at], n_groups)
    targets = np.flatnonzero(member)
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
    ends = np.cumsum(np.bincount(rank_in_group))
    return np.split(np.argsort(rank_in_group, kind="stable"), ends[:-1])


def naming_signals(
    values: Floats,
    member: Bools,
    rng: Rng,
    group: Ints | None = None,
    words: Ints | None = None,
) -> Ints:
    """Return by which signal `member_p_values` scores each target; same arguments, same draw."""
    signals = np.zeros(len(member), dtype=np.int64)
    for side, chosen, _ in _halves(values, member, rng, group, words):
        signals[side] = chosen
    return signals


def _halves(
    values: Floats, member: Bools, rng: Rng, group: Ints | None, words: Ints | None
) -> Iterator[tuple[Bools, int, Floats]]:
    """Yield each half of the records, the signal that the other half chooses, and its scores."""
    half = split_folds(len(member), 2, rng, 1, group)[:, 0, 0] > 0
    for side in (half, ~half):
        comparable = values if words is None else _comparable(values, words, ~side & ~member)
        chosen = _best_tail(comparable[~side], member[~side])
        yield side, chosen, comparable[:, chosen]


def _comparable(values: Floats, words: Ints, reference: Bools) -> Floats:
    """Return scores relative to those of `reference` records that are about as long.

    Short texts recur everywhere and score high without having been in; their scores also vary more.
    """
    stratum = length_strata(words, reference)
    if not stratum.any():
        return values
    scaled = np.empty_like(values)
    for name in np.unique(stratum):
        inside = stratum == name
        known = values[inside & reference]
        centre, top = np.quantile(known, (CENTRE, TOP), axis=0)
        scale = np.where(top - centre > SLACK, top - centre, known.std(axis=0))
        scaled[inside] = (values[inside] - centre) / np.where(scale > SLACK, scale, 1.0)
    return scaled


def length_strata(words: Ints, counted: Bools) -> Ints:
    """Number strata of length: quartiles, merged until each holds enough `counted` records.

    >>> words = np.repeat([5, 10, 20, 80], 60)
    >>> np.bincount(length_strata(words, words > 0)).tolist()
    [60, 60, 60, 60]
    >>> np.bincount(length_strata(words, words > 5)).tolist()
    [120, 60, 60]
    """
    cuts = np.unique(np.quantile(words, QUARTILES)).tolist()
    while cuts:
        counts = np.bincount(np.searchsorted(cuts, words[counted]), minlength=len(cuts) + 1)
        least = int(counts.argmin())
        if counts[least] >= LEAST_HELD_OUT:
            break
        before = least > 0 and (least == len(cuts) or counts[least - 1] <= counts[least + 1])
        del cuts[least - before]
    return np.searchsorted(cuts, words)


def _best_tail(values: Floats, member: Bools) -> int:
    """Return the signal with the largest tail, ties by AUC, then in catalogue order."""
    assignment = Assignment(np.flatnonzero(member), np.flatnonzero(~member)[None])
    auc, tail = pool_statistics(ranks_of(values), [assignment], (AUC, TAIL)).values
    return int(np.lexsort((-auc[0], -tail[0]))[0])
