"""Power: the smallest leak that would be found four times in five (docs/method.md §8.8).

With a standard error s, an AUC of m + q·s + 0.84·s passes the chance limit m + q·s with probability
0.8. Planted leaks confirm this, and find the smallest share of copied members that is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from synthleak.core.cell import LEVEL
from synthleak.core.spec import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.epsilon import gdp_mu
from synthleak.metrics.measurements import passable
from synthleak.metrics.membership import Assignment, redraw_assignments
from synthleak.metrics.null import POWER, min_p_test, smallest_found
from synthleak.metrics.scored_cell import comparison_of, statistics_of
from synthleak.metrics.types import Rng
from synthleak.plan.plan import Design, Plan

REDRAWS = 600
PLANTED = 200
SEARCHING = 60
"""Leaks planted at each step of a search."""
LARGEST_PLAYED = 400


@dataclass(frozen=True)
class PowerEstimate:
    """What a design would find, estimated before any release is made.

    `ceiling` is the chance limit of an AUC, `auc` the smallest one found with the given power,
    `confirmed` the share of planted leaks of that size that were found, `copied` the smallest share
    of members (of records, where records are compared with themselves) that is found when they are
    copied. None where no leak would be found, or where it was not computed.
    """

    instances: int
    signals: int
    ceiling: float | None
    auc: float | None
    confirmed: float | None = None
    copied: float | None = None


class PlantedLeaks:
    """Leaks planted into scores without a leak, each tested by the whole test.

    `values[set, target, signal]` are scores without a leak, such as those of releases that were
    made without the targets. A planted leak raises the members of one redraw in one signal; the
    other redraws use the same scores, as in an audit.
    """

    def __init__(
        self,
        values: Floats,
        design: Design,
        plan: Plan,
        game: GameSection,
        rng: Rng,
        redraws: int = REDRAWS,
    ) -> None:
        self._design, self._plan, self._values, self._rng = design, plan, values, rng
        self._within = design.within_records(plan)
        self._assignments = redraw_assignments(design, plan, game, rng, redraws)
        self.statistics = comparison_of(design, plan, values).statistics(self._assignments)
        self.test = min_p_test(self.statistics.values)

    @property
    def members(self) -> int:
        """The number of members; of records, if records are compared with themselves."""
        if self._within:
            return int(self._values.shape[1])
        return int(np.median([len(assignment.members) for assignment in self._assignments]))

    def chance(self, level: float) -> tuple[float, float, float]:
        """Return m, s and q of an average signal's AUC: chance passes m + q·s at this level."""
        assert self.test is not None
        auc = self.statistics.auc
        varying = auc.std(axis=0) > 1e-9
        centre, scale = float(auc[:, varying].mean()), float(auc.std(axis=0)[varying].mean())
        return centre, scale, float(self.test.critical(level)[0])

    def expected_power(self, auc: float, level: float) -> float:
        """Return how often a signal of this AUC passes m + q·s, with a standard error of s."""
        from scipy.stats import norm

        if self.test is None or self.test.floor > level:
            return 0.0
        centre, scale, critical = self.chance(level)
        return float(norm.cdf((auc - centre) / scale - critical))

    def power_for_auc(self, auc: float, level: float, trials: int = PLANTED) -> float:
        """Return the share of trials that find members raised to this AUC in one signal."""
        shifts: dict[int, float] = {}

        def plant(scores: Floats, assignment: Assignment, signal: int) -> Floats:
            if signal not in shifts:
                shifts[signal] = self._shift(scores, auc)
            planted = scores.copy()
            planted.ravel()[assignment.members] += shifts[signal]
            return planted

        return self._share_found(plant, level, trials)

    def power_for_copies(self, count: int, level: float, trials: int = PLANTED) -> float:
        """Return the share of trials in which `count` copied members (or records) are found."""
        targets = self._values.shape[1]

        def plant(scores: Floats, assignment: Assignment, signal: int) -> Floats:
            if self._within:
                copied = self._rng.permutation(targets)[:count]
                chosen = assignment.members[np.isin(assignment.members % targets, copied)]
            else:
                chosen = self._rng.permutation(assignment.members)[:count]
            planted = scores.copy()
            planted.ravel()[chosen] = scores.max() + 1.0
            return planted

        return self._share_found(plant, level, trials)

    def _share_found(
        self, plant: Callable[[Floats, Assignment, int], Floats], level: float, trials: int
    ) -> float:
        """Return the share of trials that find the leak which `plant` puts into a signal."""
        varying = np.flatnonzero(self.statistics.auc.std(axis=0) > 1e-9)
        chosen = self._rng.permutation(varying).tolist()[:trials]
        normal = {signal: self._normal(signal) for signal in chosen}
        hits = 0
        for trial in range(trials):
            signal, row = chosen[trial % len(chosen)], trial % len(self._assignments)
            planted = plant(normal[signal], self._assignments[row], signal)
            values = self.statistics.values.copy()
            alone = comparison_of(self._design, self._plan, planted[:, :, None])
            values[:, :, signal] = alone.statistics(self._assignments).values[:, :, 0]
            values[:, [0, row]] = values[:, [row, 0]]
            test = min_p_test(values)
            hits += test is not None and test.p <= level
        return hits / trials

    def _normal(self, signal: int) -> Floats:
        """Return the normal scores of one signal: within each record, or over all entries."""
        from scipy.stats import norm, rankdata

        values = self._values[:, :, signal]
        if self._within:
            shares = (rankdata(values, axis=0) - 0.5) / len(values)
        else:
            shares = (rankdata(values).reshape(values.shape) - 0.5) / values.size
        return np.asarray(norm.ppf(shares))

    def _shift(self, scores: Floats, auc: float) -> float:
        """Return the shift of the members that gives this AUC on average over all assignments."""
        records = np.sort(scores if self._within else scores.reshape(-1, 1), axis=0).T

        def reached(shift: float) -> float:
            wins = [
                np.searchsorted(row, row + shift, side=side).mean()
                for row in records
                for side in ("left", "right")
            ]
            return float(np.mean(wins) / records.shape[1])

        low, high = 0.0, 2 * gdp_mu(min(auc, 0.999)) + 1
        for _ in range(20):
            middle = (low + high) / 2
            low, high = (low, middle) if reached(middle) >= auc else (middle, high)
        return high


def redraws_at(level: float, statistics: int) -> int:
    return max(REDRAWS, math.ceil(2 * statistics / level))


def estimate_power(
    values: Floats,
    design: Design,
    plan: Plan,
    game: GameSection,
    rng: Rng,
    *,
    level: float = LEVEL,
    power: float = POWER,
    confirm: bool = True,
) -> PowerEstimate:
    """Return what a design finds, from scores without a leak: `values[set, target, signal]`."""
    redraws = redraws_at(level, len(statistics_of(design, plan)))
    leaks = PlantedLeaks(values, design, plan, game, rng, redraws)
    instances, signals = len(values), values.shape[2]
    if leaks.test is None or leaks.test.floor > level:
        return PowerEstimate(instances, signals, None, None)
    centre, scale, critical = leaks.chance(level)
    smallest = smallest_found(centre, scale, critical, power)
    return PowerEstimate(
        instances,
        signals,
        ceiling=passable(centre + critical * scale),
        auc=smallest,
        confirmed=leaks.power_for_auc(smallest, level)
        if confirm and smallest is not None
        else None,
        copied=_smallest_share(leaks, level, power) if confirm else None,
    )


def _smallest_share(leaks: PlantedLeaks, level: float, power: float) -> float | None:
    """Return the smallest share of members that is found when they are copied."""
    low, high = 0, leaks.members
    if leaks.power_for_copies(high, level, SEARCHING) < power:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        reached = leaks.power_for_copies(middle, level, SEARCHING) >= power
        low, high = (low, middle) if reached else (middle, high)
    return high / leaks.members


def instances_until_found(powers: Mapping[int, float], last: int) -> float:
    """Return how many instances are played on average at most, from the power at earlier looks.

    Of leaks that are found at some look a part was found before, so that no more go on from a look
    than are missed at the best of the looks so far.

    >>> instances_until_found({10: 0.5, 50: 0.9}, 100)
    35.0
    """
    played, missed, before = 0.0, 1.0, 0
    for look in (*powers, last):
        played += missed * (look - before)
        missed, before = min(missed, 1 - powers.get(look, 0.0)), look
    return round(played, 9)


def instances_needed(
    estimated: Callable[[int], PowerEstimate], auc: float, start: int
) -> int | None:
    """Return roughly how many instances find this AUC; None if no number does.

    The smallest AUC found approaches 0.5 as 1/sqrt(instances); `estimated(n)` simulates n
    instances, at most LARGEST_PLAYED, to correct this.
    """
    if auc <= 0.5:
        return None
    instances = start
    for _ in range(4):
        smallest = estimated(min(instances, LARGEST_PLAYED)).auc
        if smallest is None:
            instances *= 4
            if instances > 16 * LARGEST_PLAYED:
                return None
            continue
        needed = min(instances, LARGEST_PLAYED) * ((smallest - 0.5) / (auc - 0.5)) ** 2
        needed = max(4, 2 * math.ceil(needed / 2))
        if needed == instances or min(needed, instances) >= LARGEST_PLAYED:
            return int(needed)
        instances = int(needed)
    return instances
