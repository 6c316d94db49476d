"""Differences between cells: a pool and its controls, two budgets, two kinds in a merged pool.

What the differences mean, and which of them may be read, is in docs/method.md §10.3 and §10.4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from synthleak.analyses.analysis import (
    RANDOM,
    UNION,
    CellData,
    Signal,
    Study,
    Unavailable,
    analysis,
    with_holm,
)
from synthleak.analyses.cells import ProxyRow, columns_of
from synthleak.core.cell import LEVEL, Cell, CellColumns
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.measurements import known
from synthleak.metrics.member_comparison import resample
from synthleak.metrics.membership import (
    FPR_LIMIT,
    Assignment,
    Small,
    assignment_of,
    choose,
    redraw_assignments,
    threshold_at_fpr,
)
from synthleak.metrics.null import SLACK, holm
from synthleak.metrics.scored_cell import comparison_of
from synthleak.metrics.types import Bools, Ints, Rng
from synthleak.plan.plan import Design, Plan

WHOLE = "all"
"""The scenario of a row that concerns the whole cell."""


@dataclass(frozen=True)
class Difference:
    """A difference of deployable AUCs, with a bootstrap standard error."""

    value: float
    error: float

    @property
    def p(self) -> float:
        from scipy.stats import norm

        if self.error <= 0:
            return 1.0 if self.value == 0 else 0.0
        return float(2 * norm.sf(abs(self.value) / self.error))

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """Return the normal interval that misses with probability `level`."""
        from scipy.stats import norm

        reach = float(norm.isf(level / 2)) * self.error
        return self.value - reach, self.value + reach

    @property
    def low(self) -> float:
        return self.interval()[0]

    @property
    def high(self) -> float:
        return self.interval()[1]


def is_selected(cell: CellData) -> bool:
    """Say whether a property of its records selected a cell's pool."""
    return cell.pool.rule not in (RANDOM, UNION) and not cell.pool.written


def controls_of(study: Study, cell: CellData) -> list[CellData]:
    """Return the random controls of a cell: same corpus, generator and budget, no shared record.

    Controls that take their size from this pool are used alone if there are any.
    """
    controls = [
        other
        for other in study.cell_data
        if other.pool.rule == RANDOM
        and replace(other.cell, pool=cell.cell.pool) == cell.cell
        and other.signals == cell.signals
        and not set(other.pool.records) & set(cell.pool.records)
    ]
    return [other for other in controls if other.pool.match == cell.pool.name] or controls


def deployable_auc(cell: CellData, scenario: str) -> float | None:
    """Return the deployable AUC of a scenario, or of the whole cell."""
    measured = cell.measurements
    crossfits = (*(row.crossfit for row in measured.rows), measured.crossfit)
    crossfit = crossfits[_row_of(cell, scenario)]
    return None if crossfit is None else crossfit.value


def _row_of(cell: CellData, scenario: str) -> int:
    """Return the place of a scenario; the whole cell comes after all of them."""
    return (*cell.scenarios, WHOLE).index(scenario)


def combine(parts: Sequence[tuple[float, CellData]], scenario: str) -> Difference | None:
    """Return Σ weight · AUC with its standard error; None where a deployable AUC is missing.

    Cells that share a plan draw the same instances, so their draws are subtracted one by one; draws
    of different plans are independent, and subtracting them in the same way does no harm.
    """
    values = [deployable_auc(cell, scenario) for _, cell in parts]
    drawn = [cell.profile.resampled[_row_of(cell, scenario)] for _, cell in parts]
    if any(value is None for value in values) or min(map(len, drawn)) < 2:
        return None
    value = sum(w * float(v) for (w, _), v in zip(parts, values, strict=True) if v is not None)
    together = np.sum([w * d for (w, _), d in zip(parts, drawn, strict=True)], axis=0)
    return Difference(value, float(np.nanstd(together, ddof=1)))


def holm_levels(p_values: Sequence[float | None]) -> list[tuple[float | None, float | None]]:
    """Return, for each test, Holm's adjusted p and the level of its confidence interval.

    The k-th smallest of m p-values is compared with 0.05 / (m − k + 1), up to the first that fails;
    all later ones use the level of that one. So an interval excludes 0 exactly where Holm rejects.

    >>> holm_levels([0.04, None, 0.001])
    [(0.04, 0.05), (None, None), (0.002, 0.025)]
    >>> [level for _, level in holm_levels([0.03, 0.04])]
    [0.025, 0.025]
    """
    levels: dict[float, float] = {}
    known = sorted(p for p in p_values if p is not None)
    for place, p in enumerate(known):
        failed = [q for q in levels if q > levels[q]]
        levels.setdefault(p, levels[failed[0]] if failed else LEVEL / (len(known) - place))
    return [
        (after, None if p is None else levels[p])
        for p, after in zip(p_values, holm(p_values), strict=True)
    ]


@dataclass(frozen=True)
class GapRow(CellColumns):
    """A row of `control_gap.csv`: a selected pool minus its random controls in one scenario.

    `scenario` is `all` for the whole cell, which is what is tested (docs/method.md §10.3).
    """

    scenario: str
    controls: int
    control_pools: str
    auc: float
    view: str
    auc_spread: float | None
    control_auc: float
    control_view: str
    control_spread: float | None
    gap: float
    gap_spread: float | None
    crossfit_auc: float | None
    control_crossfit: float | None
    crossfit_gap: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_holm: float | None
    holm_low: float | None
    holm_high: float | None
    flagged: str


@analysis(
    "control_gap",
    version=1,
    row=GapRow,
    shown="pool generator epsilon scenario gap gap_spread crossfit_gap low high p_holm flagged",
)
def control_gap(study: Study) -> Sequence[GapRow]:
    """Whether a selected pool is easier to tell apart than its random controls, per scenario."""
    tables: dict[Cell, list[ProxyRow]] = {}
    for row in study.proxies:
        tables.setdefault(Cell.of(row), []).append(row)
    selected = [cell for cell in study.cell_data if is_selected(cell)]
    if not selected:
        raise Unavailable("needs a pool of a rule other than random or union")
    compared = [(cell, controls) for cell in selected if (controls := controls_of(study, cell))]
    if not compared:
        raise Unavailable(_missing_controls(study))
    rows: list[GapRow] = []
    gaps: list[Difference | None] = []
    for cell, controls in compared:
        parts = [(1.0, cell), *((-1.0 / len(controls), control) for control in controls)]
        for scenario in (*cell.scenarios, WHOLE):
            gaps.append(combine(parts, scenario))
            rows.append(_gap_row(cell, controls, scenario, gaps[-1], tables))
    levels = holm_levels([row.p_value for row in rows])
    return [_flagged(*item) for item in zip(rows, gaps, levels, strict=True)]


def _flagged(
    row: GapRow, gap: Difference | None, levels: tuple[float | None, float | None]
) -> GapRow:
    adjusted, level = levels
    if gap is None or level is None:
        return row
    low, high = gap.interval(level)
    flagged = "yes" if low > 0 or high < 0 else "no"
    return replace(row, p_holm=adjusted, holm_low=low, holm_high=high, flagged=flagged)


def _missing_controls(study: Study) -> str:
    if not any(cell.pool.rule == RANDOM for cell in study.cell_data):
        return 'needs random pools to compare with: add a pool of the rule "random"'
    return "needs a random pool without a selected record, of the same corpus, generator and budget"


def _gap_row(
    cell: CellData,
    controls: Sequence[CellData],
    scenario: str,
    gap: Difference | None,
    tables: dict[Cell, list[ProxyRow]],
) -> GapRow:
    rows = [
        [row for row in tables[data.cell] if scenario in (WHOLE, row.scenario)]
        for data in (cell, *controls)
    ]
    rounds = cell.game.rounds if cell.plan.trials.rounds > 1 else 1
    auc, view, error = _best_proxy([rows[0]], rounds)
    usual, usual_view, usual_error = _best_proxy(rows[1:], rounds)
    aucs = [deployable_auc(control, scenario) for control in controls]
    deployable = [value for value in aucs if value is not None]
    return GapRow(
        **cell.cell.columns,
        scenario=scenario,
        controls=len(controls),
        control_pools=" ".join(control.cell.pool for control in controls),
        auc=auc,
        view=view,
        auc_spread=known(1.96 * error),
        control_auc=usual,
        control_view=usual_view,
        control_spread=known(1.96 * usual_error),
        gap=auc - usual,
        gap_spread=known(1.96 * np.hypot(error, usual_error)),
        crossfit_auc=deployable_auc(cell, scenario),
        control_crossfit=float(np.mean(deployable)) if None not in aucs else None,
        **columns_of(gap, "low high", crossfit_gap="value"),
        # One test per cell: its scenarios look at the same releases.
        p_value=gap.p if gap and scenario == WHOLE else None,
        p_holm=None,
        holm_low=None,
        holm_high=None,
        flagged="",
    )


def _best_proxy(pools: Sequence[Sequence[ProxyRow]], rounds: int) -> tuple[float, str, float]:
    """Return AUC, view and standard error of the proxy that is best over some pools together.

    The error is that of the mean over all rounds of all pools, so it includes the difference
    between draws of a control. It is NaN for a single round.
    """
    aucs = np.array([[row.auc for row in rows] for rows in pools])
    rates = np.array([[row.tpr_at_fpr05 for row in rows] for rows in pools])
    order = np.lexsort((-rates.mean(axis=0), -aucs.mean(axis=0).round(9)))
    best = int(order[0])
    value, view = float(aucs[:, best].mean()), pools[0][best].view
    if rounds < 2:
        return value, view, np.nan
    within = [(rows[best].auc_spread * rounds**0.5 / 1.96) ** 2 for rows in pools]
    variance = np.mean(within) + aucs[:, best].var()
    return value, view, float((variance / (rounds * len(pools))) ** 0.5)


@dataclass(frozen=True)
class RemovalRow(CellColumns):
    """A row of `dp_removal.csv`: AUC(∞) − AUC(ε) of one pool, beside that of its controls.

    `best_…` is for the best proxy in hindsight, what has no prefix for the deployable AUC.
    """

    scenario: str
    removed: float | None
    removed_low: float | None
    removed_high: float | None
    controls: int
    control_removed: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    p_holm: float | None
    best_removed: float
    best_control_removed: float | None
    best_difference: float | None


@analysis(
    "dp_removal",
    version=1,
    row=RemovalRow,
    shown="pool generator epsilon scenario removed removed_low removed_high control_removed "
    "difference low high p_holm",
)
def dp_removal(study: Study) -> Sequence[RemovalRow]:
    """How much AUC a budget removes, and whether it removes more from a selected pool."""
    rows = [
        row
        for cell in study.cell_data
        if math.isfinite(cell.epsilon) and (without := _without_privacy(study, cell)) is not None
        for row in _removal_rows(study, cell, without)
    ]
    if not rows:
        raise Unavailable("needs a generator that was audited both at ε = ∞ and at a finite ε")
    return with_holm(rows)


def _without_privacy(study: Study, cell: CellData) -> CellData | None:
    wanted = (replace(cell.cell, epsilon=math.inf), cell.scenarios)
    found = (other for other in study.cell_data if (other.cell, other.scenarios) == wanted)
    return next(found, None)


def _removal_rows(study: Study, cell: CellData, without: CellData) -> Iterator[RemovalRow]:
    controls = controls_of(study, cell) if is_selected(cell) else []
    pairs = [
        (other, control)
        for control in controls
        if (other := _without_privacy(study, control)) is not None
    ]
    parts = [(1.0, without), (-1.0, cell)]
    control_parts = [
        (sign / len(pairs), data)
        for pair in pairs
        for sign, data in zip((1.0, -1.0), pair, strict=True)
    ]
    minus = [(-weight, data) for weight, data in control_parts]
    for scenario in (*cell.scenarios, WHOLE):
        removed = combine(parts, scenario)
        of_controls = combine(control_parts, scenario) if pairs else None
        gap = combine([*parts, *minus], scenario) if pairs else None
        best = _best_auc(without, scenario) - _best_auc(cell, scenario)
        usual = sum(w * _best_auc(data, scenario) for w, data in control_parts) if pairs else None
        yield RemovalRow(
            **cell.cell.columns,
            scenario=scenario,
            **columns_of(removed, removed="value", removed_low="low", removed_high="high"),
            controls=len(pairs),
            **columns_of(of_controls, control_removed="value"),
            **columns_of(gap, "low high", difference="value"),
            p_value=gap.p if gap and scenario == WHOLE else None,
            p_holm=None,
            best_removed=best,
            best_control_removed=usual,
            best_difference=None if usual is None else best - usual,
        )


def _best_auc(cell: CellData, scenario: str) -> float:
    """Return the AUC of the best proxy in hindsight, of a scenario or of the whole cell."""
    aucs = [row.auc.value for row in cell.measurements.rows]
    return max(aucs) if scenario == WHOLE else aucs[_row_of(cell, scenario)]


MEASURES = ("auc", "tpr_at_fpr05")
DRAWS = 1000
LIMITS = (2.5, 97.5)


@dataclass(frozen=True)
class RanksByKind:
    """One signal under one assignment: the ranks of all entries, and who is of the first kind."""

    low: Small
    first: Bools
    assignment: Assignment

    @property
    def records(self) -> Ints:
        """The record of each member."""
        return self.assignment.members % len(self.first)

    @property
    def members_first(self) -> Bools:
        """Whether each member is of the first kind."""
        return self.first[self.records]


def origin_measurements(
    assignments: Sequence[RanksByKind], rng: Rng, draws: int = DRAWS
) -> list[dict[str, Any]]:
    """Return the columns of `merged.csv` for each measure; None where nothing is left.

    Args:
        assignments: the observed one, then the redraws.
        rng: draws records again.
        draws: how often.
    """
    observed = assignments[0]
    first, second = by_kind(observed)
    deltas = np.stack([np.subtract(*by_kind(ranks)) for ranks in assignments])
    low, high = np.percentile(_resampled(observed, rng, draws), LIMITS, axis=0)
    own_first, own_second = against_own(observed, np.ones(len(observed.first)))
    own_low, own_high = _within_kind_limits(observed, rng, draws)
    columns = {
        **{"first_value": first, "second_value": second, "delta": first - second},
        **{"low": low, "high": high, "own_low": own_low, "own_high": own_high},
        **{"own_first": own_first, "own_second": own_second, "own_delta": own_first - own_second},
    }
    null = [against_redraws(deltas[:, number]) for number in range(len(MEASURES))]
    return [
        {
            "measure": measure,
            **{name: known(values[number]) for name, values in columns.items()},
            **dict(zip(("null_low", "null_high", "p"), null[number], strict=True)),
        }
        for number, measure in enumerate(MEASURES)
    ]


def against_shared(ranks: RanksByKind) -> Floats:
    """Return AUC and TPR of each member against all non-members, as [measure, member]."""
    members = ranks.low[ranks.assignment.members]
    others = ranks.low[ranks.assignment.others]
    # Ranks are small whole numbers: counting them is faster than sorting.
    counted = np.bincount(others.ravel(), minlength=len(ranks.low))
    lower = np.concatenate([[0], np.cumsum(counted)])
    return np.stack(
        [
            (lower[members] + lower[members + 1]) / (2 * others.size),
            (members[:, None] > threshold_at_fpr(others.T)).mean(axis=1),
        ]
    )


def by_kind(ranks: RanksByKind) -> tuple[Floats, Floats]:
    """Return both measures for the first kind and for the second; NaN for one without members."""
    scores, first = against_shared(ranks), ranks.members_first
    return _mean(scores[:, first]), _mean(scores[:, ~first])


def _mean(scores: Floats) -> Floats:
    return scores.mean(axis=1) if scores.shape[1] else np.full(len(scores), np.nan)


def _resampled(ranks: RanksByKind, rng: Rng, draws: int) -> Floats:
    """Return the differences of bootstrap draws: member records of each kind drawn again.

    A record brings all its trials with it, and the non-members stay (docs/method.md §10).
    """
    scores, first = against_shared(ranks), ranks.members_first
    means = []
    for kind in (first, ~first):
        _, record = np.unique(ranks.records[kind], return_inverse=True)
        count = np.bincount(record).astype(np.float64)
        total = np.stack([np.bincount(record, weights=row) for row in scores[:, kind]], axis=1)
        weight = resample(len(count), draws, rng)
        means.append((weight @ total) / (weight @ count)[:, None])
    return means[0] - means[1]


def against_own(ranks: RanksByKind, weight: Floats) -> tuple[Floats, Floats]:
    """Return both measures with each kind against its own non-members, records so weighted."""
    first, second = WithinKind.of(ranks, ranks.first), WithinKind.of(ranks, ~ranks.first)
    return first.figures(weight), second.figures(weight)


@dataclass(frozen=True)
class WithinKind:
    """Members and non-members of one kind, sorted once for all weights of its records.

    `member` and `other` name the record of each trial, the others in ascending order of score;
    `below` and `upto` count the others that each member outscores, and those it at least equals.
    """

    member: Ints
    other: Ints
    below: Ints
    upto: Ints
    last: Ints

    @classmethod
    def of(cls, ranks: RanksByKind, kind: Bools) -> WithinKind:
        targets = len(ranks.first)
        others = ranks.assignment.others.ravel()
        others = others[kind[others % targets]]
        others = others[np.argsort(ranks.low[others], kind="stable")]
        members = ranks.assignment.members[kind[ranks.records]]
        ordered, scores = ranks.low[others], ranks.low[members]
        return cls(
            member=members % targets,
            other=others % targets,
            below=np.searchsorted(ordered, scores, side="left"),
            upto=np.searchsorted(ordered, scores, side="right"),
            last=np.searchsorted(ordered, ordered, side="right"),
        )

    def figures(self, weight: Floats) -> Floats:
        """Return AUC and TPR with records so weighted; NaN where a side weighs nothing."""
        heavy = weight[self.member]
        mass = np.concatenate([[0.0], np.cumsum(weight[self.other])])
        whole = mass[-1]
        if heavy.sum() <= 0 or whole <= 0:
            return np.full(len(MEASURES), np.nan)
        # The highest non-members may be flagged as long as they weigh 5% at most.
        index = int(np.argmax(whole - mass[1:] <= FPR_LIMIT * whole + SLACK))
        return np.array(
            [
                heavy @ (mass[self.below] + mass[self.upto]) / (2 * whole * heavy.sum()),
                heavy @ (self.below >= self.last[index]) / heavy.sum(),
            ]
        )


def _within_kind_limits(ranks: RanksByKind, rng: Rng, draws: int) -> Floats:
    """Return the limits of the difference within kinds: all records drawn again, in and out."""
    first, second = WithinKind.of(ranks, ranks.first), WithinKind.of(ranks, ~ranks.first)
    weights = resample(len(ranks.first), draws, rng)
    drawn = np.stack([first.figures(weight) - second.figures(weight) for weight in weights])
    whole = drawn[np.isfinite(drawn).all(axis=1)]
    if len(whole) < draws / 2:
        return np.full((2, len(MEASURES)), np.nan)
    return np.percentile(whole, LIMITS, axis=0)


def against_redraws(deltas: Floats) -> tuple[float | None, float | None, float | None]:
    """Return the central 95% of the redraws, and the two-sided p of the first among them.

    A redraw that leaves a kind without members counts against the finding on both sides.

    >>> against_redraws(np.array([5.0, 1.0, 2.0, 3.0]))
    (1.05, 2.95, 0.5)
    """
    observed, redrawn = deltas[0], deltas[1:]
    finite = redrawn[np.isfinite(redrawn)]
    if not finite.size:
        return None, None, None
    lost = len(redrawn) - finite.size
    upper = 1 + lost + int((finite >= observed - SLACK).sum())
    lower = 1 + lost + int((finite <= observed + SLACK).sum())
    low, high = np.percentile(finite, LIMITS)
    return float(low), float(high), min(1.0, 2 * min(upper, lower) / len(deltas))


MERGED_REDRAWS = 999


@dataclass(frozen=True)
class MergedRow(CellColumns):
    """A row of `merged.csv`: one measure of a cell whose pool is merged (docs/results.md)."""

    scenario: str
    proxy: str
    view: str
    pool_auc: float
    measure: str
    first: str
    second: str
    first_members: int
    second_members: int
    first_value: float
    second_value: float
    delta: float
    low: float
    high: float
    null_low: float | None
    null_high: float | None
    p: float | None
    own_first: float | None
    own_second: float | None
    own_delta: float | None
    own_low: float | None
    own_high: float | None


SHOWN = (
    *("pool", "generator", "epsilon", "scenario", "proxy", "measure", "first_value"),
    *("second_value", "delta", "low", "high", "null_low", "null_high", "p", "own_delta"),
)
"""The columns that `synthleak adjudicate` and `analyse` print."""


@analysis("merged", version=1, row=MergedRow, shown=("corpus", *SHOWN))
def merged(study: Study) -> Sequence[MergedRow]:
    """Which of two kinds of records stands out more in a pool of the rule `union`."""
    merged_cells = [data for data in study.cell_data if data.pool.rule == UNION]
    if not merged_cells:
        raise Unavailable('needs a pool of the rule "union", of the two pools to compare')
    rules = {(data.cell.corpus, data.pool.name): data.pool.rule for data in study.cell_data}
    rows: list[MergedRow] = []
    for data in merged_cells:
        origins = list(dict.fromkeys(data.pool.origins))
        origins.sort(key=lambda origin: rules.get((data.cell.corpus, origin)) == RANDOM)
        if len(origins) == 2:
            played = (data.scores(), data.signals, data.design, data.plan, data.game)
            rows += merged_rows(data.cell, *played, (origins[0], origins[1]))
    return rows


def merged_rows(
    cell: Cell,
    scores: Floats,
    signals: Sequence[Signal],
    design: Design,
    plan: Plan,
    game: GameSection,
    order: tuple[str, str],
    *,
    redraws: int = MERGED_REDRAWS,
    draws: int = DRAWS,
) -> list[MergedRow]:
    """Return the rows of a merged cell from `scores[set, target, signal]`, origins in `order`.

    There are none where no record of an origin was ever a member: nothing can be compared then.
    """
    observed = assignment_of(plan.trials, len(plan.targets))
    first = np.asarray([origin == order[0] for origin in plan.origins])
    of_first = first[observed.members % len(first)]
    if of_first.all() or not of_first.any():
        return []
    name = ("merged", plan.fingerprint, cell.generator, repr(cell.epsilon))
    comparison = comparison_of(design, plan, scores[: int(plan.trials.set.max()) + 1])
    assignments = [
        observed,
        *redraw_assignments(design, plan, game, stream(*name, "redraws"), redraws),
    ]
    level = comparison.statistics(assignments).auc
    rows: list[MergedRow] = []
    for scenario in dict.fromkeys(signal.scenario for signal in signals):
        group = np.flatnonzero([signal.scenario == scenario for signal in signals])
        chosen = choose(comparison.ranks, assignments, level, group).signal.tolist()
        sides = [
            RanksByKind(comparison.ranks.low[signal], first, assignment)
            for signal, assignment in zip(chosen, assignments, strict=True)
        ]
        of_row = {
            **cell.columns,
            **asdict(signals[chosen[0]]),
            "pool_auc": float(level[0, chosen[0]]),
            "first": order[0],
            "second": order[1],
            "first_members": int(of_first.sum()),
            "second_members": int((~of_first).sum()),
        }
        columns = origin_measurements(sides, stream(*name, "bootstrap", scenario), draws)
        rows += [MergedRow(**of_row, **measured) for measured in columns]
    return rows
