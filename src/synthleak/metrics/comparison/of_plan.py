"""Which way of comparing a plan asks for."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.comparison.base import Comparison
from synthleak.metrics.comparison.pool import WholePool
from synthleak.metrics.comparison.pool_by_sorting import MANY, LargePool
from synthleak.metrics.comparison.within_records import WithinRecords
from synthleak.metrics.statistics.table import AUC, FINE_TAILS, TAILS, TOP_TENTH
from synthleak.plan.plan import Design, Plan


def comparison_of(design: Design, plan: Plan, values: Floats) -> Comparison:
    """Return how `values[set, target, signal]` of the plan's trial sets are compared."""
    if design.within_records(plan):
        return WithinRecords(values)
    group = np.asarray(plan.blocks) if plan.blocks else None
    many = len(values) == 1 and values.shape[1] > MANY
    return (LargePool if many else WholePool)(values, group, _tails(design, plan))


def statistics_of(design: Design, plan: Plan) -> tuple[str, ...]:
    """Name the statistics that the verdict on a plan combines."""
    if design.within_records(plan):
        return AUC, TOP_TENTH
    return AUC, *_tails(design, plan)


def _tails(design: Design, plan: Plan) -> Mapping[str, float]:
    return FINE_TAILS if design.many_others(plan) else TAILS
