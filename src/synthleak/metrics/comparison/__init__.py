"""Who is compared with whom: members with non-members, or each record with itself."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.comparison.base import Comparison
from synthleak.metrics.comparison.pool import PoolComparison
from synthleak.metrics.comparison.pool_by_sorting import MANY, SortedPoolComparison
from synthleak.metrics.comparison.within_records import WithinRecords
from synthleak.metrics.statistics.table import (
    FEW_OTHERS,
    POOL_STATISTICS,
    RECORD_STATISTICS,
    PoolStatistic,
    Statistic,
)
from synthleak.plan.plan import Design, Plan

__all__ = ["Comparison", "comparison_of", "statistics_of"]


def comparison_of(design: Design, plan: Plan, values: Floats) -> Comparison:
    """Return the comparison of a design for `values[set, target, signal]` of the plan's trials."""
    if design.within_records(plan):
        return WithinRecords(values)
    group = np.asarray(plan.blocks) if plan.blocks else None
    many = len(values) == 1 and values.shape[1] > MANY
    kind = SortedPoolComparison if many else PoolComparison
    return kind(values, group, _pool_statistics(design, plan))


def statistics_of(design: Design, plan: Plan) -> tuple[Statistic, ...]:
    """Return the statistics that the verdict on a plan combines."""
    if design.within_records(plan):
        return RECORD_STATISTICS
    return _pool_statistics(design, plan)


def _pool_statistics(design: Design, plan: Plan) -> tuple[PoolStatistic, ...]:
    return POOL_STATISTICS if design.many_others(plan) else FEW_OTHERS
