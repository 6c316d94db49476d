"""All measurements of one cell, each with its null distribution (docs/method.md §8).

`measure` is deterministic in its arguments: redraws, folds and bootstrap draws come from random
streams named by the seed and the cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from synthleak.core.cell import LEVEL, TIED, TOO_FEW
from synthleak.evidence.observation import Floats
from synthleak.metrics.epsilon import (
    EpsilonBound,
    Promise,
    cohort_epsilon,
    gdp_mu,
    largest_lone,
    largest_one_run,
    lone_epsilon,
    promise_of,
)
from synthleak.metrics.exposure import member_p_values
from synthleak.metrics.measurements import (
    CellMeasurements,
    Deciding,
    Estimate,
    Null,
    RecordMeasurements,
    ScenarioMeasurements,
    SignalMeasurements,
    interval,
    known,
    larger_of,
    passable,
)
from synthleak.metrics.membership import Assignment, choose, coins_for_epsilon, has_every_coin
from synthleak.metrics.null import (
    MinPTest,
    continued_p,
    false_discovery_rates,
    min_p_test,
    p_value,
    upper_point,
)
from synthleak.metrics.scored_cell import ScoredCell
from synthleak.metrics.types import Ints, Signals
from synthleak.metrics.verdict_statistics import STATISTICS_VERSION, Statistics
from synthleak.metrics.within_records import record_p_values
from synthleak.plan.plan import Plan
from synthleak.releases.claim import Claim

MEASUREMENTS_VERSION = 3 + STATISTICS_VERSION
REDRAWS = 2000
FEWEST_FURTHER, MOST_FURTHER = 10_000, 100_000
"""Redraws where the first ones reach their floor, at least and at most."""
POSSIBLE = 0.2
"""More are drawn if p times the number of cells is below this: a verdict could rest on it."""
NEAR = 10
"""A p-value is near its floor if fewer than this many redraws for each statistic decide it."""
CHUNK = 1000
"""Redraws that are held in memory at a time."""
CROSSFIT_REDRAWS = 199
EXPOSURE = "exposure"
"""The random stream that divides members into parts: the others choose what scores each."""


def redraws_for(cells: int, statistics: int) -> int:
    """Return B: 2,000, or enough that Holm over `cells` can still reach p = 0.01.

    The smallest p of a cell is one redraw's share for each statistic (docs/method.md §8).

    >>> redraws_for(1, 3), redraws_for(9, 3), redraws_for(45, 2)
    (2000, 3000, 10000)
    """
    return max(REDRAWS, 1000 * math.ceil((100 * cells * statistics + 1) / 1000))


@dataclass(frozen=True)
class Further:
    """`redraws` that replace the first ones where their p is `near` the floor or below.

    As `near` is fixed in advance, p stays exact (docs/design/nulls.md, "Drawing on").
    """

    redraws: int
    near: float


def further_redraws(cells: int, statistics: int, redraws: int | None = None) -> Further | None:
    """Return what is drawn where p is near its floor (docs/method.md §8.3).

    By default there are enough `redraws` that Holm over `cells` can reach 0.001. None where there
    would be no more than the first ones.

    >>> further_redraws(1, 3)
    Further(redraws=10000, near=0.015)
    >>> further_redraws(45, 2), further_redraws(1, 3, redraws=500)
    (Further(redraws=91000, near=0.002), None)
    """
    first = redraws_for(cells, statistics)
    if redraws is None:
        redraws = min(max(1000 * (cells * statistics + 1), FEWEST_FURTHER), MOST_FURTHER)
    near = min(POSSIBLE / cells, NEAR * statistics / first)
    return Further(redraws, near) if redraws > first else None


def measure(
    cell: ScoredCell,
    claim: Claim,
    *,
    redraws: int = REDRAWS,
    further: Further | None = None,
    crossfit_redraws: int = CROSSFIT_REDRAWS,
    spreads: bool = True,
) -> CellMeasurements:
    """Return every measurement of a cell.

    Where several looks are declared, every level is divided by their number and every p-value
    multiplied by it, so that what is said holds for all looks together (docs/method.md §8.12).

    Args:
        cell: the scores of a cell, with its plan.
        claim: what its generator promises, which the bound on ε is compared with.
        redraws: how often coins are drawn again.
        further: the redraws that p is taken from where the first ones reach their floor.
        crossfit_redraws: how many of these the deployable figure is compared with.
        spreads: without them the deployable AUC has no interval, which saves half of the time.

    Returns:
        All measurements. Where the plan can be read in two ways, p-values and chance limits are the
        larger ones of both.
    """
    readings = [
        _measured(cell, reading, claim, redraws, further, crossfit_redraws, spreads)
        for reading in cell.plan.readings
    ]
    return reduce(larger_of, readings)


def _measured(
    cell: ScoredCell,
    reading: Plan,
    claim: Claim,
    redraws: int,
    further: Further | None,
    crossfit_redraws: int,
    spreads: bool,
) -> CellMeasurements:
    """Return the measurements of a cell with the redraws of one reading of its plan."""
    plan, values = cell.plan, cell.values
    looks, level = cell.game.number_of_looks, LEVEL / cell.game.number_of_looks
    assignments = [cell.observed, *cell.redraws("redraws", redraws, reading)]
    statistics = cell.comparison.statistics(assignments)
    test = min_p_test(statistics.values)
    p = None if test is None else test.p
    if p is not None and further is not None and p <= further.near:
        p, redraws = _drawn_on(cell, reading, statistics, further.redraws), further.redraws
    fitted = _crossfitted(cell, assignments[: crossfit_redraws + 1], spreads)
    bound = _epsilon(cell, claim)
    overall, crossfit = fitted[-1], fitted[-1]["crossfit"]
    records: tuple[RecordMeasurements, ...] = ()
    if cell.within_records:
        records = _records(values, assignments, looks)
    elif cell.design.ranks_members(plan):
        records = _exposed(cell)
    return CellMeasurements(
        rows=tuple(
            _row(cell, table.scenario, assignments, statistics, group, row)
            for table, group, row in zip(cell.scores, cell.groups[:-1], fitted[:-1], strict=True)
        ),
        statistics=statistics.names,
        signals=_signals(statistics, test, level),
        p=None if p is None else over_looks(p, looks),
        reason=TIED if test is None else TOO_FEW if test.floor > level else None,
        null=None if test is None else _null(test),
        deciding=None if test is None else _deciding(statistics, test, level),
        redraws=redraws,
        **overall,
        mu=None if crossfit is None else gdp_mu(min(crossfit.value, 1 - 1e-9)),
        epsilon=bound,
        epsilon_claim=None if bound is None else claim.epsilon_at(bound.delta, plan.adjacency),
        records=records,
    )


def _drawn_on(cell: ScoredCell, reading: Plan, first: Statistics, count: int) -> float:
    """Return the p of a cell from `count` further redraws, some at a time."""
    parts = (
        cell.comparison.statistics(
            cell.redraws(f"further redraws from {start}", min(CHUNK, count - start), reading)
        ).values
        for start in range(0, count, CHUNK)
    )
    return continued_p(first.values, parts)


def over_looks(p: float, looks: int) -> float:
    """Return a p-value that holds whichever of `looks` looks it is taken at (Bonferroni)."""
    return min(1.0, p * looks)


def _signals(
    statistics: Statistics, test: MinPTest | None, level: float
) -> tuple[SignalMeasurements, ...]:
    observed = statistics.values[:, 0]
    ceilings = np.full_like(observed, np.inf) if test is None else test.ceilings(level)
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


def _deciding(statistics: Statistics, test: MinPTest, level: float) -> Deciding:
    return Deciding(
        statistic=statistics.names[test.statistic],
        signal=test.signal,
        value=float(statistics.values[test.statistic, 0, test.signal]),
        ceiling=passable(float(test.ceilings(level)[test.statistic, test.signal])),
    )


def _row(
    cell: ScoredCell,
    scenario: str,
    assignments: Sequence[Assignment],
    statistics: Statistics,
    group: Signals,
    fitted: dict[str, Any],
) -> ScenarioMeasurements:
    auc, observed, comparison = statistics.auc, cell.observed, cell.comparison
    looks, level = cell.game.number_of_looks, LEVEL / cell.game.number_of_looks
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
            null=known(upper_point(chosen.level[1:], level)),
            p=None if within is None else over_looks(within.p, looks),
            n=observed.trials,
            method=f"{many}; interval as if the proxy had been fixed in advance",
        ),
        tpr=_with_null(chosen.tpr, level, observed, f"TPR at 5% FPR of the {many}"),
        pooled=_with_null(chosen.pooled, level, observed, f"all coins together, {many}"),
        **fitted,
        centre=float(auc[:, signal].mean()),
        scale=float(auc[:, signal].std()),
    )


def _with_null(values: Floats, level: float, observed: Assignment, method: str) -> Estimate:
    return Estimate(
        value=float(values[0]),
        null=known(upper_point(values[1:], level)),
        n=observed.trials,
        method=method,
    )


def _crossfitted(
    cell: ScoredCell, assignments: Sequence[Assignment], with_spreads: bool
) -> list[dict[str, Any]]:
    """Return the deployable measurements of each scenario, and of all signals together.

    They are fields of `ScenarioMeasurements` and of `CellMeasurements`.
    """
    comparison, observed, groups = cell.comparison, cell.observed, cell.groups
    looks, level = cell.game.number_of_looks, LEVEL / cell.game.number_of_looks
    names = ("crossfit", "crossfit_tpr", "records_low", "records_high")
    deployable = comparison.deployable(assignments, groups, cell.stream("crossfit"))
    if deployable is None:
        return [dict.fromkeys(names)] * len(groups)
    spreads = comparison.spreads(observed, groups, cell.stream("spreads")) if with_spreads else None
    over = f"bootstrap over {spreads.over}" if spreads else "no interval"
    method = (
        f"{comparison.repeats} times 5-fold cross-fitting, {over}, {len(assignments) - 1} redraws"
    )
    rows = []
    for group, (aucs, rates) in enumerate(zip(deployable.auc, deployable.tpr, strict=True)):
        value, sides = float(aucs[0]), comparison.sides(observed)
        pool: tuple[float | None, float | None] = (None, None)
        records = pool
        if spreads:
            pool = interval(value, float(spreads.pool[group]), sides)
            records = interval(value, float(spreads.records[group]), sides)
        auc = Estimate(
            value=value,
            low=pool[0],
            high=pool[1],
            null=known(upper_point(aucs[1:], level)),
            p=over_looks(p_value(value, aucs[1:]), looks),
            n=observed.trials,
            method=method,
        )
        tpr = _with_null(rates, level, observed, "TPR at 5% FPR within held-out folds")
        rows.append(dict(zip(names, (auc, tpr, *records), strict=True)))
    return rows


def _epsilon(cell: ScoredCell, claim: Claim) -> EpsilonBound | None:
    """Test the claim on the plan's coins: one per instance, or one for every record in each."""
    plan, looks = cell.plan, cell.game.number_of_looks
    coins = coins_for_epsilon(plan, cell.values)
    if coins is None:
        return None
    promise = promise_of(claim, plan.adjacency, plan.nominal)
    order, rng = cell.by_content("epsilon")
    if has_every_coin(plan):
        bound = cohort_epsilon(*coins, promise, order, rng, LEVEL / looks)
    else:
        bound = lone_epsilon(*coins, promise, rng, LEVEL / looks)
    return bound if bound.p is None else replace(bound, p=over_looks(bound.p, looks))


def largest_epsilon(plan: Plan, sets: int, promise: Promise, alpha: float = LEVEL) -> float | None:
    """Return the largest ε of such a claim that a plan with `sets` instances could contradict.

    A claim that is one stated point can be contradicted up to a smaller ε than a Gaussian one.
    """
    if plan.coins is None:
        return None
    if has_every_coin(plan):
        return largest_one_run((sets, len(plan.targets)), promise, alpha)
    return largest_lone(sets // 2, sets - sets // 2, promise, alpha)


def _exposed(cell: ScoredCell) -> tuple[RecordMeasurements, ...]:
    """Name members; by their larger p and q, where the plan can be read in two ways."""
    readings = [
        member_p_values(
            cell.values[0],
            cell.coins[0],
            cell.stream(EXPOSURE),
            reading.block_of,
            cell.words,
        )
        for reading in cell.plan.readings
    ]
    targets, share, p, q = readings[0]
    for others, _, larger_p, larger_q in readings[1:]:
        same_target = np.argsort(others)[np.searchsorted(np.sort(others), targets)]
        p, q = np.maximum(p, larger_p[same_target]), np.maximum(q, larger_q[same_target])
    order = np.lexsort((targets, -share, p, q))
    return _rows(targets[order], share[order], p[order], q[order])


def _records(
    values: Floats, assignments: Sequence[Assignment], looks: int
) -> tuple[RecordMeasurements, ...]:
    auc, p = record_p_values(values, assignments)
    p = np.minimum(1.0, looks * p)
    return _rows(np.arange(values.shape[1]), auc, p, false_discovery_rates(p))


def _rows(targets: Ints, *columns: Floats) -> tuple[RecordMeasurements, ...]:
    rows = zip(*(column.tolist() for column in (targets, *columns)), strict=True)
    return tuple(RecordMeasurements(*row) for row in rows)
