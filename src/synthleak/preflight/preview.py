"""What an audit will do, and of which records: `synthleak plan show` and `synthleak corpus`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from synthleak.audit.setup import Setup, cells_of_all_sizes, persons_in, proxies_of
from synthleak.audit.stages import Inputs, corpus_vectors, read, select
from synthleak.audit.steps.releases import (
    cells_with_releases,
    count_releases,
    naming,
    wanted_sets,
)
from synthleak.calibration import KNOWLEDGE
from synthleak.core.errors import UserError
from synthleak.core.spec import load_spec
from synthleak.core.store import MemoryStore
from synthleak.corpus.statistics import (
    THRESHOLD,
    TOKENIZER,
    Band,
    Combination,
    Statistics,
    frequency_bands,
    near_duplicates,
    ranked_combinations,
    statistics_of,
)
from synthleak.encoders.encoder import Vectors
from synthleak.plan.plan import EVERY_ROUND, Plan
from synthleak.pools.pool import Overlap, Pool, overlaps_of

Row = dict[str, Any]


def preview(setup: Setup) -> dict[str, Any]:
    """Return tables by name: the pools, what the attackers know, the cells, and totals.

    `notes` say of each generator that cannot make releases here what it needs.
    """
    first = next(iter(setup.plans.values()))
    return {
        "pools": [_pool(setup, name) for name in setup.pools]
        + [_left_out(setup, order.name) for order in setup.empty],
        "attackers": [_attacker(first, position) for position in range(len(first.baselines))],
        "cells": _cells(setup),
        "totals": _totals(setup),
        "notes": list(_notes(setup)),
    }


def _notes(setup: Setup) -> Iterator[str]:
    for section, generator in setup.plugins.generators:
        try:
            with naming(section.name):
                generator.check()
        except UserError as error:
            yield str(error)


def count_observations(setup: Setup) -> int:
    """Return the number of observations: a release by each pool and size, a raw set once."""
    raw = sum(item.form == "raw" for plan in setup.plans.values() for item in plan.sets)
    return sum(len(wanted_sets(setup, cell)) for cell in cells_of_all_sizes(setup)) + raw


def _pool(setup: Setup, name: str) -> Row:
    pool, plan = setup.pools[name], setup.plans[name]
    smaller = setup.spec.game.smaller_sizes
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
        **({"also seen in": ", ".join(map(str, smaller))} if smaller else {}),
        "games": games,
        "references": releases - games,
        "raw sets": len(plan.sets) - releases,
    }


def _left_out(setup: Setup, name: str) -> Row:
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
    proxies = len(proxies_of(setup))
    plans = setup.plans.values()
    budgets = sum(len(section.epsilon) for section, _ in setup.plugins.generators)
    values = sum(
        len(plan.targets) * sum(budgets if item.form == "release" else 1 for item in plan.sets)
        for plan in plans
    )
    people: Row = {}
    persons = persons_in(setup)
    if persons is not None:
        part, owned = (sum(map(len, side)) for side in (persons.records, persons.owned))
        people = {"people": len(persons.records), "records left out": owned - part}
    return {
        **people,
        "cells": len(setup.cells),
        "releases": count_releases(setup),
        "synthetic records": sum(
            setup.plans[cell.pool].release_size * len(wanted_sets(setup, cell))
            for cell in cells_with_releases(setup)
        ),
        "observations": count_observations(setup),
        "proxies": proxies,
        "scores": values * proxies,
    }


MOST_COMPARED = 150_000
"""Number of records above which near-duplicates are not counted: every pair is compared."""


@dataclass(frozen=True)
class NearDuplicates:
    """The number of records that another nearly repeats; None where they were not counted."""

    records: int | None
    cosine: float
    encoder: str


@dataclass(frozen=True)
class Survey:
    """The corpus that was read, and the pools that the spec selects from it."""

    name: str
    description: str
    tokenizer: str
    statistics: Statistics
    near_duplicates: NearDuplicates
    combinations: tuple[Combination, ...]
    frequencies: tuple[Band, ...]
    pools: tuple[dict[str, Any], ...]
    overlaps: tuple[Overlap, ...]


def survey(spec: Path | str) -> Survey:
    """Read the corpus of a spec, select its pools, and describe both; nothing is written."""
    inputs, store = read(load_spec(spec)), MemoryStore()
    vectors = cache(partial(corpus_vectors, inputs, store))
    corpus, pools = inputs.corpus, select(inputs, store, vectors)
    combinations = ranked_combinations(corpus)
    return Survey(
        name=corpus.name,
        description=corpus.description,
        tokenizer=TOKENIZER,
        statistics=statistics_of(corpus),
        near_duplicates=_near(inputs, vectors),
        combinations=tuple(combinations),
        frequencies=tuple(frequency_bands(combinations)),
        pools=tuple(_pool_rows(inputs, pools)),
        overlaps=tuple(overlaps_of(pools)),
    )


def _near(inputs: Inputs, vectors: Callable[[], Vectors]) -> NearDuplicates:
    n_repeated = None
    if len(inputs.corpus) <= MOST_COMPARED:
        n_repeated = int(near_duplicates(vectors()).sum())
    return NearDuplicates(n_repeated, THRESHOLD, inputs.plugins.pool_encoder.kind)


def _pool_rows(inputs: Inputs, pools: Mapping[str, Pool]) -> list[dict[str, Any]]:
    """Return a row per pool; one that was left out is empty."""
    return [
        {
            "pool": name,
            "rule": order.rule.kind,
            "targets": len(pool.targets) if pool else 0,
            "candidates": len(pool.candidates) if pool else None,
            "auxiliary": len(pool.auxiliary) if pool else None,
        }
        for order, name, pool in (
            (order, name, pools.get(name))
            for order in inputs.plugins.orders
            for name in order.names()
        )
    ]
