"""What an audit will do, before anything is spent: `synthleak plan show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from synthleak.calibration.scenarios import KNOWLEDGE
from synthleak.plan.plan import EVERY_ROUND, Plan
from synthleak.work.releases import wanted_sets
from synthleak.workbench import Workbench

Row = dict[str, Any]


@dataclass(frozen=True)
class Preview:
    """Four tables: whom the audit asks about, what the attackers know, what is made, how much."""

    pools: list[Row]
    attackers: list[Row]
    cells: list[Row]
    totals: Row


def preview(bench: Workbench) -> Preview:
    """Describe the plans of a spec. Nothing is generated."""
    first = next(iter(bench.plans.values()))
    return Preview(
        pools=[_pool(bench, name) for name in bench.pools],
        attackers=[_attacker(first, position) for position in range(len(first.baselines))],
        cells=_cells(bench),
        totals=_totals(bench),
    )


def count_releases(bench: Workbench) -> int:
    """Return how many releases the whole audit is made of."""
    return sum(len(wanted_sets(bench, cell)) for cell in bench.cells)


def count_observations(bench: Workbench) -> int:
    """Return how many observations are looked at: every release, and each raw set once."""
    raw = sum(item.form == "raw" for plan in bench.plans.values() for item in plan.sets)
    return count_releases(bench) + raw


def _pool(bench: Workbench, name: str) -> Row:
    pool, plan = bench.pools[name], bench.plans[name]
    played = len(np.unique(plan.trials.set))
    made = sum(item.form == "release" for item in plan.sets)
    return {
        "pool": name,
        "targets": len(pool.targets),
        "candidates": len(pool.candidates),
        "auxiliary": len(pool.auxiliary),
        "design": plan.design,
        "adjacency": plan.adjacency,
        "N": plan.nominal,
        "release size": plan.release_size,
        "games": played,
        "references": made - played,
        "raw sets": len(plan.sets) - made,
    }


def _attacker(plan: Plan, position: int) -> Row:
    baseline = plan.baselines[position]
    forms = sorted({plan.sets[column].form for column in np.flatnonzero(baseline.uses.any(axis=0))})
    sets = int(baseline.uses.sum(axis=1).max(initial=0))
    words = {"release": "releases", "raw": "raw sets"}
    return {
        "attacker": baseline.scenario,
        "knows": KNOWLEDGE.get(baseline.scenario, ""),
        "compares with": f"{sets} {' and '.join(words[form] for form in forms)}"
        if sets
        else "nothing",
    }


def _cells(bench: Workbench) -> list[Row]:
    rows = []
    for cell in bench.cells:
        trials = bench.plans[cell.pool].trials
        once = (trials.round == EVERY_ROUND) | (trials.round == 0)
        rows.append(
            {
                "pool": cell.pool,
                "generator": cell.generator,
                "epsilon": cell.epsilon,
                "releases": len(wanted_sets(bench, cell)),
                "members": int((trials.member & once).sum()),
                "non-members a round": int((~trials.member & once).sum()),
                "rounds": trials.rounds,
            }
        )
    return rows


def _totals(bench: Workbench) -> Row:
    proxies = sum(len(member.proxies) for member in bench.plugins.families)
    plans = bench.plans.values()
    budgets = sum(len(section.epsilon) for section, _ in bench.plugins.generators)
    values = sum(
        len(plan.targets) * sum(budgets if item.form == "release" else 1 for item in plan.sets)
        for plan in plans
    )
    return {
        "cells": len(bench.cells),
        "releases": count_releases(bench),
        "synthetic records": sum(
            bench.plans[cell.pool].release_size * len(wanted_sets(bench, cell))
            for cell in bench.cells
        ),
        "observations": count_observations(bench),
        "proxies": proxies,
        "scores": values * proxies,
    }
