"""All figures of one cell, each with its null (METHOD §8).

`assess` is where scores, coins and claim meet. It is deterministic in its arguments: redraws, folds
and bootstrap draws come from streams named by the seed and the cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from synthleak.calibration.scenarios import Scores
from synthleak.evidence.observation import Floats
from synthleak.metrics.by_record import record_p_values
from synthleak.metrics.cell_figures import CellFigures, RecordFigures, RowFigures, SignalFigures
from synthleak.metrics.claims import comparison_delta
from synthleak.metrics.compare import comparison_of
from synthleak.metrics.comparison import Comparison
from synthleak.metrics.dealt import Dealt, dealt, redeal
from synthleak.metrics.epsilon import EpsilonBound, gdp_mu, lone_epsilon
from synthleak.metrics.estimate import Estimate, interval
from synthleak.metrics.exposure import member_p_values
from synthleak.metrics.nulls import (
    LEVEL,
    MaxTest,
    benjamini_hochberg,
    max_test,
    p_value,
    upper_point,
)
from synthleak.metrics.one_run import cohort_epsilon
from synthleak.metrics.pooled import Pair
from synthleak.metrics.selection import Signals, choose
from synthleak.metrics.words import TIED, TOO_FEW
from synthleak.plan.plan import Design, Plan
from synthleak.releases.claim import Claim
from synthleak.seeds import Part, stream
from synthleak.spec import GameSection

FIGURES_VERSION = 1
REDRAWS = 2000
CROSSFIT_REDRAWS = 199


def redraws_for(cells: int) -> int:
    """Return B: 2,000, or enough that Holm over so many cells can still reach p = 0.01.

    >>> redraws_for(9), redraws_for(45)
    (2000, 5000)
    """
    return max(REDRAWS, 1000 * math.ceil((100 * cells + 1) / 1000))


def assess(
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
) -> CellFigures:
    """Return every figure of a cell; `name` (seed, then the cell's name) names its streams.

    Without `spreads` the deployable figures have no interval, which saves half of the time.
    """
    sets = int(plan.trials.set.max()) + 1
    values = np.concatenate([table.values[:sets] for table in scores], axis=2)
    groups = groups_of(scores)
    comparison = comparison_of(design, plan, values)
    observed = dealt(plan.trials, len(plan.targets))
    drawn = redeal(design, plan, game, stream(*name, "redraws"), redraws)
    hands = [observed, *drawn]
    pair = comparison.pair(hands)
    test = max_test(np.concatenate([pair.level, pair.tail], axis=1))
    reason = TIED if test is None else TOO_FEW if test.floor > LEVEL else None
    fitted = _Crossfitted(comparison, hands[: crossfit_redraws + 1], groups, name, spreads)
    rows = [
        _row(table.scenario, comparison, hands, pair, group, fitted.of(place), name)
        for place, (table, group) in enumerate(zip(scores, groups[:-1], strict=True))
    ]
    overall, overall_tpr, records_low, records_high = fitted.of(len(groups) - 1)
    bound = _epsilon(plan, values, claim, stream(*name, "epsilon"))
    return CellFigures(
        rows=tuple(rows),
        signals=_signals(pair, test),
        p=None if test is None else test.p,
        reason=reason,
        null=() if test is None else tuple(test.null[-max(200, len(test.null) // 10) :].tolist()),
        redraws=redraws,
        crossfit=overall,
        crossfit_tpr=overall_tpr,
        records_low=records_low,
        records_high=records_high,
        mu=None if overall is None else gdp_mu(min(overall.value, 1 - 1e-9)),
        epsilon=bound,
        epsilon_claim=None if bound is None else claim.epsilon_at(bound.delta, plan.adjacency),
        records=_records(values, hands, plan)
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


def _signals(pair: Pair, test: MaxTest | None) -> tuple[SignalFigures, ...]:
    signals = pair.level.shape[1]
    ceilings = test.ceilings() if test is not None else np.full(2 * signals, np.inf)

    def shown(value: float) -> float | None:
        return float(value) if math.isfinite(value) else None

    return tuple(
        SignalFigures(
            auc=float(pair.level[0, signal]),
            auc_ceiling=shown(ceilings[signal]),
            tail=float(pair.tail[0, signal]),
            tail_ceiling=shown(ceilings[signals + signal]),
        )
        for signal in range(signals)
    )


def _row(
    scenario: str,
    comparison: Comparison,
    hands: Sequence[Dealt],
    pair: Pair,
    group: Signals,
    fitted: Fitted,
    name: Sequence[Part],
) -> RowFigures:
    chosen = choose(comparison.ranks, hands, pair.level, group)
    signal = int(chosen.signal[0])
    within = max_test(np.concatenate([pair.level[:, group], pair.tail[:, group]], axis=1))
    error = comparison.standard_error(hands[0], signal, stream(*name, "bootstrap", scenario))
    trials = len(hands[0].members) + hands[0].others.shape[1]
    value = float(chosen.level[0])
    low, high = interval(value, error, min(len(hands[0].members), hands[0].others.shape[1]))
    many = f"best of {len(group)} proxies, {len(hands) - 1} redraws that choose anew"
    return RowFigures(
        scenario=scenario,
        signal=signal,
        auc=Estimate(
            value=value,
            low=low,
            high=high,
            null=_finite(upper_point(chosen.level[1:])),
            p=None if within is None else within.p,
            n=trials,
            method=f"{many}; interval as if the proxy had been named beforehand",
        ),
        tpr=_with_null(chosen.tpr, trials, f"TPR at 5% FPR of the {many}"),
        pooled=_with_null(chosen.pooled, trials, f"all coins together, {many}"),
        crossfit=fitted[0],
        crossfit_tpr=fitted[1],
        records_low=fitted[2],
        records_high=fitted[3],
        centre=float(pair.level[:, signal].mean()),
        scale=float(pair.level[:, signal].std()),
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
        hands: Sequence[Dealt],
        groups: Sequence[Signals],
        name: Sequence[Part],
        spreads: bool,
    ) -> None:
        self._made = comparison.deployable(hands, groups, stream(*name, "crossfit"))
        self._spreads = (
            comparison.spreads(hands[0], groups, stream(*name, "spreads")) if spreads else None
        )
        self._trials = len(hands[0].members) + hands[0].others.shape[1]
        self._few = min(len(hands[0].members), hands[0].others.shape[1])

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
            method=f"20 times 5-fold cross-fitting, {over}, {len(aucs) - 1} redraws",
        )
        tpr = _with_null(rates, self._trials, "TPR at 5% FPR within held-out folds")
        return auc, tpr, *records

    def _limits(self, value: float, group: int) -> tuple[Limits, Limits, str]:
        """Return the limits for this pool and for records like these, and what was resampled."""
        spreads = self._spreads
        if spreads is None:
            return (None, None), (None, None), "no interval"
        return (
            interval(value, float(spreads.pool[group]), self._few),
            interval(value, float(spreads.records[group]), self._few),
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
    if len(coins) == sets * targets and (sets > 1 or targets > 1):
        delta = comparison_delta(claim, plan.adjacency, plan.nominal, len(coins))
        return cohort_epsilon(values, coins.member.reshape(sets, targets), delta, rng)
    delta = comparison_delta(claim, plan.adjacency, plan.nominal, None)
    return lone_epsilon(values[coins.set, coins.target], coins.member, delta, rng)


def _exposed(values: Floats, plan: Plan, rng: np.random.Generator) -> tuple[RecordFigures, ...]:
    targets, share, p = member_p_values(values[0], plan.trials.member, rng)
    columns = (targets, share, p, benjamini_hochberg(p))
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return tuple(RecordFigures(*row) for row in rows)


def _records(values: Floats, hands: Sequence[Dealt], plan: Plan) -> tuple[RecordFigures, ...]:
    best, p = record_p_values(values, hands)
    return tuple(
        RecordFigures(position, *row)
        for position, row in enumerate(
            zip(best.tolist(), p.tolist(), benjamini_hochberg(p).tolist(), strict=True)
        )
    )
