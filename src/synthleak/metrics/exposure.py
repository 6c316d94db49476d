"""Which members one release gives away, each against the holdout (METHOD §11).

With one release a record cannot be compared with itself. What can be said of a member is how many
records that were never in score as high. The signal is chosen on one half of the records, by its
tail, and used on the other, so that no record helps to choose what it is measured by: then
p = (1 + #{holdout ≥ x}) / (1 + holdout) is a p-value for "x scores like a record that was not in",
and false discoveries can be controlled.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.dealt import Dealt
from synthleak.metrics.pooled import pooled_pair
from synthleak.metrics.ranks import ranks_of

Ints = NDArray[np.int64]


def member_p_values(
    values: Floats, member: NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Ints, Floats, Floats]:
    """Return (targets, share of the holdout that each outscores, p), the most exposed first.

    `values[target, signal]`; only members are returned. A half without a holdout says nothing.
    """
    half = rng.permutation(np.arange(len(member)) % 2).astype(np.bool_)
    found: list[tuple[Ints, Floats, Floats]] = []
    for side in (half, ~half):
        chosen = _best_tail(values[~side], member[~side])
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


def _best_tail(values: Floats, member: NDArray[np.bool_]) -> int:
    """Return the signal with the largest tail, ties by AUC, then in catalogue order."""
    hand = Dealt(np.flatnonzero(member), np.flatnonzero(~member)[None])
    pair = pooled_pair(ranks_of(values), [hand])
    return int(np.lexsort((-pair.level[0], -pair.tail[0]))[0])
