"""One release and many records: the same comparisons without a table of all pairs (METHOD §11).

Ten thousand members against ten thousand others make a hundred million pairs per signal. Sorted
once, running sums of the others by fold tell how many each member outscores in every fold, so that
time grows with the number of records. Values are those of `WholePool`, with two savings: folding is
repeated 4 times (repeats even out the luck of folding, which many records hardly have), and each
dealing chooses among the 12 signals that lead in it, since the others hardly ever win a fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.comparison import Deployable, Spreads, resample
from synthleak.metrics.crossfit import Singles
from synthleak.metrics.dealt import Dealt
from synthleak.metrics.folds import fold_count, split_folds
from synthleak.metrics.ranks import Ranks
from synthleak.metrics.roc import FPR_LIMIT
from synthleak.metrics.selection import Signals
from synthleak.metrics.whole_pool import DRAWS, RESELECTING_DRAWS, WholePool

MANY = 400
"""Records above which a release is compared in this way."""
REPEATS = 4
FINALISTS = 12
_CHUNK = 50

Folds = tuple[Singles, Singles]
Weights = tuple[Floats, Floats]


@dataclass(frozen=True)
class FoldFigures:
    """Of one signal: AUC without each fold, AUC and TPR at 5% FPR in it, as [repeat, fold]."""

    rest: Floats
    held: Floats
    rate: Floats


def fold_figures(
    ranks: Ranks, signal: int, hand: Dealt, inside: Folds, weight: Weights | None = None
) -> FoldFigures:
    """Evaluate a signal in and without every fold; `weight` counts members and others."""
    members, columns = hand.members, hand.others[0]
    rows, other = (side.astype(np.float64) for side in inside)
    if weight is not None:
        rows *= weight[0][:, None, None]
        other *= weight[1][:, None, None]
    repeats, folds = rows.shape[1:]
    running = np.zeros((ranks.low.shape[1] + 1, repeats * folds))
    running[ranks.place[signal, columns] + 1] = other.reshape(len(columns), -1)
    np.cumsum(running, axis=0, out=running)
    whole = running[-1].reshape(repeats, folds)
    below = running[ranks.low[signal, members]].reshape(-1, repeats, folds)
    upto = running[ranks.high[signal, members]].reshape(-1, repeats, folds)
    wins = np.matmul(rows.transpose(1, 2, 0), (below + upto).transpose(1, 0, 2))
    diagonal = np.arange(folds)
    held = wins[:, diagonal, diagonal]
    rest = wins.sum(axis=(1, 2))[:, None] - wins.sum(axis=2) - wins.sum(axis=1) + held
    mass = rows.sum(axis=0, dtype=np.float64)
    left = mass.sum(axis=1, keepdims=True) - mass
    right = whole.sum(axis=1, keepdims=True) - whole
    reached = (whole - below) <= (FPR_LIMIT + 1e-6) * whole
    return FoldFigures(
        rest=_ratio(rest, 2 * left * right),
        held=_ratio(held, 2 * mass * whole),
        rate=_ratio((reached * rows).sum(axis=0, dtype=np.float64), mass),
    )


def _ratio(part: Floats, whole: Floats) -> Floats:
    made: Floats = np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 1e-12)
    return made


class LargePool(WholePool):
    """Records are the units: each is a member or another, once."""

    repeats: int = REPEATS
    finalists: int = FINALISTS

    def deployable(
        self, hands: Sequence[Dealt], groups: Sequence[Signals], rng: np.random.Generator
    ) -> Deployable | None:
        """Cross-fit over records, choosing among the leading signals of each dealing."""
        made = [self._fitted(hand, groups, self._inside(hand, rng)) for hand in hands]
        if made[0] is None:
            return None
        # A redraw that cannot be folded counts against the finding.
        pairs = [np.ones((2, len(groups))) if item is None else item for item in made]
        together = np.stack(pairs, axis=2)
        return Deployable(together[0], together[1])

    def _inside(self, hand: Dealt, rng: np.random.Generator) -> Folds | None:
        members, others = len(hand.members), hand.others.shape[1]
        folds = fold_count(members, others)
        if folds < 2:
            return None
        return (
            split_folds(members, folds, rng, self.repeats),
            split_folds(others, folds, rng, self.repeats),
        )

    def _fitted(
        self,
        hand: Dealt,
        groups: Sequence[Signals],
        inside: Folds | None,
        weight: Weights | None = None,
        level: Floats | None = None,
    ) -> Floats | None:
        """Return (AUC, TPR) per group as [2, group]; None where there is too little to fold."""
        if inside is None:
            return None
        level = self.pair([hand]).level[0] if level is None else level
        leading = [self._leading(level, group) for group in groups]
        figures = {
            signal: fold_figures(self.ranks, signal, hand, inside, weight)
            for signal in sorted({s for some in leading for s in some})
        }
        return np.array([_chosen([figures[s] for s in some]) for some in leading]).T

    def _leading(self, level: Floats, group: Signals) -> list[int]:
        """Return the first of each kind of signal, the best of them, in catalogue order."""
        first = np.unique(self.ranks.same[group])
        best = first[np.argsort(-level[first], kind="stable")[: self.finalists]]
        return [int(signal) for signal in np.sort(best)]

    def standard_error(self, hand: Dealt, signal: int, rng: np.random.Generator) -> float:
        """Draw members and others anew, each from its own side."""
        if not hand.members.size or not hand.others.size:
            return 0.0
        members, others = hand.members, hand.others[0]
        low, high = self.ranks.low[signal, members], self.ranks.high[signal, members]
        made = []
        for start in range(0, DRAWS, _CHUNK):
            draws = min(_CHUNK, DRAWS - start)
            rows, columns = resample(len(members), draws, rng), resample(len(others), draws, rng)
            running = np.zeros((draws, self.ranks.low.shape[1] + 1))
            running[:, self.ranks.place[signal, others] + 1] = columns
            np.cumsum(running, axis=1, out=running)
            wins = (rows * (running[:, low] + running[:, high])).sum(axis=1)
            made.append(wins / (2 * len(members) * len(others)))
        return float(np.concatenate(made).std())

    def spreads(
        self, hand: Dealt, groups: Sequence[Signals], rng: np.random.Generator
    ) -> Spreads | None:
        """Resample records: members and others apart for this pool, all together beyond it."""
        pool = self.resampled(hand, groups, rng, RESELECTING_DRAWS)
        if pool is None:
            return None
        drawn = resample(self.targets, RESELECTING_DRAWS, rng)
        weights = [(w[hand.members], w[hand.others[0]]) for w in drawn]
        records = self._reweighted(hand, groups, self._inside(hand, rng), weights)
        return Spreads(np.nanstd(pool, axis=1), np.nanstd(records, axis=1), "records")

    def resampled(
        self, hand: Dealt, groups: Sequence[Signals], rng: np.random.Generator, draws: int
    ) -> Floats | None:
        """Draw records anew within each side, and choose anew."""
        inside = self._inside(hand, rng)
        if inside is None:
            return None
        rows = resample(len(hand.members), draws, rng)
        columns = resample(hand.others.shape[1], draws, rng)
        return self._reweighted(hand, groups, inside, list(zip(rows, columns, strict=True)))

    def _reweighted(
        self,
        hand: Dealt,
        groups: Sequence[Signals],
        inside: Folds | None,
        weights: Sequence[Weights],
    ) -> Floats:
        level = self.pair([hand]).level[0]
        made = [self._fitted(hand, groups, inside, weight, level) for weight in weights]
        return np.array([item[0] for item in made if item is not None]).T


def _chosen(figures: Sequence[FoldFigures]) -> tuple[float, float]:
    """Return the mean AUC and TPR in folds, each by the signal that is best without the fold."""
    rest = np.stack([item.rest for item in figures])
    best = np.nan_to_num(rest, nan=-1.0).round(9).argmax(axis=0)[None]
    held, rate = (
        np.take_along_axis(np.stack([getattr(item, name) for item in figures]), best, axis=0)
        for name in ("held", "rate")
    )
    if not np.isfinite(held).any():
        return np.nan, np.nan
    return float(np.nanmean(held)), float(np.nanmean(rate))
