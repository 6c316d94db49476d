"""All measurements of one cell, each with its null distribution (docs/method.md §8).

`measure` is deterministic in its arguments: redraws, folds and bootstrap draws come from random
streams named by the seed and the cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.core.verdict import LEVEL, TIED, TOO_FEW
from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment
from synthleak.metrics.epsilon.bounds import EpsilonBound, gdp_mu, largest_lone, lone_epsilon
from synthleak.metrics.epsilon.claims import comparison_delta
from synthleak.metrics.epsilon.one_run import audit_delta, cohort_epsilon, largest_one_run
from synthleak.metrics.estimate import Estimate, interval, known
from synthleak.metrics.measurements import (
    CellMeasurements,
    Deciding,
    Null,
    RecordMeasurements,
    ScenarioMeasurements,
    SignalMeasurements,
    passable,
)
from synthleak.metrics.null import MinPTest, false_discovery_rates, min_p_test, p_value, upper_point
from synthleak.metrics.records.exposure import member_p_values
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.metrics.selection import choose
from synthleak.metrics.statistics.table import STATISTICS_VERSION, Statistics
from synthleak.metrics.statistics.within_records import record_p_values
from synthleak.metrics.types import Ints, Rng, Signals
from synthleak.plan.plan import Plan
from synthleak.releases.claim import Claim

MEASUREMENTS_VERSION = 2 + STATISTICS_VERSION
REDRAWS = 2000
CROSSFIT_REDRAWS = 199
EXPOSURE = "exposure"
"""The random stream by which members are halved, and scored by the other half's signal."""


def redraws_for(cells: int, statistics: int) -> int:
    """Return B: 2,000, or enough that Holm over `cells` can still reach p = 0.01.

    The smallest p of a cell is one redraw's share for each statistic (docs/method.md §8).

    >>> redraws_for(1, 3), redraws_for(9, 3), redraws_for(45, 2)
    (2000, 3000, 10000)
    """
    return max(REDRAWS, 1000 * math.ceil((100 * cells * statistics + 1) / 1000))


def measure(
    cell: ScoredCell,
    claim: Claim,
    *,
    redraws: int = REDRAWS,
    crossfit_redraws: int = CROSSFIT_REDRAWS,
    spreads: bool = True,
) -> CellMeasurements:
    """Return every measurement of a cell.

    Without `spreads` the deployable AUC has no interval, which saves half of the time.
    """
    plan, values = cell.plan, cell.values
    assignments = [cell.observed, *cell.redraws("redraws", redraws)]
    statistics = cell.comparison.statistics(assignments)
    test = min_p_test(statistics.values)
    fitted = _crossfitted(cell, assignments[: crossfit_redraws + 1], spreads)
    bound = _epsilon(plan, values, claim, cell.stream("epsilon"))
    overall = fitted[-1]
    records: tuple[RecordMeasurements, ...] = ()
    if cell.within_records:
        records = _records(values, assignments)
    elif cell.design.ranks_members(plan):
        records = _exposed(cell)
    return CellMeasurements(
        rows=tuple(
            _row(cell, table.scenario, assignments, statistics, group, row)
            for table, group, row in zip(cell.scores, cell.groups[:-1], fitted[:-1], strict=True)
        ),
        statistics=statistics.names,
        signals=_signals(statistics, test),
        p=None if test is None else test.p,
        reason=TIED if test is None else TOO_FEW if test.floor > LEVEL else None,
        null=None if test is None else _null(test),
        deciding=None if test is None else _deciding(statistics, test),
        redraws=redraws,
        crossfit=overall.auc,
        crossfit_tpr=overall.tpr,
        records_low=overall.records[0],
        records_high=overall.records[1],
        mu=None if overall.auc is None else gdp_mu(min(overall.auc.value, 1 - 1e-9)),
        epsilon=bound,
        epsilon_claim=None if bound is None else claim.epsilon_at(bound.delta, plan.adjacency),
        records=records,
    )


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
    cell: ScoredCell,
    scenario: str,
    assignments: Sequence[Assignment],
    statistics: Statistics,
    group: Signals,
    fitted: _Fitted,
) -> ScenarioMeasurements:
    auc, observed, comparison = statistics.auc, cell.observed, cell.comparison
    chosen = choose(comparison.ranks, assignments, auc, group)
    signal = int(chosen.signal[0])
    within = min_p_test(statistics.values[:, :, group])
    error = comparison.standard_error(observed, signal, cell.stream("bootstrap", scenario))
    value = float(chosen.level[0])
    low, high = interval(value, error, comparison.sides(observed))
    many = f"best of {len(group)} proxies, {len(assignments) - 1} redraws that choose again"
    return ScenarioMeasurements(
        scenario=scenario,
        signal=signal,
        auc=Estimate(
            value=value,
            low=low,
            high=high,
            null=known(upper_point(chosen.level[1:])),
            p=None if within is None else within.p,
            n=observed.trials,
            method=f"{many}; interval as if the proxy had been fixed in advance",
        ),
        tpr=_with_null(chosen.tpr, observed, f"TPR at 5% FPR of the {many}"),
        pooled=_with_null(chosen.pooled, observed, f"all coins together, {many}"),
        crossfit=fitted.auc,
        crossfit_tpr=fitted.tpr,
        records_low=fitted.records[0],
        records_high=fitted.records[1],
        centre=float(auc[:, signal].mean()),
        scale=float(auc[:, signal].std()),
    )


def _with_null(values: Floats, observed: Assignment, method: str) -> Estimate:
    return Estimate(
        value=float(values[0]),
        null=known(upper_point(values[1:])),
        n=observed.trials,
        method=method,
    )


@dataclass(frozen=True)
class _Fitted:
    """The deployable AUC and TPR of a group of signals, and the limits for records like these."""

    auc: Estimate | None = None
    tpr: Estimate | None = None
    records: tuple[float | None, float | None] = (None, None)


def _crossfitted(
    cell: ScoredCell, assignments: Sequence[Assignment], with_spreads: bool
) -> list[_Fitted]:
    """Return the deployable measurements of each scenario, and of all signals together."""
    comparison, observed, groups = cell.comparison, cell.observed, cell.groups
    made = comparison.deployable(assignments, groups, cell.stream("crossfit"))
    if made is None:
        return [_Fitted()] * len(groups)
    spreads = comparison.spreads(observed, groups, cell.stream("spreads")) if with_spreads else None
    over = f"bootstrap over {spreads.over}" if spreads else "no interval"
    method = (
        f"{comparison.repeats} times 5-fold cross-fitting, {over}, {len(assignments) - 1} redraws"
    )
    rows = []
    for place, (aucs, rates) in enumerate(zip(made.auc, made.tpr, strict=True)):
        value = float(aucs[0])
        pool, records = (
            (
                interval(value, float(errors[place]), comparison.sides(observed))
                for errors in (spreads.pool, spreads.records)
            )
            if spreads
            else ((None, None), (None, None))
        )
        auc = Estimate(
            value=value,
            low=pool[0],
            high=pool[1],
            null=known(upper_point(aucs[1:])),
            p=p_value(value, aucs[1:]),
            n=observed.trials,
            method=method,
        )
        tpr = _with_null(rates, observed, "TPR at 5% FPR within held-out folds")
        rows.append(_Fitted(auc, tpr, records))
    return rows


def _epsilon(plan: Plan, values: Floats, claim: Claim, rng: Rng) -> EpsilonBound | None:
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
    """Return the largest ε that a plan with `sets` instances could show."""
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


def _exposed(cell: ScoredCell) -> tuple[RecordMeasurements, ...]:
    plan, rng = cell.plan, cell.stream(EXPOSURE)
    return _rows(*member_p_values(cell.values[0], plan.trials.member, rng, cell.drawn, cell.words))


def _records(values: Floats, assignments: Sequence[Assignment]) -> tuple[RecordMeasurements, ...]:
    auc, p = record_p_values(values, assignments)
    return _rows(np.arange(values.shape[1]), auc, p, false_discovery_rates(p))


def _rows(targets: Ints, *columns: Floats) -> tuple[RecordMeasurements, ...]:
    rows = zip(*(column.tolist() for column in (targets, *columns)), strict=True)
    return tuple(RecordMeasurements(*row) for row in rows)
