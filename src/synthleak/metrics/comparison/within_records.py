"""Each record's releases with it against those without it (docs/method.md §7, §8; design
`cohort`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment, coins_of
from synthleak.metrics.comparison.base import Comparison, Spreads, resample
from synthleak.metrics.crossfit.folds import Deployable
from synthleak.metrics.crossfit.within_records import (
    FEW_INSTANCES,
    aucs_per_record,
    choose_folds,
    doubled_wins,
    fold_measurements,
    folds_of,
    held_auc,
    held_tpr,
    resampled_instances,
    resampled_records,
    resampled_shares,
)
from synthleak.metrics.statistics.table import Statistics, mean_compared
from synthleak.metrics.statistics.within_records import (
    doubled_ranks,
    idle,
    record_aucs,
    record_statistics,
)
from synthleak.metrics.types import Bools, Groups, Rng, Singles

DRAWS = 500
RESELECTING_DRAWS = 100
RESELECTING_REPEATS = 2
FINALISTS = 12


class WithinRecords(Comparison):
    """Every cell is a trial: the coin of one record in one release."""

    def coins(self, assignments: Sequence[Assignment]) -> Bools:
        """Return `coins[assignment, set, target]`."""
        return np.stack(
            [coins_of(assignment, self.sets, self.targets) for assignment in assignments]
        )

    def statistics(self, assignments: Sequence[Assignment]) -> Statistics:
        """Return the mean of AUC_x and the mean of its largest tenth."""
        return record_statistics(self.values, assignments)

    def sides(self, assignment: Assignment) -> tuple[float, float]:
        """Return the numbers of coins that came out either way."""
        return float(len(assignment.members)), float(assignment.others.shape[1])

    def deployable(
        self, assignments: Sequence[Assignment], groups: Groups, rng: Rng
    ) -> Deployable | None:
        """Cross-fit over instances, or over records where there are few instances."""
        inside = folds_of(self.sets, self.targets, rng)
        if inside is None:
            return None
        coins = self.coins(assignments)
        measured = fold_measurements(self.values, coins, inside)
        choices = [choose_folds(measured, group) for group in groups]
        return Deployable(
            np.stack([held_auc(measured, chosen) for chosen in choices]),
            held_tpr(self.ranks, coins, inside, choices),
        )

    def standard_error(self, assignment: Assignment, signal: int, rng: Rng) -> float:
        """Resample instances with all their coins; records where there are few instances."""
        coins = self.coins([assignment])[0]
        if self.sets < FEW_INSTANCES:
            shares = record_aucs(doubled_ranks(self.values[..., [signal]]), coins[None])[0, :, 0]
            drawn, nothing = resample(self.targets, DRAWS, rng), idle(coins[None])[0]
            return float(mean_compared(drawn @ shares, drawn @ nothing, self.targets).std())
        weight = resample(self.sets, DRAWS, rng)
        total, missing = np.zeros(DRAWS), np.zeros(DRAWS)
        for position in range(self.targets):
            wins = doubled_wins(self.values[:, position][:, [signal]])[0]
            joined, absent = weight * coins[:, position], weight * ~coins[:, position]
            compared = joined.sum(axis=1) * absent.sum(axis=1)
            top = np.einsum("di,di->d", joined @ wins, absent)
            total += np.divide(top, 2 * compared, out=np.full(DRAWS, 0.5), where=compared > 0)
            missing += compared == 0
        return float(mean_compared(total, missing, self.targets).std())

    def spreads(self, assignment: Assignment, groups: Groups, rng: Rng) -> Spreads | None:
        """Resample instances with all their coins, and records with all their releases."""
        inside = folds_of(self.sets, self.targets, rng, RESELECTING_REPEATS)
        if inside is None:
            return None
        coins = self.coins([assignment])
        records = resample(self.targets, RESELECTING_DRAWS, rng)
        if self.sets < FEW_INSTANCES:
            errors = np.nanstd(self._few_instances(coins, inside, groups, records), axis=1)
            return Spreads(errors, errors, "records")
        rest, held = aucs_per_record(self.values, coins, inside)
        drawn = resampled_records(rest, held, records, groups)
        level = rest.share.mean(axis=(1, 2))
        weight = resample(self.sets, RESELECTING_DRAWS, rng)
        return Spreads(
            self._over_instances(coins[0], inside, groups, level, weight).std(axis=1),
            drawn.std(axis=1),
            "instances",
        )

    def resampled(
        self, assignment: Assignment, groups: Groups, rng: Rng, draws: int
    ) -> Floats | None:
        """Resample instances with all their coins; records where there are few instances."""
        inside = folds_of(self.sets, self.targets, rng, RESELECTING_REPEATS)
        if inside is None:
            return None
        coins = self.coins([assignment])
        if self.sets < FEW_INSTANCES:
            weight = resample(self.targets, draws, rng)
            return self._few_instances(coins, inside, groups, weight)
        level = record_aucs(doubled_ranks(self.values), coins)[0].mean(axis=0)
        weight = resample(self.sets, draws, rng)
        return self._over_instances(coins[0], inside, groups, level, weight)

    def _few_instances(
        self, coins: Bools, inside: Singles, groups: Groups, weight: Floats
    ) -> Floats:
        shares = record_aucs(doubled_ranks(self.values), coins)[0].T
        return resampled_shares(shares, inside, weight * ~idle(coins)[0], groups)

    def _over_instances(
        self, coins: Bools, inside: Singles, groups: Groups, level: Floats, weight: Floats
    ) -> Floats:
        """Choose among each group's best signals only: the others hardly ever win a fold."""
        leading = [
            np.sort(group[np.argsort(-level[group], kind="stable")[:FINALISTS]]) for group in groups
        ]
        finalists = np.unique(np.concatenate(leading))
        measured = resampled_instances(self.values, coins, inside, weight, finalists)
        return np.stack(
            [
                held_auc(measured, choose_folds(measured, np.searchsorted(finalists, some)))
                for some in leading
            ]
        )
