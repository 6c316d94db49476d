"""One cell of an audit: its scores, the plan that labels them, and who is compared with whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from synthleak.calibration import Scores
from synthleak.core.seeds import Part, digest, stream
from synthleak.core.spec import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.member_comparison import (
    MANY,
    MemberComparison,
    PoolComparison,
    SortedPoolComparison,
)
from synthleak.metrics.membership import Assignment, assignment_of, coins_of, redraw_assignments
from synthleak.metrics.types import Bools, Groups, Ints, Rng
from synthleak.metrics.verdict_statistics import (
    FEW_OTHERS,
    POOL_STATISTICS,
    RECORD_STATISTICS,
    PoolStatistic,
    Statistic,
)
from synthleak.metrics.within_records import RecordComparison
from synthleak.plan.plan import Design, Plan


def comparison_of(design: Design, plan: Plan, values: Floats) -> MemberComparison:
    """Return the comparison of a design for `values[set, target, signal]` of the plan's trials."""
    if design.within_records(plan):
        return RecordComparison(values)
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


@dataclass(frozen=True)
class ScoredCell:
    """One cell: calibrated scores per scenario, plan and design.

    `name` (the seed, then the cell's name) names its random streams. `contents` are hashes of the
    targets' content: what they decide cannot be tried again with another seed. `words` is the
    length of each target; members of a check are compared with records that are about as long.
    """

    scores: Sequence[Scores]
    design: Design
    plan: Plan
    game: GameSection
    name: Sequence[Part]
    contents: tuple[str, ...] = ()
    words: Ints | None = None

    @property
    def targets(self) -> int:
        return len(self.plan.targets)

    @property
    def sets(self) -> int:
        """The number of sets with trials; references come after them."""
        return int(self.plan.trials.set.max()) + 1

    @property
    def within_records(self) -> bool:
        """Whether each record is compared with itself over releases."""
        return self.design.within_records(self.plan)

    @cached_property
    def values(self) -> Floats:
        """`values[set, target, signal]`: the signals of all scenarios, one after another."""
        return np.concatenate([table.values[: self.sets] for table in self.scores], axis=2)

    @cached_property
    def groups(self) -> Groups:
        """The signals of each scenario, and all of them at the end."""
        ends = np.cumsum([0] + [len(table.proxies) for table in self.scores])
        return [*map(np.arange, ends[:-1], ends[1:]), np.arange(ends[-1])]

    @cached_property
    def comparison(self) -> MemberComparison:
        return comparison_of(self.design, self.plan, self.values)

    @cached_property
    def observed(self) -> Assignment:
        """Who was a member."""
        return assignment_of(self.plan.trials, self.targets)

    @property
    def coins(self) -> Bools:
        """`coins[set, target]`: on which sets each target was a member."""
        return coins_of(self.observed, self.sets, self.targets)

    def redraws(
        self, stream_name: str, count: int, reading: Plan | None = None
    ) -> list[Assignment]:
        """Return `count` assignments that were as likely as the observed one.

        `reading` is one of the plan's, where it has several; without it, the first.
        """
        rng, plan = self.stream(stream_name), reading or self.plan.readings[0]
        return redraw_assignments(self.design, plan, self.game, rng, count)

    def stream(self, *parts: Part) -> Rng:
        return stream(*self.name, *parts)

    def by_content(self, use: str) -> tuple[Ints, Rng]:
        """Return the rank of each target by its content, and a random stream of all contents.

        Both are the same whatever the seed, the coins and the order of the targets.
        """
        contents = self.contents or tuple(map(str, self.plan.targets))
        ranks = np.empty(len(contents), dtype=np.int64)
        ranks[np.argsort(np.asarray(contents), kind="stable")] = np.arange(len(contents))
        return ranks, stream(use, digest(sorted(contents)))
