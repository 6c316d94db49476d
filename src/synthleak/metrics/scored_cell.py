"""The scores of a cell with the plan that says which records were members.

Labels are joined to scores here for the measurements, curves and profile of a cell; also in
`metrics/rounds.py`, `metrics/meta_classifier.py`, and in the analyses of prior attacks, merged
pools and consistency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from synthleak.calibration import Scores
from synthleak.core.identity import digest
from synthleak.core.seeds import Part, stream
from synthleak.core.spec_sections import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.assignment import Assignment, assignment_of, redraw_assignments
from synthleak.metrics.comparison import Comparison, comparison_of
from synthleak.metrics.types import Groups, Ints, Rng
from synthleak.plan.plan import Design, Plan


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
    def drawn(self) -> Ints | None:
        """What was drawn as a whole, per target; None where each target was drawn alone."""
        return np.asarray(self.plan.blocks) if self.plan.blocks else None

    @property
    def targets(self) -> int:
        """The number of records in the pool."""
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
    def comparison(self) -> Comparison:
        """Who is compared with whom."""
        return comparison_of(self.design, self.plan, self.values)

    @cached_property
    def observed(self) -> Assignment:
        """Who was a member."""
        return assignment_of(self.plan.trials, self.targets)

    def redraws(
        self, stream_name: str, count: int, reading: Plan | None = None
    ) -> list[Assignment]:
        """Return `count` assignments that were as likely as the observed one.

        `reading` is one of the plan's, where it has several; without it, the first.
        """
        rng, plan = self.stream(stream_name), reading or self.plan.readings[0]
        return redraw_assignments(self.design, plan, self.game, rng, count)

    def stream(self, *parts: Part) -> Rng:
        """Return one of the cell's random streams."""
        return stream(*self.name, *parts)

    def by_content(self, use: str) -> tuple[Ints, Rng]:
        """Return the rank of each target by its content, and a random stream of all contents.

        Both are the same whatever the seed, the coins and the order of the targets.
        """
        contents = self.contents or tuple(map(str, self.plan.targets))
        ranks = np.empty(len(contents), dtype=np.int64)
        ranks[np.argsort(np.asarray(contents), kind="stable")] = np.arange(len(contents))
        return ranks, stream(use, digest(sorted(contents)))
