"""Merged pools: two kinds of records against the same non-members (docs/method.md §10).

Within-pool figures of two pools cannot be compared record by record: each is relative to its own
non-members. In a merged pool both kinds face the same ones, so `delta`, first origin minus second,
says whose members stand out more. Read `delta` with two others. `null_low` to `null_high` is what
redraws give if nothing leaks; it need not be centred at 0. `own_delta` compares each kind with its
own non-members and is 0 if both leak alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import RANDOM, UNION, Signal
from synthleak.core.cell import Cell
from synthleak.core.seeds import stream
from synthleak.core.spec import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import assignment_of, redraw_assignments
from synthleak.metrics.comparison import comparison_of
from synthleak.metrics.records.by_origin import (
    DRAWS,
    OriginMeasurements,
    Sides,
    origin_measurements,
)
from synthleak.metrics.selection import choose
from synthleak.plan.plan import Design, Plan

REDRAWS = 999


@dataclass(frozen=True)
class MergedRow:
    """A row of `merged.csv`: one measure in one scenario of a cell whose pool is merged.

    `delta` is the first origin minus the second, `low` and `high` its 95% bootstrap over member
    records. `null_low`, `null_high` and `p` are what redraws give where nothing leaks, the proxy
    chosen again in each. `own_…` holds each origin against its own non-members. `pool_auc` is the
    figure by which the proxy was chosen.
    """

    corpus: str
    pool: str
    generator: str
    epsilon: float
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
"""Columns that a terminal shows."""


@analysis("merged", version=1, row=MergedRow, shown=("corpus", *SHOWN))
def merged(study: Study) -> Sequence[MergedRow]:
    """Which of two kinds of records stands out more in a pool of the rule `union`."""
    union_cells = [cell_data for cell_data in study.cell_data if cell_data.pool.rule == UNION]
    if not union_cells:
        raise Unavailable('needs a pool of the rule "union", of two pools that are to be compared')
    rules = {(p.cell.corpus, p.pool.name): p.pool.rule for p in study.cell_data}
    rows: list[MergedRow] = []
    for cell_data in union_cells:
        kinds = sorted(
            dict.fromkeys(cell_data.pool.origins),
            key=lambda kind: rules.get((cell_data.cell.corpus, kind)) == RANDOM,
        )
        if len(kinds) == 2:
            order = (kinds[0], kinds[1])
            game = (cell_data.design, cell_data.plan, cell_data.game)
            rows += merged_rows(cell_data.cell, cell_data.scores(), cell_data.signals, *game, order)
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

    There are none where no record of an origin ever joined: then nothing can be compared.
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
            Sides(comparison.ranks.low[signal], first, assignment)
            for signal, assignment in zip(chosen, assignments, strict=True)
        ]
        best, counts = chosen[0], (int(of_first.sum()), int((~of_first).sum()))
        pool_auc = float(level[0, best])
        rows += [
            _row(cell, signals[best], pool_auc, order, counts, found)
            for found in origin_measurements(sides, stream(*name, "bootstrap", scenario), draws)
        ]
    return rows


def _row(
    cell: Cell,
    signal: Signal,
    pool_auc: float,
    kinds: tuple[str, str],
    counts: tuple[int, int],
    found: OriginMeasurements,
) -> MergedRow:
    return MergedRow(
        **asdict(cell),
        scenario=signal.scenario,
        proxy=signal.proxy,
        view=signal.view,
        pool_auc=pool_auc,
        measure=found.measure,
        first=kinds[0],
        second=kinds[1],
        first_members=counts[0],
        second_members=counts[1],
        first_value=found.first,
        second_value=found.second,
        delta=found.delta,
        low=found.low,
        high=found.high,
        null_low=found.null_low,
        null_high=found.null_high,
        p=found.p,
        own_first=found.own_first,
        own_second=found.own_second,
        own_delta=found.own_delta,
        own_low=found.own_low,
        own_high=found.own_high,
    )
