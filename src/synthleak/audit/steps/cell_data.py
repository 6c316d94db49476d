"""A cell as it was played: its plan, figures and profile, as analyses see them."""

from __future__ import annotations

from functools import partial

from synthleak.analyses.cell_data import CellData, PoolFacts, Signal
from synthleak.audit.setup import Setup
from synthleak.audit.steps.measurements import MEASUREMENTS
from synthleak.audit.steps.meta_classifier import META
from synthleak.audit.steps.profiles import PROFILE, normal_scores_of
from synthleak.core.cell import Cell


def cell_data_of(setup: Setup, cell: Cell) -> CellData:
    """Return a cell as it was played: what analyses look at beside the tables."""
    plan = setup.plan_of(cell)
    return CellData(
        cell=cell,
        pool=pool_facts(setup, cell.pool),
        seed=setup.spec.seed,
        generator_kind=setup.generator_of(cell)[1].kind,
        plan=plan,
        game=setup.game_of(cell),
        signals=tuple(
            Signal(baseline.scenario, proxy.name, proxy.view)
            for baseline in plan.baselines
            for proxy in setup.proxies
        ),
        measurements=MEASUREMENTS.get(setup, cell),
        profile=PROFILE.get(setup, cell),
        load_scores=partial(normal_scores_of, setup, cell),
        meta=META.get(setup, cell) if META.exists(setup, cell) else None,
    )


def pool_facts(setup: Setup, pool: str) -> PoolFacts:
    """Return who is in a pool, and the rule that made it."""
    order = next(order for order in setup.plugins.orders if pool in order.names())
    plan = setup.plans[pool]
    return PoolFacts(
        corpus=setup.corpus.name,
        name=pool,
        rule=order.rule.kind,
        section=order.name,
        records=setup.target_names(pool),
        origins=plan.origins,
        match=getattr(order.rule, "match", None),
    )
