"""Curves for figures: ROC with its null band, sorted V(x) with two (docs/method.md §8, §10).

Bands are pointwise: at each point 95% of redraws lie inside. Under "no leak" each redraw chooses
its best proxy, as the curve itself did. Verdicts come from `null.py`, never from bands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.core.spec import Adjacency
from synthleak.evidence.observation import Floats
from synthleak.metrics.epsilon import claim_roc
from synthleak.metrics.member_comparison import normal_scores
from synthleak.metrics.membership import Assignment, Ranks, choose
from synthleak.metrics.profile import Sides, redrawn, sides_of
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.metrics.types import Ints
from synthleak.releases.claim import Claim

CURVES_VERSION = 2
REDRAWS = 199
BAND = (0.025, 0.975)
TOLERANCE = 0.004
"""How far a thinned curve may lie from the full one: about a pixel."""
LOWEST = 1e-3
"""Where a logarithmic axis of false-positive rates begins."""
GRID: Floats = np.unique(
    np.concatenate([[0.0], np.logspace(-3, 0, 19), np.linspace(0.1, 1.0, 19)]).round(4)
)
"""The false-positive rates at which bands are given."""


def roc_curve(positive: Floats, negative: Floats) -> tuple[Floats, Floats]:
    """Return (FPR, TPR) at every threshold, from none flagged to all; ties make one step.

    The area below the line through these points is the AUC.

    >>> [rates.tolist() for rates in roc_curve(np.array([3.0, 1.0]), np.array([2.0, 1.0]))]
    [[0.0, 0.0, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0]]
    """
    thresholds = np.unique(np.concatenate([positive, negative]))[::-1]
    rates = [
        np.concatenate(
            [[0.0], (len(side) - np.searchsorted(np.sort(side), thresholds)) / len(side)]
        )
        for side in (negative, positive)
    ]
    return rates[0], rates[1]


def read_curve(fpr: Floats, tpr: Floats, at: Floats) -> Floats:
    """Return the TPR of a curve at some false-positive rates; the upper end of a vertical step.

    >>> read_curve(*roc_curve(np.array([3.0, 1.0]), np.array([2.0, 0.0])), GRID[[0, -1]]).tolist()
    [0.5, 1.0]
    """
    last = np.searchsorted(fpr, at, side="right") - 1
    following = np.minimum(last + 1, len(fpr) - 1)
    width = fpr[following] - fpr[last]
    share = np.divide(at - fpr[last], width, out=np.zeros_like(at), where=width > 0)
    return tpr[last] + share * (tpr[following] - tpr[last])


def thinned(x: Floats, y: Floats) -> Ints:
    """Return which points to keep so that the line moves by no more than the tolerance.

    The rule of Douglas and Peucker: a section becomes one line if all its points are close to it.
    """
    keep = np.zeros(len(x), dtype=np.bool_)
    keep[[0, -1]] = True
    sections = [(0, len(x) - 1)]
    while sections:
        start, end = sections.pop()
        if end - start < 2:
            continue
        far = _distances(x[start : end + 1], y[start : end + 1])
        farthest = int(far.argmax())
        if far[farthest] > TOLERANCE:
            keep[start + farthest] = True
            sections += [(start, start + farthest), (start + farthest, end)]
    return np.flatnonzero(keep)


def _distances(x: Floats, y: Floats) -> Floats:
    """Return the distance of each point from the line between the first and the last."""
    dx, dy = x[-1] - x[0], y[-1] - y[0]
    length = dx**2 + dy**2
    along = ((x - x[0]) * dx + (y - y[0]) * dy) / length if length > 0 else np.zeros_like(x)
    along = np.clip(along, 0.0, 1.0)
    return np.asarray(np.hypot(x - x[0] - along * dx, y - y[0] - along * dy))


def drawable(fpr: Floats, tpr: Floats) -> tuple[Floats, Floats]:
    """Thin a ROC curve so that it looks the same on linear and logarithmic axes."""
    decades = np.log10(np.maximum(fpr, LOWEST)) / -np.log10(LOWEST)
    kept = np.union1d(thinned(fpr, tpr), thinned(decades, tpr))
    return fpr[kept], tpr[kept]


@dataclass(frozen=True)
class RocCurve:
    """The ROC curve of a scenario's best proxy, and the band of redraws that choose again.

    `low` and `high` are at the rates of `GRID`; empty where there are no redraws.
    """

    scenario: str
    signal: int
    fpr: tuple[float, ...]
    tpr: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class SortedV:
    """V(x) of the cell's best proxy from the largest down, with both bands at the same places.

    `target` says whose V it is. `null_…` is the band without a leak, `even_…` that of an even leak.
    """

    signal: int
    target: tuple[int, ...]
    v: tuple[float, ...]
    null_low: tuple[float, ...]
    null_high: tuple[float, ...]
    even_low: tuple[float, ...]
    even_high: tuple[float, ...]


@dataclass(frozen=True)
class Curves:
    """All curves of a cell. `allowed_…` is the ROC that the claim allows; empty without a claim."""

    roc: tuple[RocCurve, ...]
    vulnerability: SortedV
    redraws: int
    allowed_fpr: tuple[float, ...] = ()
    allowed_tpr: tuple[float, ...] = ()


def trace(cell: ScoredCell, claim: Claim, *, redraws: int = REDRAWS) -> Curves:
    """Return the curves of a cell."""
    ranks, shape = cell.comparison.ranks, (cell.sets, cell.targets)
    assignments = [cell.observed, *cell.redraws("curves", redraws)]
    level = cell.comparison.statistics(assignments).auc
    chosen = [choose(ranks, assignments, level, group).signal for group in cell.groups]
    # One at a time: all redraws of a large pool would fill the memory.
    sides = (sides_of(a, *shape, within_records=cell.within_records) for a in assignments)
    return Curves(
        tuple(
            _roc(table.scenario, ranks, assignments, signals)
            for table, signals in zip(cell.scores, chosen[:-1], strict=True)
        ),
        _sorted_v(ranks, sides, chosen[-1], shape),
        redraws,
        *allowed(claim, cell.plan.adjacency),
    )


def allowed(claim: Claim, adjacency: Adjacency) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the trade-off curve of a claim, for drawing; empty where nothing is claimed.

    It is stored with the other curves, since accounting takes seconds.
    """
    if not claim.promises:
        return (), ()
    fine = np.unique(np.concatenate([GRID, np.linspace(0, 1, 101)]))
    fpr, tpr = drawable(fine, claim_roc(claim, adjacency, fine))
    return tuple(np.round(fpr, 5).tolist()), tuple(np.round(tpr, 5).tolist())


def _roc(scenario: str, ranks: Ranks, assignments: Sequence[Assignment], chosen: Ints) -> RocCurve:
    def curve(assignment: Assignment, signal: int) -> tuple[Floats, Floats]:
        low = ranks.low[signal].astype(np.float64)
        if not assignment.members.size or not assignment.others.size:
            return np.array([0.0, 1.0]), np.array([0.0, 1.0])
        return roc_curve(low[assignment.members], low[assignment.others].ravel())

    drawn = [
        curve(assignment, signal)
        for assignment, signal in zip(assignments, chosen.tolist(), strict=True)
    ]
    rest = np.array([read_curve(*item, GRID) for item in drawn[1:]])
    low, high = np.quantile(rest, BAND, axis=0) if len(rest) else np.empty((2, 0))
    lines = (*drawable(*drawn[0]), low, high)
    return RocCurve(
        scenario, int(chosen[0]), *(tuple(np.round(line, 5).tolist()) for line in lines)
    )


def _sorted_v(ranks: Ranks, sides: Iterator[Sides], best: Ints, shape: tuple[int, int]) -> SortedV:
    def scores(signal: int) -> Floats:
        return normal_scores(ranks.low[signal], ranks.high[signal]).reshape(shape)

    shown, observed = int(best[0]), next(sides)
    v = redrawn(scores(shown), [observed])[0]
    known = np.flatnonzero(np.isfinite(v))
    order = known[np.argsort(-v[known], kind="stable")]
    mean = float(v[known].mean()) if len(known) else 0.0
    # The mean is moved from the members to the redrawn members, as if all records leaked alike.
    levelled = scores(shown) - mean * observed.joined
    free, even = [], []
    for signal, side in zip(best[1:].tolist(), sides, strict=True):
        free.append(redrawn(scores(signal), [side])[0])
        even.append(redrawn(levelled, [side])[0] + mean)
    bands = [_band(np.array(drawn), len(order)) for drawn in (free, even)]
    return SortedV(
        shown,
        tuple(order.tolist()),
        tuple(np.round(v[order], 5).tolist()),
        *(tuple(np.round(edge, 5).tolist()) for band in bands for edge in band),
    )


def _band(drawn: Floats, places: int) -> tuple[Floats, Floats]:
    """Return the band of sorted V at `places` points, each draw read at the same share of records.

    Draws differ in how many records qualify.
    """
    if not len(drawn) or not places:
        return np.empty(0), np.empty(0)
    at = (np.arange(places) + 0.5) / places
    read = []
    for row in drawn:
        known = np.sort(row[np.isfinite(row)])[::-1]
        if len(known):
            read.append(np.interp(at, (np.arange(len(known)) + 0.5) / len(known), known))
    low, high = np.quantile(read, BAND, axis=0)
    return low, high
