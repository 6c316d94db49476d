"""Merged pools: two kinds of records against the same non-members (docs/method.md §10).

The AUCs of two pools cannot be compared: each is relative to its own non-members. In a merged pool
both kinds of records face the same ones, so `delta`, first origin minus second, says whose members
stand out more. Read `delta` with two other columns: `null_low` to `null_high` is what redraws give
if nothing leaks, and need not be centred at 0; `own_delta` compares each kind with its own
non-members, and is 0 if both leak alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import RANDOM, UNION, Signal
from synthleak.core.cell import Cell, CellColumns
from synthleak.core.seeds import stream
from synthleak.core.spec_sections import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import assignment_of, redraw_assignments
from synthleak.metrics.comparison import comparison_of
from synthleak.metrics.records.by_origin import DRAWS, RanksByKind, origin_measurements
from synthleak.metrics.selection import choose
from synthleak.plan.plan import Design, Plan

REDRAWS = 999


@dataclass(frozen=True)
class MergedRow(CellColumns):
    """A row of `merged.csv`: one measure in one scenario of a cell whose pool is merged.

    `delta` is the first origin minus the second, `low` and `high` its 95% bootstrap interval over
    member records. `null_low`, `null_high` and `p` come from redraws without a leak, the proxy
    chosen again in each. `own_…` compares each origin with its own non-members. `pool_auc` is the
    AUC by which the proxy was chosen.
    """

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
            order, game = (origins[0], origins[1]), (data.design, data.plan, data.game)
            rows += merged_rows(data.cell, data.scores(), data.signals, *game, order)
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
    redraws: int = REDRAWS,
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
        best, counts = chosen[0], (int(of_first.sum()), int((~of_first).sum()))
        pool_auc = float(level[0, best])
        for measured in origin_measurements(sides, stream(*name, "bootstrap", scenario), draws):
            values = asdict(measured)
            rows.append(
                MergedRow(
                    **cell.columns,
                    **asdict(signals[best]),
                    pool_auc=pool_auc,
                    first=order[0],
                    second=order[1],
                    first_members=counts[0],
                    second_members=counts[1],
                    first_value=values.pop("first"),
                    second_value=values.pop("second"),
                    delta=measured.delta,
                    own_delta=measured.own_delta,
                    **values,
                )
            )
    return rows
