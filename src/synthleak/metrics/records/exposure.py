"""Which members one release gives away, each against the holdout (docs/method.md §11).

With one release a record cannot be compared with itself. What can be said of a member is how many
records that were never in score as high. The signal is chosen on one half of the records, by its
tail, and used on the other, so that no record helps to choose what it is measured by: then
p = (1 + #{holdout ≥ x}) / (1 + holdout) is a p-value for "x scores like a record that was not in",
and false discoveries can be controlled.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.crossfit.folds import split_folds
from synthleak.metrics.ranks import ranks_of
from synthleak.metrics.statistics.pool import pool_statistics
from synthleak.metrics.statistics.table import AUC, TAIL
from synthleak.metrics.types import Bools, Ints, Rng


def member_p_values(
    values: Floats, member: Bools, rng: Rng, group: Ints | None = None
) -> tuple[Ints, Floats, Floats]:
    """Return (targets, share of the holdout that each outscores, p), the most exposed first.

    `values[target, signal]`; only members are returned. A half without a holdout says nothing.
    Records of one `group[target]` are in the same half.
    """
    found: list[tuple[Ints, Floats, Floats]] = []
    for side, chosen in _halves(values, member, rng, group):
        inside, others = side & member, np.sort(values[side & ~member, chosen])
        scores = values[inside, chosen]
        below = np.searchsorted(others, scores, side="left")
        upto = np.searchsorted(others, scores, side="right")
        share = (below + upto) / (2 * max(len(others), 1))
        p = (1 + len(others) - below) / (1 + len(others))
        found.append((np.flatnonzero(inside), share, p))
    targets, share, p = (np.concatenate(parts) for parts in zip(*found, strict=True))
    order = np.lexsort((targets, -share, p))
    return targets[order], share[order], p[order]


def naming_signals(values: Floats, member: Bools, rng: Rng, group: Ints | None = None) -> Ints:
    """Return by which signal `member_p_values` scores each target; same arguments, same draw."""
    signals = np.zeros(len(member), dtype=np.int64)
    for side, chosen in _halves(values, member, rng, group):
        signals[side] = chosen
    return signals


def _halves(
    values: Floats, member: Bools, rng: Rng, group: Ints | None
) -> Iterator[tuple[Bools, int]]:
    """Yield each half of the records with the signal that the other half chooses for it."""
    half = split_folds(len(member), 2, rng, 1, group)[:, 0, 0] > 0
    for side in (half, ~half):
        yield side, _best_tail(values[~side], member[~side])


def _best_tail(values: Floats, member: Bools) -> int:
    """Return the signal with the largest tail, ties by AUC, then in catalogue order."""
    assignment = Assignment(np.flatnonzero(member), np.flatnonzero(~member)[None])
    auc, tail = pool_statistics(ranks_of(values), [assignment], (AUC, TAIL)).values
    return int(np.lexsort((-auc[0], -tail[0]))[0])
