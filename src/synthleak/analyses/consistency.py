"""Whether the same records leak again: V across generators, budgets and scenarios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from synthleak.analyses.analysis import (
    CellData,
    Signal,
    Study,
    Unavailable,
    analysis,
    with_holm,
)
from synthleak.analyses.cells import columns_of
from synthleak.analyses.vulnerability import TOO_FEW, Group, by_pool, cell_groups
from synthleak.core.cell import Cell
from synthleak.core.seeds import stream
from synthleak.evidence.observation import Floats
from synthleak.metrics.membership import assignment_of, redraw_assignments
from synthleak.metrics.null import p_value
from synthleak.metrics.profile import FEWEST, Sides, redrawn, sides_of
from synthleak.metrics.verdict_statistics import tenth

REDRAWS = 400
FIRST_KIND = "dpsgd"
"""The proxy of a generator of this kind is used for the others too (the paper's DP-Gen)."""


@dataclass(frozen=True)
class ConsistencyRow:
    """A row of `consistency.csv`: V of the same records in two settings (docs/method.md §10.6)."""

    across: str
    corpus: str
    pool: str
    block: str
    generator: str
    one: str
    other: str
    scenario: str
    proxy: str
    records: int
    rho: float | None
    null_mean: float | None
    null_low: float | None
    null_high: float | None
    p_value: float | None
    p_holm: float | None
    top: int
    turnover: float | None
    chance_turnover: float | None
    turnover_p: float | None


@analysis(
    "consistency",
    version=2,
    row=ConsistencyRow,
    shown="across pool generator one other records rho null_low null_high p_holm turnover "
    "chance_turnover",
)
def consistency(study: Study) -> Sequence[ConsistencyRow]:
    """Whether the same records leak under another generator, budget or scenario."""
    groups = cell_groups(study)
    rows = [row for same in by_pool(groups) for row in _pool(same)]
    if not rows:
        raise Unavailable(_missing(groups))
    tested: list[ConsistencyRow] = []
    for across in dict.fromkeys(row.across for row in rows):
        tested += with_holm([row for row in rows if row.across == across])
    return tested


def signals_read(study: Study) -> dict[Cell, list[Signal]]:
    """Return which signals of each cell `consistency` reads: an archive may keep only these."""
    return {
        cell.cell: comparison.signals
        for same in by_pool(cell_groups(study))
        for comparison in _comparisons(same)
        for cell in comparison.group.cells
    }


def _missing(groups: Sequence[Group]) -> str:
    several = any(len(group.cells) > 1 or len(group.cells[0].scenarios) > 1 for group in groups)
    if not several and len(by_pool(groups)) == len(groups):
        return "needs a second generator, budget or scenario on the same pool and plan"
    return TOO_FEW


DIGITS = 12
"""Decimals of V that count when records are ranked."""


@dataclass(frozen=True)
class _Setting:
    """V of one setting as `[assignment, target]`, the observed assignment first.

    `ranks` are centred: multiples of ½, whose products add up without rounding on any machine.
    `length` is their norm, NaN where too few records qualify; `top` says which records are in the
    top tenth; `records` counts those that qualify.
    """

    name: str
    ranks: Floats
    length: Floats
    top: NDArray[np.bool_]
    records: NDArray[np.int64]


def _setting(name: str, v: Floats) -> _Setting:
    from scipy.stats import rankdata

    # The last digits of a mean depend on the processor, and would decide between equal records.
    v = np.round(v, DIGITS)
    known = np.isfinite(v)
    records = known.sum(axis=1)
    # Records that do not qualify rank last, and are then set to 0.
    ranks = rankdata(np.where(known, v, np.inf), axis=1) - (records[:, None] + 1) / 2
    ranks = np.where(known, ranks, 0.0)
    length = np.sqrt((ranks**2).sum(axis=1))
    length[(records < FEWEST) | (length == 0)] = np.nan
    # Ties are broken at random, apart in each setting: a shared order would look like agreement.
    drawn = stream("consistency", name).random(v.shape)
    order = np.lexsort((drawn, np.where(known, -v, np.inf)), axis=1)
    first = np.arange(v.shape[1]) < np.array([tenth(n) for n in records])[:, None]
    top = np.zeros_like(known)
    np.put_along_axis(top, order, first, axis=1)
    return _Setting(name, ranks, length, top & known, records)


@dataclass(frozen=True)
class _Comparison:
    """A group and the signal that it chose; `same_proxy` are those of its proxy in all scenarios.

    `signals` are all whose scores are read: these, and the ones that groups before it chose.
    """

    group: Group
    chosen: Signal
    same_proxy: list[Signal]
    signals: list[Signal]


def _comparisons(groups: Sequence[Group]) -> list[_Comparison]:
    """Return what is compared within one pool; nothing if it is too small or stands alone."""
    if np.isfinite(groups[0].cells[0].profile.v[0]).sum() < FEWEST:
        return []
    chosen = [(group, signal) for group in groups if (signal := group.choose()) is not None]
    chosen.sort(key=lambda pair: pair[0].cells[0].generator_kind != FIRST_KIND)
    comparisons: list[_Comparison] = []
    for place, (group, signal) in enumerate(chosen):
        same = [s for s in group.cells[0].signals if s.proxy == signal.proxy]
        earlier = [before for _, before in chosen[:place]]
        read = list(dict.fromkeys([*same, *earlier]))
        comparisons.append(_Comparison(group, signal, same, read))
    alone = len(comparisons) < 2 and all(
        len(item.same_proxy) < 2 and len(item.group.cells) < 2 for item in comparisons
    )
    return [] if alone else comparisons


def _pool(groups: Sequence[Group]) -> Iterator[ConsistencyRow]:
    """Yield the comparisons within one pool: all its cells share a plan, and so the redraws."""
    compared = _comparisons(groups)
    if not compared:
        return
    sides = _assignments(groups[0].cells[0])
    scores = {
        (cell.cell, signal): table
        for item in compared
        for cell in item.group.cells
        for signal, table in zip(
            item.signals, np.moveaxis(cell.scores(item.signals), 2, 0), strict=True
        )
    }

    def setting(name: str, cells: Sequence[CellData], signal: Signal) -> _Setting:
        mean = np.mean([scores[cell.cell, signal] for cell in cells], axis=0)
        v = redrawn(mean, sides[:1])
        # The leak is subtracted first: in a redraw it would count as noise.
        without_leak = mean - np.nan_to_num(v) * sides[0].joined
        return _setting(name, np.concatenate([v, redrawn(without_leak, sides[1:])]))

    for one, other in combinations(compared, 2):
        pair = [setting(i.group.generator, i.group.cells, one.chosen) for i in (one, other)]
        yield _row("generators", one.group, one.chosen, *pair)
    for item in compared:
        group, signal = item.group, item.chosen
        budgets = [setting(f"{cell.epsilon:g}", [cell], signal) for cell in group.cells]
        for a, b in combinations(budgets, 2):
            yield _row("budgets", group, signal, a, b)
        scenarios = [setting(s.scenario, group.cells, s) for s in item.same_proxy]
        for a, b in combinations(scenarios, 2):
            yield _row("scenarios", group, signal, a, b)


def _assignments(cell: CellData) -> list[Sides]:
    """Return IN and OUT as drawn, then in redraws that all cells of the plan share."""
    plan, targets = cell.plan, len(cell.plan.targets)
    sets = int(plan.trials.set.max()) + 1
    within = cell.design.within_records(plan)
    rng = stream(cell.seed, "consistency", cell.cell.corpus, cell.cell.pool)
    assignments = [
        assignment_of(plan.trials, targets),
        *redraw_assignments(cell.design, plan, cell.game, rng, REDRAWS),
    ]
    return [
        sides_of(assignment, sets, targets, within_records=within) for assignment in assignments
    ]


def _row(
    across: str, group: Group, signal: Signal, one: _Setting, other: _Setting
) -> ConsistencyRow:
    rho = (one.ranks * other.ranks).sum(axis=1) / (one.length * other.length)
    top = int(one.top[0].sum())
    shared = (one.top & other.top).sum(axis=1) / np.maximum(one.top.sum(axis=1), 1)
    null = rho[1:][np.isfinite(rho[1:])]
    known = bool(np.isfinite(rho[0])) and len(null) > 0
    ends = np.quantile(null, [0.025, 0.975]).tolist() if known else [None, None]
    records = int(one.records[0])
    return ConsistencyRow(
        across=across,
        **columns_of(group.pool, "corpus", pool="name", block="rule"),
        generator=group.generator,
        one=one.name,
        other=other.name,
        scenario=signal.scenario,
        proxy=signal.proxy,
        records=records,
        rho=float(rho[0]) if known else None,
        null_mean=math.fsum(null) / len(null) if known else None,
        null_low=ends[0],
        null_high=ends[1],
        p_value=p_value(float(rho[0]), null) if known else None,
        p_holm=None,
        top=top,
        turnover=1 - float(shared[0]),
        chance_turnover=1 - top / records,
        turnover_p=p_value(float(shared[0]), shared[1:]),
    )
