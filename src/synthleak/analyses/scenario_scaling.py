"""What more knowledge buys an attacker, step by step (docs/method.md §10)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from synthleak.analyses.analysis import Study, Unavailable, analysis
from synthleak.analyses.cell_data import EVERY, POOLS
from synthleak.analyses.gaps import mean_interval


@dataclass(frozen=True)
class ScalingRow:
    """A row of `scenario_scaling.csv`: one step, for one view and one kind of proxy.

    `proxy` is `best` or `median` (of a view, or of `any`), or `crossfit`: the deployable figure.
    The interval is over cells; cells that share a plan are not independent. `pools` says which
    cells: those of `selected` pools, of `controls`, or `all`.
    """

    generator: str
    step: str
    view: str
    proxy: str
    cells: int
    change: float
    low: float | None
    high: float | None
    pools: str = EVERY


Figures = dict[tuple[str, str], dict[str, float]]
"""By (view, proxy): the figure of a cell in each scenario."""


@analysis(
    "scenario_scaling",
    version=2,
    row=ScalingRow,
    shown=("pools", "generator", "step", "view", "proxy", "cells", "change", "low", "high"),
)
def scenario_scaling(study: Study) -> Sequence[ScalingRow]:
    """What more knowledge buys an attacker: change of best and median proxy at each step."""
    cells = _by_cell(study)
    scenarios = sorted({row.scenario for row in study.cells})
    if len(scenarios) < 2:
        raise Unavailable("needs two scenarios or more")
    generators = list(dict.fromkeys(generator for generator, _, _ in cells))
    wanted = ["all", *generators] if len(generators) > 1 else generators
    return [
        row
        for pools in POOLS
        for generator in wanted
        for one, other in combinations(scenarios, 2)
        for row in _steps(
            (pools, generator),
            (one, other),
            [
                found
                for name, groups, found in cells
                if generator in ("all", name) and pools in groups
            ],
        )
    ]


def _by_cell(study: Study) -> list[tuple[str, tuple[str, ...], Figures]]:
    """Return each cell's generator, its groups, and best and median AUC per view and scenario."""
    every: dict[tuple[str, str, str, float], dict[tuple[str, str], list[float]]] = {}
    for row in study.proxies:
        key = (row.corpus, row.pool, row.generator, row.epsilon)
        found = every.setdefault(key, defaultdict(list))
        found[row.view, row.scenario].append(row.auc)
        found["any", row.scenario].append(row.auc)
    chosen = {
        (row.corpus, row.pool, row.generator, row.epsilon, row.scenario): row.crossfit_auc
        for row in study.cells
    }
    made = []
    for key, found in every.items():
        figures: Figures = defaultdict(dict)
        for (view, scenario), values in found.items():
            figures[view, "best"][scenario] = max(values)
            figures[view, "median"][scenario] = median(values)
            fitted = chosen.get((*key, scenario))
            if fitted is not None:
                figures["any", "crossfit"][scenario] = fitted
        made.append((key[2], study.groups(key[0], key[1]), figures))
    return made


def _steps(
    whose: tuple[str, str], step: tuple[str, str], cells: Sequence[Figures]
) -> Iterator[ScalingRow]:
    pools, generator = whose
    one, other = step
    for view, proxy in dict.fromkeys(key for figures in cells for key in figures):
        changes = [
            known[other] - known[one]
            for figures in cells
            if one in (known := figures.get((view, proxy), {})) and other in known
        ]
        if changes:
            change, low, high = mean_interval(changes)
            words = f"{one} to {other}"
            yield ScalingRow(generator, words, view, proxy, len(changes), change, low, high, pools)
