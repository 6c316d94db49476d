"""Which way of comparing a plan asks for."""

from __future__ import annotations

from synthleak.evidence.observation import Floats
from synthleak.metrics.comparison import Comparison
from synthleak.metrics.whole_pool import WholePool
from synthleak.metrics.within_records import WithinRecords
from synthleak.plan.plan import Design, Plan


def comparison_of(design: Design, plan: Plan, values: Floats) -> Comparison:
    """Return how `values[set, target, signal]` of the plan's trial sets are compared."""
    return WithinRecords(values) if design.within_records(plan) else WholePool(values)
