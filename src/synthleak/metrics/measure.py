"""All figures of one cell, each with its null (docs/method.md §8).

`assess` is where scores, coins and claim meet. It is deterministic in its arguments: redraws, folds
and bootstrap draws come from streams named by the seed and the cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synthleak.calibration import Scores
from synthleak.core.seeds import Part, stream
from synthleak.core.spec import GameSection
from synthleak.core.verdict import LEVEL, TIED, TOO_FEW
from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment, assignment_of, redraw_assignments
from synthleak.metrics.comparison.base import Comparison
from synthleak.metrics.comparison.of_plan import comparison_of
from synthleak.metrics.epsilon.bounds import EpsilonBound, gdp_mu, largest_lone, lone_epsilon
from synthleak.metrics.epsilon.claims import comparison_delta
from synthleak.metrics.epsilon.one_run import audit_delta, cohort_epsilon, largest_one_run
from synthleak.metrics.estimate import Estimate, interval
from synthleak.metrics.measurements import (
    CellMeasurements,
    Deciding,
    Null,
    RecordMeasurements,
    ScenarioMeasurements,
    SignalMeasurements,
    passable,
)
from synthleak.metrics.null import MinPTest, benjamini_hochberg, min_p_test, p_value, upper_point
from synthleak.metrics.records.exposure import member_p_values
from synthleak.metrics.selection import Signals, choose
from synthleak.metrics.statistics.table import Statistics
from synthleak.metrics.statistics.within_records import record_p_values
from synthleak.plan.plan import Design, Plan
from synthleak.releases.claim import Claim

MEASUREMENTS_VERSION = 3
REDRAWS = 2000
CROSSFIT_REDRAWS = 199


def redraws_for(cells: int, statistics: int) -> int:
    """Return B: 2,000, or enough that Holm over so many cells can still reach p = 0.01.

    The smallest p of a cell is one redraw's share for each statistic (docs/method.md §8).

    >>> redraws_for(1, 3), redraws_for(9, 3), redraws_for(45, 2)
    (2000, 3000, 10000)
    """
    return max(REDRAWS, 1000 * math.ceil((100 * cells * statistics + 1) / 1000))


def measure(
    scores: Sequence[Scores],
    design: Design,
    plan: Plan,
    game: GameSection,
    claim: Claim,
    name: Sequence[Part],
    *,
    redraws: int = REDRAWS,
    crossfit_redraws: int = CROSSFIT_REDRAWS,
    spreads: bool = True,
) -> CellMeasurements:
    """Return every figure of a cell; `name` (seed, then the cell's name) names its streams.

    Without `spreads` the deployable figures have no interval, which saves half of the time.
    """
    sets = int(plan.trials.set.max()) + 1
    values = np.concatenate([table.values[:sets] for table in scores], axis=2)
    groups = groups_of(scores)
    comparison = comparison_of(design, plan, values)
    observed = assignment_of(plan.trials, len(plan.targets))
    drawn = redraw_assignments(design, plan, game, stream(*name, "redraws"), redraws)
    assignments = [observed, *drawn]
    statistics = comparison.statistics(assignments)
    test = min_p_test(statistics.values)
    reason = TIED if test is None else TOO_FEW if test.floor > LEVEL else None
    fitted = _Crossfitted(comparison, assignments[: crossfit_redraws + 1], groups, name, spreads)
    rows = [
        _row(table.scenario, comparison, assignments, statistics, group, fitted.of(place), name)
        for place, (table, group) in enumerate(zip(scores, groups[:-1], strict=True))
    ]
    overall, overall_tpr, records_low, records_high = fitted.of(len(groups) - 1)
    bound = _epsilon(plan, values, claim, stream(*name, "epsilon"))
    return CellMeasurements(
        rows=tuple(rows),
        statistics=statistics.names,
        signals=_signals(statistics, test),
        p=None if test is None else test.p,
        reason=reason,
        null=None if test is None else _null(test),
        deciding=None if test is None else _deciding(statistics, test),
        redraws=redraws,
        crossfit=overall,
        crossfit_tpr=overall_tpr,
        records_low=records_low,
        records_high=records_high,
        mu=None if overall is None else gdp_mu(min(overall.value, 1 - 1e-9)),
        epsilon=bound,
        epsilon_claim=None if bound is None else claim.epsilon_at(bound.delta, plan.adjacency),
        records=_records(values, assignments, plan)
        if design.within_records(plan)
        else _exposed(values, plan, stream(*name, "exposure"))
        if design.ranks_members(plan)
        else (),
    )


def groups_of(scores: Sequence[Scores]) -> list[Signals]:
    """Return the signals of each scenario, and all of them at the end."""
    sizes = [len(table.proxies) for table in scores]
    ends = np.cumsum(sizes)
    return [*(np.arange(e - s, e) for s, e in zip(sizes, ends, strict=True)), np.arange(ends[-1])]


def _signals(statistics: Statistics, test: MinPTest | None) -> tuple[SignalMeasurements, ...]:
    observed = statistics.values[:, 0]
    ceilings = np.full_like(observed, np.inf) if test is None else test.ceilings()
    return tuple(
        SignalMeasurements(tuple(values), tuple(passable(limit) for limit in limits))
        for values, limits in zip(observed.T.tolist(), ceilings.T.tolist(), strict=True)
    )


def _null(test: MinPTest) -> Null:
    """Keep the part of the null that decides at any level up to 10%."""
    count = len(test.smallest)
    kept = max(200, count // 10)
    return Null(
        largest=tuple(test.falling[0, :kept].tolist()),
        smallest=tuple(np.sort(test.smallest)[:kept].tolist()),
        count=count,
    )


def _deciding(statistics: Statistics, test: MinPTest) -> Deciding:
    place = test.statistic, test.signal
    return Deciding(
        statistic=statistics.names[test.statistic],
        signal=test.signal,
        value=float(statistics.values[test.statistic, 0, test.signal]),
        ceiling=passable(float(test.ceilings()[place])),
    )


def _row(
    scenario: str,
    comparison: Comparison,
    assignments: Sequence[Assignment],
    statistics: Statistics,
    group: Signals,
    fitted: Fitted,
    name: Sequence[Part],
) -> ScenarioMeasurements:
    auc = statistics.auc
    chosen = choose(comparison.ranks, assignments, auc, group)
    signal = int(chosen.signal[0])
    within = min_p_test(statistics.of(group).values)
    error = comparison.standard_error(assignments[0], signal, stream(*name, "bootstrap", scenario))
    trials = len(assignments[0].members) + assignments[0].others.shape[1]
    value = float(chosen.level[0])
    low, high = interval(value, error, comparison.sides(assignments[0]))
    many = f"best of {len(group)} proxies, {len(assignments) - 1} redraws that choose again"
    return ScenarioMeasurements(
        scenario=scenario,
        signal=signal,
        auc=Estimate(
            value=value,
            low=low,
            high=high,
            null=_finite(upper_point(chosen.level[1:])),
            p=None if within is None else within.p,
            n=trials,
            method=f"{many}; interval as if the proxy had been fixed in advance",
        ),
        tpr=_with_null(chosen.tpr, trials, f"TPR at 5% FPR of the {many}"),
        pooled=_with_null(chosen.pooled, trials, f"all coins together, {many}"),
        crossfit=fitted[0],
        crossfit_tpr=fitted[1],
        records_low=fitted[2],
        records_high=fitted[3],
        centre=float(auc[:, signal].mean()),
        scale=float(auc[:, signal].std()),
    )


def _with_null(values: Floats, trials: int, method: str) -> Estimate:
    return Estimate(
        value=float(values[0]), null=_finite(upper_point(values[1:])), n=trials, method=method
    )


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


Fitted = tuple[Estimate | None, Estimate | None, float | None, float | None]
"""AUC, TPR, and the limits for records like these."""
Limits = tuple[float | None, float | None]


class _Crossfitted:
    """The deployable figures of a cell, observed and redrawn, with their standard errors."""

    def __init__(
        self,
        comparison: Comparison,
        assignments: Sequence[Assignment],
        groups: Sequence[Signals],
        name: Sequence[Part],
        spreads: bool,
    ) -> None:
        self._made = comparison.deployable(assignments, groups, stream(*name, "crossfit"))
        self._spreads = (
            comparison.spreads(assignments[0], groups, stream(*name, "spreads"))
            if spreads
            else None
        )
        self._trials = len(assignments[0].members) + assignments[0].others.shape[1]
        self._sides = comparison.sides(assignments[0])
        self._repeats = comparison.repeats

    def of(self, group: int) -> Fitted:
        """Return AUC and TPR of a group, and the interval for records like these."""
        if self._made is None:
            return None, None, None, None
        aucs, rates = self._made.auc[group], self._made.tpr[group]
        value = float(aucs[0])
        pool, records, over = self._limits(value, group)
        auc = Estimate(
            value=value,
            low=pool[0],
            high=pool[1],
            null=_finite(upper_point(aucs[1:])),
            p=p_value(value, aucs[1:]),
            n=self._trials,
            method=f"{self._repeats} times 5-fold cross-fitting, {over}, {len(aucs) - 1} redraws",
        )
        tpr = _with_null(rates, self._trials, "TPR at 5% FPR within held-out folds")
        return auc, tpr, *records

    def _limits(self, value: float, group: int) -> tuple[Limits, Limits, str]:
        """Return the limits for this pool and for records like these, and what was resampled."""
        spreads = self._spreads
        if spreads is None:
            return (None, None), (None, None), "no interval"
        return (
            interval(value, float(spreads.pool[group]), self._sides),
            interval(value, float(spreads.records[group]), self._sides),
            f"bootstrap over {spreads.over}",
        )


def _epsilon(
    plan: Plan, values: Floats, claim: Claim, rng: np.random.Generator
) -> EpsilonBound | None:
    """Bound ε on the plan's coins: one per instance, or one for every record in every instance."""
    coins = plan.coins
    if coins is None:
        return None
    sets, targets, _ = values.shape
    if _counts_every_coin(plan, targets):
        delta = comparison_delta(claim, plan.adjacency, plan.nominal, len(coins))
        return cohort_epsilon(values, coins.member.reshape(sets, targets), delta, rng)
    delta = comparison_delta(claim, plan.adjacency, plan.nominal, None)
    return lone_epsilon(values[coins.set, coins.target], coins.member, delta, rng)


def largest_epsilon(plan: Plan, sets: int, delta: float) -> float | None:
    """Return the largest ε that a plan with so many instances could show."""
    if plan.coins is None:
        return None
    targets = len(plan.targets)
    if _counts_every_coin(plan, targets):
        return largest_one_run((sets, targets), audit_delta(delta, sets * targets))
    return largest_lone(sets // 2, sets - sets // 2, delta)


def _counts_every_coin(plan: Plan, targets: int) -> bool:
    """Say whether every record has a coin in every instance, and not one record in each."""
    assert plan.coins is not None
    sets = int(plan.coins.set.max()) + 1
    return len(plan.coins) == sets * targets and len(plan.coins) > 1


def _exposed(
    values: Floats, plan: Plan, rng: np.random.Generator
) -> tuple[RecordMeasurements, ...]:
    group = np.asarray(plan.blocks) if plan.blocks else None
    targets, share, p = member_p_values(values[0], plan.trials.member, rng, group)
    columns = (targets, share, p, benjamini_hochberg(p))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(RecordMeasurements(*row) for row in rows)


def _records(
    values: Floats, assignments: Sequence[Assignment], plan: Plan
) -> tuple[RecordMeasurements, ...]:
    best, p = record_p_values(values, assignments)
    return tuple(
        RecordMeasurements(position, *row)
        for position, row in enumerate(
            zip(best.tolist(), p.tolist(), benjamini_hochberg(p).tolist(), strict=True)
        )
    )
