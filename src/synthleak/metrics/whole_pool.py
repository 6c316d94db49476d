"""Members of the pool against non-members (METHOD §7, §8; designs `lone` and `given`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.comparison import (
    Comparison,
    Deployable,
    Spreads,
    normal_scores,
    resample,
)
from synthleak.metrics.crossfit import (
    Crossfit,
    Singles,
    Wins,
    choose_in_folds,
    crossfit,
    fold_aucs,
    take_chosen,
    wins_of,
)
from synthleak.metrics.dealt import Dealt
from synthleak.metrics.folds import fold_count, split_folds
from synthleak.metrics.pooled import Pair, pooled_pair
from synthleak.metrics.roc import auc
from synthleak.metrics.selection import Signals

DRAWS = 500
RESELECTING_DRAWS = 100
RESELECTING_REPEATS = 4


class WholePool(Comparison):
    """Instances are the units: each holds one member, or the rounds of one non-member."""

    def pair(self, hands: Sequence[Dealt]) -> Pair:
        """Return mean AUC over rounds and pooled tail."""
        return pooled_pair(self.ranks, hands)

    def deployable(
        self, hands: Sequence[Dealt], groups: Sequence[Signals], rng: np.random.Generator
    ) -> Deployable | None:
        """Cross-fit over instances, or over records where there is one release."""
        first, *redrawn = [crossfit(self.ranks, hand, self.targets, groups, rng) for hand in hands]
        if first is None:
            return None
        # A redraw that cannot be folded counts against the finding.
        worst = Crossfit(np.ones(len(groups)), np.ones(len(groups)))
        made = [first, *(item or worst for item in redrawn)]
        return Deployable(
            np.stack([item.auc for item in made], axis=1),
            np.stack([item.tpr for item in made], axis=1),
        )

    def standard_error(self, hand: Dealt, signal: int, rng: np.random.Generator) -> float:
        """Draw members and other units anew, each from its own side."""
        if not hand.members.size or not hand.others.size:
            return 0.0
        wins = wins_of(self.ranks, hand, self.targets)
        place = int(np.searchsorted(wins.signals, self.ranks.same[signal]))
        rows, columns = (resample(size, DRAWS, rng) for size in wins.doubled.shape[1:])
        sums = np.einsum("dm,mo,do->d", rows, wins.doubled[place], columns, optimize=True)
        mass = rows.sum(axis=1) * (columns @ wins.mass)
        return float((sums / (2 * mass)).std())

    def spreads(
        self, hand: Dealt, groups: Sequence[Signals], rng: np.random.Generator
    ) -> Spreads | None:
        """Resample units within each side, and records with all their trials."""
        inside = self._folds(hand, rng)
        if inside is None:
            return None
        wins = wins_of(self.ranks, hand, self.targets)
        pool = self._over_units(wins, inside, groups, rng, RESELECTING_DRAWS)
        records = []
        for weight in resample(self.targets, RESELECTING_DRAWS, rng):
            drawn = wins_of(self.ranks, hand, self.targets, weight)
            rows = weight[hand.members % self.targets]
            columns = np.ones(hand.others.shape[1])
            records.append(self._refit(drawn, inside, (rows, columns), groups))
        over = "instances" if self.sets > 1 else "records"
        return Spreads(np.nanstd(pool, axis=0), np.nanstd(records, axis=0), over)

    def resampled(
        self, hand: Dealt, groups: Sequence[Signals], rng: np.random.Generator, draws: int
    ) -> Floats | None:
        """Draw units anew within each side, and choose anew."""
        inside = self._folds(hand, rng)
        if inside is None:
            return None
        wins = wins_of(self.ranks, hand, self.targets)
        return np.asarray(self._over_units(wins, inside, groups, rng, draws)).T

    def _folds(self, hand: Dealt, rng: np.random.Generator) -> tuple[Singles, Singles] | None:
        members, others = len(hand.members), hand.others.shape[1]
        folds = fold_count(members, others)
        if folds < 2:
            return None
        return (
            split_folds(members, folds, rng, RESELECTING_REPEATS),
            split_folds(others, folds, rng, RESELECTING_REPEATS),
        )

    def _over_units(
        self,
        wins: Wins,
        inside: tuple[Singles, Singles],
        groups: Sequence[Signals],
        rng: np.random.Generator,
        draws: int,
    ) -> list[list[float]]:
        """Return the deployable AUC per [draw][group], members and other units drawn apart."""
        members, others = wins.doubled.shape[1:]
        rows, columns = resample(members, draws, rng), resample(others, draws, rng)
        return [
            self._refit(wins, inside, weight, groups) for weight in zip(rows, columns, strict=True)
        ]

    def _refit(
        self,
        wins: Wins,
        inside: tuple[Singles, Singles],
        weight: tuple[Floats, Floats],
        groups: Sequence[Signals],
    ) -> list[float]:
        rest, held = fold_aucs(wins, inside, weight)
        made = []
        for group in groups:
            chosen = choose_in_folds(rest, wins.signals, self.ranks, group)
            figures = take_chosen(held, chosen)
            made.append(float(np.nanmean(figures)) if np.isfinite(figures).any() else np.nan)
        return made

    def planted(self, hands: Sequence[Dealt], signal: int, shift: float) -> Floats:
        """Raise the members of one signal and compare them again."""
        scores = normal_scores(self.ranks.low[signal], self.ranks.high[signal])
        return np.asarray(
            [auc(scores[hand.members] + shift, scores[hand.others].ravel()) for hand in hands]
        )
