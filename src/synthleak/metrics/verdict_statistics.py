"""The statistics that the verdict combines (docs/method.md §8.2).

To add one, write an entry here, raise `STATISTICS_VERSION`, and add its two columns (`x`,
`x_ceiling`) to `ProxyRow` in `analyses/cells.py`: everything else loops over the table, but the
figure of proxies, which shows `auc` and `tail`.

All need one running sum of non-members over ranks per signal and assignment. Where every entry is a
member or a non-member, as in a check, no running sum over all is needed: the ranks of members among
members add up to a constant, and a tail needs the entries of its top alone. The results are equal
to the last digit: what is added up are the same numbers in the same order, or whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from synthleak.evidence.observation import Floats
from synthleak.metrics.membership import Assignment, Ranks
from synthleak.metrics.types import Bools, Ints

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
    return np.where(count > 1e-9, (total - 0.5 * idle) / np.where(count > 1e-9, count, 1.0), 0.5)


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
    this share of the non-members reaches, and `per_member` may read `below` alone: a check, which
    counts the top only, does not know `upto`.
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
    return np.asarray(np.partition(shares, first, axis=1)[:, first:].mean(axis=1))


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
    columns: dict[str, list[Statistic]] = {}
    for name in dict.fromkeys(names):
        if name != AUC.name:
            columns.setdefault(BY_NAME[name].column, []).append(BY_NAME[name])
    return columns


@dataclass(frozen=True)
class Statistics:
    """`values[statistic, assignment, signal]`; the first statistic is the AUC."""

    names: tuple[str, ...]
    values: Floats

    @property
    def auc(self) -> Floats:
        return np.asarray(self.values[0])


BLOCK = 64
"""Assignments per block: their running sums fit the processor's cache."""


def pool_statistics(
    ranks: Ranks, assignments: Sequence[Assignment], wanted: Sequence[PoolStatistic] = FEW_OTHERS
) -> Statistics:
    """Return the wanted statistics of every assignment and signal."""
    entries = ranks.low.shape[1]
    values = np.empty((len(wanted), len(assignments), ranks.signals))
    split = all(item is AUC or item.limit is not None for item in wanted) and all(
        _splits(assignment, entries) for assignment in assignments
    )
    if split:
        _split_statistics(ranks, assignments, wanted, values)
        return Statistics(tuple(item.name for item in wanted), values[:, :, ranks.same])
    for start in range(0, len(assignments), BLOCK):
        block = _Block(assignments[start : start + BLOCK], entries)
        rows = slice(start, start + BLOCK)
        for signal in ranks.distinct:
            below, upto = block.running(ranks, signal)
            for number, item in enumerate(wanted):
                counts = item.per_member(below, upto, block.total)
                values[number, rows, signal] = block.mean(counts, item.empty)
    return Statistics(tuple(item.name for item in wanted), values[:, :, ranks.same])


def _splits(assignment: Assignment, entries: int) -> bool:
    """Say whether every entry is a member or a non-member, once, and members come in order."""
    members, others = assignment.members, assignment.others
    if len(others) != 1 or len(members) + others.size != entries or not others.size:
        return False
    seen = np.zeros(entries, dtype=np.bool_)
    seen[members] = True
    seen[others] = True
    return bool(seen.all() and (members[1:] > members[:-1]).all())


def _split_statistics(
    ranks: Ranks, assignments: Sequence[Assignment], wanted: Sequence[PoolStatistic], values: Floats
) -> None:
    """Fill `values[statistic, assignment, signal]` where every assignment splits all entries."""
    entries, distinct = ranks.low.shape[1], ranks.distinct
    doubled = (ranks.low[distinct] + ranks.high[distinct]).T.astype(np.float64)
    for start in range(0, len(assignments), BLOCK):
        block = assignments[start : start + BLOCK]
        rows = slice(start, start + len(block))
        coins = np.zeros((len(block), entries), dtype=np.bool_)
        for row, assignment in enumerate(block):
            coins[row, assignment.members] = True
        members = coins.sum(axis=1, dtype=np.float64)
        others = entries - members
        pairs = members * others
        top = _Top(coins, others, max(item.limit or 0.0 for item in wanted))
        for number, item in enumerate(wanted):
            if item is AUC:
                # Doubled ranks of members among themselves add up to their number squared.
                wins = (coins.astype(np.float64) @ doubled - (members**2)[:, None]) / 2
                values[number, rows, distinct] = _shares(wins, pairs[:, None], item.empty).T
        tails = [(number, item) for number, item in enumerate(wanted) if item is not AUC]
        for signal in distinct if tails else ():
            whose, reached = top.of(ranks, signal)
            below = others[whose] - reached
            for number, item in tails:
                counts = item.per_member(below, below, others[whose])
                sums: Floats = np.bincount(whose, counts, len(block)).astype(np.float64)
                values[number, rows, signal] = _shares(sums, pairs, item.empty)


def _shares(sums: Floats, pairs: Floats, empty: float) -> Floats:
    out = np.full(sums.shape, empty)
    return np.asarray(np.divide(sums, pairs, out=out, where=pairs > 0))


class _Top:
    """The members of some assignments whom few non-members reach."""

    def __init__(self, coins: Bools, others: Floats, limit: float) -> None:
        self._coins = coins
        # One more than a tail counts, and one for rounding.
        self._most = int(np.ceil(limit * others.max())) + 2
        share = max(float(others.min()), 1.0) / coins.shape[1]
        self._first = int(1.2 * self._most / share) + 64

    def of(self, ranks: Ranks, signal: int) -> tuple[Ints, Floats]:
        """Return (assignment, number of non-members who score at least as high), in entry order.

        Of members whom too many reach some are missing: they count nothing.
        """
        low = ranks.low[signal]
        falling = np.empty(len(low), dtype=np.int64)
        falling[len(low) - 1 - ranks.position[signal]] = np.arange(len(low))
        count = self._first
        while True:
            # Entries that tie with the last one belong to the top too.
            count = len(low) - int(low[falling[min(count, len(low)) - 1]])
            entries = falling[:count]
            alarms = np.cumsum(~self._coins[:, entries], axis=1, dtype=np.int32)
            if count == len(low) or alarms[:, -1].min() >= self._most:
                break
            count *= 2
        entries = np.sort(entries)
        reached = alarms[:, len(low) - 1 - low[entries]]
        row, column = np.nonzero(self._coins[:, entries] & (reached <= self._most))
        return row, reached[row, column].astype(np.float64)


class _Block:
    """Some assignments, prepared for looking up any signal."""

    def __init__(self, assignments: Sequence[Assignment], entries: int) -> None:
        counts = [
            np.bincount(assignment.others.ravel(), minlength=entries) for assignment in assignments
        ]
        others = [np.flatnonzero(count) for count in counts]
        rows = np.repeat(np.arange(len(assignments)), [len(other) for other in others])
        self._other = np.concatenate(others)
        self._weight = np.concatenate(
            [count[other] for count, other in zip(counts, others, strict=True)]
        ).astype(np.uint32)
        self._slot = rows * (entries + 1) + 1
        sizes = [len(assignment.members) for assignment in assignments]
        self._row = np.repeat(np.arange(len(assignments)), sizes)
        self._member = np.concatenate([assignment.members for assignment in assignments])
        self._start = self._row * (entries + 1)
        self._sizes = np.asarray(sizes, dtype=np.float64)
        self._totals = np.asarray(
            [assignment.others.size for assignment in assignments], dtype=np.float64
        )
        self.total = self._totals[self._row]
        self._sums = np.zeros((len(assignments), entries + 1), dtype=np.uint32)
        self._running = np.empty_like(self._sums)

    def running(self, ranks: Ranks, signal: int) -> tuple[Floats, Floats]:
        """Return, per member, how many non-members score lower, and how many no higher."""
        self._sums.fill(0)
        self._sums.ravel()[self._slot + ranks.position[signal, self._other]] = self._weight
        np.cumsum(self._sums, axis=1, out=self._running)
        flat = self._running.ravel()
        below = flat[self._start + ranks.low[signal, self._member]]
        upto = flat[self._start + ranks.high[signal, self._member]]
        return below.astype(np.float64), upto.astype(np.float64)

    def mean(self, counts: Floats, empty: float) -> Floats:
        """Return the mean over each assignment's members of counts, as shares of non-members.

        An assignment without members, or without others, counts as `empty`.
        """
        sums = np.bincount(self._row, counts, minlength=len(self._sizes))
        pairs = self._sizes * self._totals
        return np.divide(sums, pairs, out=np.full_like(pairs, empty), where=pairs > 0)
