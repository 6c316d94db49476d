"""The deployable AUC: choose on four folds, evaluate on the fifth (docs/method.md §8).

Scores of different proxies are never pooled: each fold has its own AUC, by the proxy chosen on the
other folds, and the deployable AUC is their mean. For a pool, a fold is a part of the members and
of the others (instances; records where there is one release). Every fold needs only the wins of
each member over each other unit, so they are counted once per assignment and summed by blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.crossfit.folds import Deployable
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.roc import FPR_LIMIT
from synthleak.metrics.types import Groups, Ints, Signals, Singles


@dataclass(frozen=True)
class Wins:
    """`doubled[signal, member, other]`: twice the rounds a member outscores a unit, ties once.

    Whole numbers, so that sums over folds are exact. `mass[other]` is the total weight of a unit's
    rounds, `signals` the distinct signals that were counted.
    """

    doubled: Singles
    mass: Floats
    signals: Signals


def wins_of(
    ranks: Ranks, assignment: Assignment, targets: int, record_weight: Floats | None = None
) -> Wins:
    """Count the wins of every member over every other unit, for each distinct signal.

    `record_weight[target]` counts the non-members of a unit by record, to resample records.
    """
    cells, weight = _distinct_others(assignment)
    if record_weight is not None:
        weight = weight * record_weight[cells % targets].astype(np.uint16)
    signals = ranks.distinct
    low = ranks.low.astype(np.int16) if ranks.low.shape[1] < 2**15 else ranks.low
    member = low[np.ix_(signals, assignment.members)][:, :, None]
    doubled = np.zeros((len(signals), len(assignment.members), len(cells)), dtype=np.uint16)
    for k in range(cells.shape[1]):
        other = low[np.ix_(signals, cells[:, k])][:, None, :]
        better = (member > other).view(np.uint8)
        better += (member >= other).view(np.uint8)
        doubled += better * weight[:, k]
    return Wins(doubled.astype(np.float32), weight.sum(axis=1, dtype=np.float64), signals)


def _distinct_others(assignment: Assignment) -> tuple[Ints, NDArray[np.uint16]]:
    """Return each unit's distinct cells, padded, and the number of rounds that drew each."""
    ordered = np.sort(assignment.others.T, axis=1)
    changed = np.ones_like(ordered, dtype=np.bool_)
    changed[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    slot = changed.cumsum(axis=1) - 1
    width = int(slot.max()) + 1
    cells = np.repeat(ordered[:, :1], width, axis=1)
    counts = np.zeros((len(ordered), width), dtype=np.uint16)
    rows = np.broadcast_to(np.arange(len(ordered))[:, None], ordered.shape)
    cells[rows, slot] = ordered
    np.add.at(counts, (rows, slot), 1)
    return cells, counts


def fold_aucs(
    wins: Wins, inside: tuple[Singles, Singles], weight: tuple[Floats, Floats] | None = None
) -> tuple[Floats, Floats]:
    """Return (AUC without the fold, AUC in the fold) as [signal, repeat, fold].

    `inside` places members and other units into folds; `weight` is how often each was drawn.
    An empty fold is NaN.
    """
    rows, columns = inside
    row_weight, column_weight = weight or (np.ones(len(rows)), np.ones(len(columns)))
    rows = rows * row_weight.astype(np.float32)[:, None, None]
    columns = columns * column_weight.astype(np.float32)[:, None, None]
    repeats, folds = rows.shape[1:]
    signals, members, others = wins.doubled.shape
    right = wins.doubled.reshape(-1, others) @ columns.reshape(others, -1)
    right = right.reshape(signals, members, repeats, folds)
    blocks = np.matmul(rows.transpose(1, 2, 0), right.transpose(0, 2, 1, 3)).astype(np.float64)
    row_mass = rows.sum(axis=0, dtype=np.float64)
    column_mass = (columns * wins.mass[:, None, None]).sum(axis=0)
    diagonal = np.arange(folds)
    held = blocks[:, :, diagonal, diagonal]
    rest = blocks.sum(axis=(2, 3))[..., None] - blocks.sum(axis=3) - blocks.sum(axis=2) + held
    rest_mass = (row_mass.sum(1, keepdims=True) - row_mass) * (
        column_mass.sum(1, keepdims=True) - column_mass
    )
    return ratio(rest, 2 * rest_mass), ratio(held, 2 * row_mass * column_mass)


def ratio(part: Floats, whole: Floats) -> Floats:
    """Return part / whole, NaN where there is nothing to divide by."""
    result: Floats = np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 1e-12)
    return result


def mean_known(values: Floats) -> Floats:
    """Return the mean over the last axis; empty folds (NaN) do not count."""
    known = np.isfinite(values)
    return ratio(np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1).astype(np.float64))


def crossfit(
    ranks: Ranks,
    assignment: Assignment,
    targets: int,
    groups: Groups,
    inside: tuple[Singles, Singles] | None,
) -> Deployable | None:
    """Cross-fit one assignment, for every group of signals; None where there are no folds."""
    if inside is None:
        return None
    wins = wins_of(ranks, assignment, targets)
    rest, held = fold_aucs(wins, inside)
    choices = [choose_in_folds(rest, wins.signals, ranks, group) for group in groups]
    aucs = [float(np.nanmean(take_chosen(held, chosen))) for chosen in choices]
    rates = _held_tpr(ranks, assignment, wins.signals, choices, inside)
    return Deployable(np.asarray(aucs), rates)


def choose_in_folds(rest: Floats, signals: Signals, ranks: Ranks, group: Signals) -> Signals:
    """Return the place in `signals` of each fold's best signal of a group, first on ties."""
    places = np.unique(np.searchsorted(signals, ranks.same[group]))
    best = np.nan_to_num(rest[places], nan=-1.0).round(9).argmax(axis=0)
    chosen: Signals = places[best]
    return chosen


def take_chosen(held: Floats, chosen: Signals) -> Floats:
    """Return the held-out value of each fold's chosen signal."""
    taken: Floats = np.take_along_axis(held, chosen[None], axis=0)[0]
    return taken


def _held_tpr(
    ranks: Ranks,
    assignment: Assignment,
    signals: Signals,
    choices: Sequence[Signals],
    inside: tuple[Singles, Singles],
) -> Floats:
    """Return TPR at 5% FPR within folds, rounds pooled, since a fold has few units per round."""
    rows, columns = inside
    cells, weight = _distinct_others(assignment)
    share = weight / np.float32(len(assignment.others))
    hits = np.zeros((len(choices), *choices[0].shape))
    for place in np.unique(choices):
        low = ranks.low[signals[place]]
        reach = low[cells] >= low[assignment.members][:, None, None]
        reached = np.einsum("mok,ok->mo", reach, share)
        rate = (reached @ columns.reshape(len(columns), -1)).reshape(-1, *hits.shape[1:])
        found = ((rate <= (FPR_LIMIT + 1e-6) * columns.sum(axis=0)) * rows).sum(axis=0)
        hits += np.where(np.stack(choices) == place, found, 0.0)
    result: Floats = (hits / rows.sum(axis=0)).mean(axis=(1, 2))
    return result
