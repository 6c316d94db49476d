"""Which way of comparing a plan asks for."""

from __future__ import annotations

from synthleak.evidence.observation import Floats
from synthleak.metrics.comparison import Comparison
from synthleak.metrics.large_pool import MANY, LargePool
from synthleak.metrics.whole_pool import WholePool
from synthleak.metrics.within_records import WithinRecords
from synthleak.plan.plan import Design, Plan


def comparison_of(design: Design, plan: Plan, values: Floats) -> Comparison:
    """Return how `values[set, target, signal]` of the plan's trial sets are compared."""
    if design.within_records(plan):
        return WithinRecords(values)
    many = len(values) == 1 and values.shape[1] > MANY
    return LargePool(values) if many else WholePool(values)
