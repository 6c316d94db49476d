"""Which records are members, as cells of the score table: the form in which statistics see coins.

A cell is one target on one set, numbered ``set · targets + target``. An assignment names the cells
of members, and for each round the cells of non-members that they are compared with. The observed
assignment and every redraw pass through the same functions: a statistic cannot tell them apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from synthleak.core.errors import ContractError
from synthleak.core.spec_sections import GameSection
from synthleak.metrics.types import Bools, Ints, Rng
from synthleak.plan.plan import EVERY_ROUND, Design, Plan, Trials


@dataclass(frozen=True)
class Assignment:
    """Cells `members[k]` and `others[round, j]`; column j is always the same set or record."""

    members: Ints
    others: Ints

    @property
    def trials(self) -> int:
        """The number of members and others compared in a round."""
        return len(self.members) + int(self.others.shape[1])


def assignment_of(trials: Trials, targets: int) -> Assignment:
    """Write trials as cells; every round must compare the same members with as many others."""
    cells = trials.set * targets + trials.target
    others = ~trials.member
    if (trials.weight != 1).any() or not (
        (trials.round[trials.member] == EVERY_ROUND).all() or trials.rounds == 1
    ):
        raise ContractError(
            "the trials of this design have weights, or members that change by round"
        )
    by_round = np.argsort(trials.round[others], kind="stable")
    count = len(by_round)
    if count % trials.rounds or len(set(np.bincount(trials.round[others]).tolist())) > 1:
        raise ContractError("the rounds of this design differ in their number of non-members")
    return Assignment(
        members=cells[trials.member],
        others=cells[others][by_round].reshape(trials.rounds, count // trials.rounds),
    )


def redraw_assignments(
    design: Design, plan: Plan, game: GameSection, rng: Rng, count: int
) -> list[Assignment]:
    """Redraw `count` times by the plan's sampler (docs/method.md §8, null by redraw)."""
    targets = len(plan.targets)
    return [assignment_of(design.redraw(plan, game, rng), targets) for _ in range(count)]


def coins_of(assignment: Assignment, sets: int, targets: int) -> Bools:
    """Return the coins of a design in which every cell is a trial: `coins[set, target]`."""
    coins = np.zeros(sets * targets, dtype=np.bool_)
    coins[assignment.members] = True
    return coins.reshape(sets, targets)
