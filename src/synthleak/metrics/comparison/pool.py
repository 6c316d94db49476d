"""Members of the pool against non-members (docs/method.md §7, §8; designs `lone` and `given`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.comparison.base import Comparison, Spreads, resample
from synthleak.metrics.crossfit.folds import Deployable, fold_count, split_folds
from synthleak.metrics.crossfit.pool import (
    Wins,
    choose_in_folds,
    crossfit,
    fold_aucs,
    mean_known,
    take_chosen,
    wins_of,
)
from synthleak.metrics.statistics.pool import pool_statistics
from synthleak.metrics.statistics.table import FEW_OTHERS, PoolStatistic, Statistics
from synthleak.metrics.types import Groups, Ints, Rng, Singles

DRAWS = 500
RESELECTING_DRAWS = 100
RESELECTING_REPEATS = 4


class PoolComparison(Comparison):
    """Instances are the units: each holds one member, or the rounds of one non-member.

    Where there is one release, records are the units. Records of one `group[target]` then share
    folds and bootstrap draws.
    """

    def __init__(
        self,
        values: Floats,
        group: Ints | None = None,
        wanted: Sequence[PoolStatistic] = FEW_OTHERS,
    ) -> None:
        super().__init__(values)
        self._group = group
        self._wanted = wanted

    def statistics(self, assignments: Sequence[Assignment]) -> Statistics:
        """Return mean AUC over rounds and pooled tails."""
        return pool_statistics(self.ranks, assignments, self._wanted)

    def groups(self, assignment: Assignment) -> tuple[Ints | None, Ints | None]:
        """Return the group of each member and of each other unit; None without groups."""
        if self._group is None:
            return None, None
        return self._group[assignment.members], self._group[assignment.others[0]]

    def sides(self, assignment: Assignment) -> tuple[float, float]:
        """Return the number of units of either side; for groups, their effective number.

        Groups of n₁, n₂, … records count as (Σn)²/Σn² groups of equal size: a few large ones
        dominate.
        """
        members, others = (self._sizes(assignment, side) for side in (0, 1))
        return _effective(members), _effective(others)

    def _sizes(self, assignment: Assignment, side: int) -> Ints:
        """Return the number of records in each unit of a side."""
        group = self.groups(assignment)[side]
        if group is None:
            units = len(assignment.members) if side == 0 else assignment.others.shape[1]
            return np.ones(units, dtype=np.int64)
        return np.unique(group, return_counts=True)[1]

    def folds(
        self, assignment: Assignment, rng: Rng, repeats: int
    ) -> tuple[Singles, Singles] | None:
        """Assign members and other units to folds; None where there are too few."""
        folds = fold_count(*(len(self._sizes(assignment, side)) for side in (0, 1)))
        if folds < 2:
            return None
        members, others = self.groups(assignment)
        return (
            split_folds(len(assignment.members), folds, rng, repeats, members),
            split_folds(assignment.others.shape[1], folds, rng, repeats, others),
        )

    def drawn(self, assignment: Assignment, draws: int, rng: Rng) -> tuple[Floats, Floats]:
        """Resample members and other units, each within its side."""
        members, others = self.groups(assignment)
        return (
            resample(len(assignment.members), draws, rng, members),
            resample(assignment.others.shape[1], draws, rng, others),
        )

    def deployable(
        self, assignments: Sequence[Assignment], groups: Groups, rng: Rng
    ) -> Deployable | None:
        """Cross-fit over instances, or over records where there is one release."""
        first, *redrawn = [
            crossfit(
                self.ranks,
                assignment,
                self.targets,
                groups,
                self.folds(assignment, rng, self.repeats),
            )
            for assignment in assignments
        ]
        if first is None:
            return None
        # A redraw that cannot be folded counts against the finding.
        worst = Deployable(np.ones(len(groups)), np.ones(len(groups)))
        results = [first, *(item or worst for item in redrawn)]
        return Deployable(
            np.stack([item.auc for item in results], axis=1),
            np.stack([item.tpr for item in results], axis=1),
        )

    def standard_error(self, assignment: Assignment, signal: int, rng: Rng) -> float:
        """Resample members and other units, each within its side."""
        if not assignment.members.size or not assignment.others.size:
            return 0.0
        wins = wins_of(self.ranks, assignment, self.targets)
        place = int(np.searchsorted(wins.signals, self.ranks.same[signal]))
        rows, columns = self.drawn(assignment, DRAWS, rng)
        sums = np.einsum("dm,mo,do->d", rows, wins.doubled[place], columns, optimize=True)
        mass = rows.sum(axis=1) * (columns @ wins.mass)
        return float((sums / (2 * mass)).std())

    def spreads(self, assignment: Assignment, groups: Groups, rng: Rng) -> Spreads | None:
        """Resample units within each side, and records with all their trials."""
        inside = self.folds(assignment, rng, RESELECTING_REPEATS)
        if inside is None:
            return None
        wins = wins_of(self.ranks, assignment, self.targets)
        pool = self._over_units(wins, assignment, inside, groups, rng, RESELECTING_DRAWS)
        records = []
        for weight in resample(self.targets, RESELECTING_DRAWS, rng, self._group):
            drawn = wins_of(self.ranks, assignment, self.targets, weight)
            rows = weight[assignment.members % self.targets]
            columns = np.ones(assignment.others.shape[1])
            records.append(self._refit(drawn, inside, (rows, columns), groups))
        over = "instances" if self.sets > 1 else "records"
        return Spreads(
            _spread(pool, self.repeats), _spread(np.stack(records, axis=1), self.repeats), over
        )

    def resampled(
        self, assignment: Assignment, groups: Groups, rng: Rng, draws: int
    ) -> Floats | None:
        """Resample units within each side, and choose again."""
        inside = self.folds(assignment, rng, RESELECTING_REPEATS)
        if inside is None:
            return None
        wins = wins_of(self.ranks, assignment, self.targets)
        return mean_known(self._over_units(wins, assignment, inside, groups, rng, draws))

    def _over_units(
        self,
        wins: Wins,
        assignment: Assignment,
        inside: tuple[Singles, Singles],
        groups: Groups,
        rng: Rng,
        draws: int,
    ) -> Floats:
        """Return the deployable AUC as [group, draw, repeat], each side resampled on its own."""
        weights = zip(*self.drawn(assignment, draws, rng), strict=True)
        return np.stack([self._refit(wins, inside, weight, groups) for weight in weights], axis=1)

    def _refit(
        self,
        wins: Wins,
        inside: tuple[Singles, Singles],
        weight: tuple[Floats, Floats],
        groups: Groups,
    ) -> Floats:
        """Return the deployable AUC of one draw as [group, repeat]."""
        rest, held = fold_aucs(wins, inside, weight)
        results = []
        for group in groups:
            chosen = choose_in_folds(rest, wins.signals, self.ranks, group)
            results.append(mean_known(take_chosen(held, chosen)))
        return np.asarray(results)


def _spread(aucs: Floats, repeats: int) -> Floats:
    """Return the standard error per group, from `aucs[group, draw, repeat]` with fewer repeats.

    A mean over few repeats varies more between draws, because each repeat chooses for itself. This
    part, the interaction of draws and repeats, is scaled to the number of `repeats` that the
    deployable AUC is averaged over.
    """
    aucs = aucs[:, np.isfinite(aucs).all(axis=(0, 2))]
    _, draws, own = aucs.shape
    if draws < 2:
        return np.full(len(aucs), np.nan)
    by_draw = aucs.mean(axis=2, keepdims=True)
    apart = aucs - by_draw - aucs.mean(axis=1, keepdims=True)
    apart += aucs.mean(axis=(1, 2), keepdims=True)
    interaction = (apart**2).sum(axis=(1, 2)) / ((draws - 1) * max(own - 1, 1))
    variance = by_draw[..., 0].var(axis=1) - interaction * (1 / own - 1 / repeats)
    error: Floats = np.sqrt(np.maximum(variance, 0.0))
    return error


def _effective(sizes: Ints) -> float:
    return float(sizes.sum()) ** 2 / max(float((sizes**2).sum()), 1.0)
