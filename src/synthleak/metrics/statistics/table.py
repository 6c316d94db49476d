"""The statistics that the verdict combines (docs/method.md §8).

A leak can be small in many members, or large in a few. Each kind has its statistic, and the test in
`metrics/null.py` combines them into one p-value. To add one, write an entry here, raise
`STATISTICS_VERSION`, and add its column to `ProxyRow` in `analyses/cells.py`: everything else loops
over the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.types import Bools

STATISTICS_VERSION = 1
"""Raise it with every change of the statistics: stored measurements are then made again."""
TENTH = 0.1


def tenth(count: int) -> int:
    """Return the number of records in a tenth: at least one (docs/method.md §10, k of S10).

    >>> [tenth(n) for n in (1, 14, 15, 60)]
    [1, 1, 2, 6]
    """
    return max(1, int(TENTH * count + 0.5))


def mean_compared(total: Floats, idle: Floats, records: float | Floats) -> Floats:
    """Return the mean over the records that compare something; 0.5 where none does.

    `total` is the sum over all `records`; of these, `idle` compare nothing and count 0.5 in it.
    """
    count = records - idle
    mean: Floats = np.where(
        count > 1e-9, (total - 0.5 * idle) / np.where(count > 1e-9, count, 1.0), 0.5
    )
    return mean


@dataclass(frozen=True)
class Statistic:
    """A statistic: its name in the results, its title, and its column in `proxies.csv`.

    `short` is the title within a sentence, `heading` the heading of a table's column.
    """

    name: str
    title: str
    short: str
    heading: str
    column: str


@dataclass(frozen=True)
class PoolStatistic(Statistic):
    """Compares members with non-members: a mean over members of what `per_member` returns.

    `per_member(below, upto, total)` gets the numbers of non-members that score lower than a member,
    that score no higher, and of all; its largest value is `total`, which counts as 1. An assignment
    without members or without others counts as `empty`. A statistic that `needs_many_others` is
    used where 500 non-members or more are planned. With a `limit`, members count 0 whom more than
    this share of the non-members reaches.
    """

    per_member: Callable[[Floats, Floats, Floats], Floats]
    empty: float
    needs_many_others: bool = False
    limit: float | None = None


@dataclass(frozen=True)
class RecordStatistic(Statistic):
    """Compares each record with itself: `combine(shares, idle)` summarises AUC_x over records.

    `shares[assignment, target, signal]` is AUC_x, `idle[assignment, target]` says which records
    compare nothing; the result is [assignment, signal].
    """

    combine: Callable[[Floats, Bools], Floats]


def _mean_rank(below: Floats, upto: Floats, total: Floats) -> Floats:
    return (below + upto) / 2


def tail(name: str, limit: float, column: str, *, needs_many_others: bool = False) -> PoolStatistic:
    """Return the mean TPR over false-positive rates up to `limit`.

    A member is reached at the FPR G = share of non-members that score at least as high, so the area
    under the step ROC up to q, divided by q, is the mean over members of max(0, 1 − G / q).
    """

    def per_member(below: Floats, upto: Floats, total: Floats) -> Floats:
        return np.maximum(total - (total - below) / limit, 0.0)

    title = f"mean TPR up to {100 * limit:g}% FPR"
    heading = f"Tail {100 * limit:g}%"
    return PoolStatistic(
        name, title, "tail", heading, column, per_member, 0.0, needs_many_others, limit
    )


def _mean_auc(shares: Floats, idle: Bools) -> Floats:
    missing = idle.sum(axis=1)[:, None].astype(np.float64)
    return mean_compared(shares.sum(axis=1), missing, shares.shape[1])


def _mean_of_largest_tenth(shares: Floats, idle: Bools) -> Floats:
    first = shares.shape[1] - tenth(shares.shape[1])
    mean: Floats = np.partition(shares, first, axis=1)[:, first:].mean(axis=1)
    return mean


AUC = PoolStatistic("auc", "AUC", "AUC", "AUC", "auc", _mean_rank, 0.5)
TAIL = tail("tail5", 0.05, "tail")
POOL_STATISTICS = (
    AUC,
    TAIL,
    tail("tail1", 0.01, "tail1"),
    tail("tail02", 0.002, "tail02", needs_many_others=True),
)
FEW_OTHERS = tuple(item for item in POOL_STATISTICS if not item.needs_many_others)
RECORD_STATISTICS = (
    RecordStatistic("auc", "AUC", "AUC", "AUC", "auc", _mean_auc),
    RecordStatistic(
        "top_tenth",
        "mean AUC of the tenth of records that leak most",
        "most exposed tenth",
        "Top tenth",
        "tail",
        _mean_of_largest_tenth,
    ),
)
"""The AUC is always first: power, selection and `Null` read it by its position."""

BY_NAME: dict[str, Statistic] = {s.name: s for s in (*POOL_STATISTICS, *RECORD_STATISTICS)}


def by_column(names: Iterable[str]) -> dict[str, list[Statistic]]:
    """Return the columns of `proxies.csv` that some statistics fill, except the AUC's.

    >>> [(column, [s.heading for s in of]) for column, of in by_column(["auc", "tail5"]).items()]
    [('tail', ['Tail 5%'])]
    """
    found: dict[str, list[Statistic]] = {}
    for name in dict.fromkeys(names):
        if name != AUC.name:
            found.setdefault(BY_NAME[name].column, []).append(BY_NAME[name])
    return found


@dataclass(frozen=True)
class Statistics:
    """`values[statistic, assignment, signal]`; the first statistic is the AUC."""

    names: tuple[str, ...]
    values: Floats

    @property
    def auc(self) -> Floats:
        """The AUC as [assignment, signal]."""
        auc: Floats = self.values[0]
        return auc
