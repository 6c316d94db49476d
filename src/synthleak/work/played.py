"""A cell as it was played: its plan, figures and profile, as analyses see them."""

from __future__ import annotations

from functools import partial

from synthleak.analyses.cells import Cell
from synthleak.analyses.played import Played, PoolFacts, Signal
from synthleak.work.figures import figures_of
from synthleak.work.fusion import fusion_of, missing_fusions
from synthleak.work.profiles import normal_scores_of, profile_of
from synthleak.workbench import Workbench


def played_of(bench: Workbench, cell: Cell) -> Played:
    """Return a cell as it was played: what analyses look at beside the tables."""
    plan = bench.plans[cell.pool]
    proxies = [proxy for member in bench.plugins.families for proxy in member.proxies]
    return Played(
        cell=cell,
        pool=pool_facts(bench, cell.pool),
        seed=bench.spec.seed,
        generator_kind=bench.generator_of(cell)[1].kind,
        plan=plan,
        game=bench.spec.game,
        signals=tuple(
            Signal(baseline.scenario, proxy.name, proxy.view)
            for baseline in plan.baselines
            for proxy in proxies
        ),
        figures=figures_of(bench, cell),
        profile=profile_of(bench, cell),
        load_scores=partial(normal_scores_of, bench, cell),
        meta=None if cell in missing_fusions(bench, [cell]) else fusion_of(bench, cell),
    )


def pool_facts(bench: Workbench, pool: str) -> PoolFacts:
    """Return who is in a pool, and the rule that made it."""
    order = next(order for order in bench.plugins.orders if pool in order.names())
    plan = bench.plans[pool]
    return PoolFacts(
        corpus=bench.corpus.name,
        name=pool,
        rule=order.rule.kind,
        section=order.name,
        records=tuple(record.id for record in bench.records(plan.targets)),
        origins=plan.origins,
        match=getattr(order.rule, "match", None),
    )
