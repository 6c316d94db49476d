"""What an audit will do, before any work starts: `synthleak plan show`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from synthleak.audit.setup import Setup
from synthleak.audit.steps.releases import wanted_sets
from synthleak.calibration import KNOWLEDGE
from synthleak.core.cell import Cell
from synthleak.plan.plan import EVERY_ROUND, Plan

Row = dict[str, Any]


@dataclass(frozen=True)
class Preview:
    """Four tables: the pools, what the attackers know, the cells, and totals."""

    pools: list[Row]
    attackers: list[Row]
    cells: list[Row]
    totals: Row


def preview(setup: Setup) -> Preview:
    """Describe the plans of a spec. Nothing is generated."""
    first = next(iter(setup.plans.values()))
    return Preview(
        pools=[_pool(setup, name) for name in setup.pools]
        + [_left_out(setup, name) for name in setup.left_out],
        attackers=[_attacker(first, position) for position in range(len(first.baselines))],
        cells=_cells(setup),
        totals=_totals(setup),
    )


def _made(setup: Setup) -> list[Cell]:
    """Return the cells whose releases are made: where pools share them, those of one pool."""
    first = next(iter(setup.plans))
    return [c for c in setup.cells if not setup.spec.game.share_releases or c.pool == first]


def count_releases(setup: Setup) -> int:
    """Return the number of releases of the whole audit."""
    return sum(len(wanted_sets(setup, cell)) for cell in _made(setup))


def count_observations(setup: Setup) -> int:
    """Return the number of observations: every release by each pool, and each raw set once."""
    raw = sum(item.form == "raw" for plan in setup.plans.values() for item in plan.sets)
    return sum(len(wanted_sets(setup, cell)) for cell in setup.cells) + raw


def _pool(setup: Setup, name: str) -> Row:
    pool, plan = setup.pools[name], setup.plans[name]
    games = len(np.unique(plan.trials.set))
    releases = sum(item.form == "release" for item in plan.sets)
    return {
        "pool": name,
        "targets": len(pool.targets),
        **({} if pool.persons is None else {"of records": len(pool.asked)}),
        "candidates": len(pool.candidates),
        "auxiliary": len(pool.auxiliary),
        "design": plan.design,
        "adjacency": plan.adjacency,
        "N": plan.nominal,
        "release size": plan.release_size,
        "games": games,
        "references": releases - games,
        "raw sets": len(plan.sets) - releases,
    }


def _left_out(setup: Setup, name: str) -> Row:
    """Return the row of an optional pool whose rule selects nobody."""
    return dict.fromkeys(_pool(setup, next(iter(setup.pools)))) | {"pool": name, "targets": 0}


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


def _cells(setup: Setup) -> list[Row]:
    rows = []
    for cell in setup.cells:
        trials = setup.plans[cell.pool].trials
        once = (trials.round == EVERY_ROUND) | (trials.round == 0)
        rows.append(
            {
                "pool": cell.pool,
                "generator": cell.generator,
                "epsilon": cell.epsilon,
                "releases": len(wanted_sets(setup, cell)),
                "members": int((trials.member & once).sum()),
                "non-members a round": int((~trials.member & once).sum()),
                "rounds": trials.rounds,
            }
        )
    return rows


def _totals(setup: Setup) -> Row:
    proxies = len(setup.proxies)
    plans = setup.plans.values()
    budgets = sum(len(section.epsilon) for section, _ in setup.plugins.generators)
    values = sum(
        len(plan.targets) * sum(budgets if item.form == "release" else 1 for item in plan.sets)
        for plan in plans
    )
    people: Row = {}
    if setup.persons is not None:
        part, owned = (sum(map(len, side)) for side in (setup.persons.records, setup.persons.owned))
        people = {"people": len(setup.persons.records), "records left out": owned - part}
    return {
        **people,
        "cells": len(setup.cells),
        "releases": count_releases(setup),
        "synthetic records": sum(
            setup.plans[cell.pool].release_size * len(wanted_sets(setup, cell))
            for cell in _made(setup)
        ),
        "observations": count_observations(setup),
        "proxies": proxies,
        "scores": values * proxies,
    }
