"""Where labels (who was a member, not the topics of a record) meet scores, as ranks.

A score table has an entry for each target on each set, numbered ``set · targets + target``. The
plan's labels become entries in `assignment_of`: an `Assignment` names the entries of members, and
for each round those of the non-members that they are compared with. `coins_for_epsilon` reads the
same labels for tests of a claim. All that measures scores takes them with assignments from here.
The observed one and every redraw pass through the same functions, so that a statistic cannot tell
them apart (docs/method.md §7, §8).

Scores enter as ranks. Whole numbers make sums exact, so that two assignments with the same
comparisons tie exactly, and each signal is sorted once, not in each of thousands of redraws.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.core.errors import ContractError
from synthleak.core.spec import GameSection
from synthleak.evidence.observation import Floats
from synthleak.metrics.null import SLACK
from synthleak.metrics.types import Bools, Ints, Rng, Signals
from synthleak.plan.plan import EVERY_ROUND, Design, Plan, Trials

FPR_LIMIT = 0.05
Small = NDArray[np.int32]


@dataclass(frozen=True)
class Assignment:
    """Entries `members[k]` and `others[round, j]`; column j is always the same set or record."""

    members: Ints
    others: Ints

    @property
    def trials(self) -> int:
        """The number of members and others compared in a round."""
        return len(self.members) + int(self.others.shape[1])

    def on_sets(self, kept: Ints, targets: int) -> Assignment:
        """Return the part on some sets, in ascending order, which are numbered anew."""

        def renumbered(entries: Ints) -> Ints:
            return np.searchsorted(kept, entries // targets) * targets + entries % targets

        columns = np.isin(self.others[0] // targets, kept)
        members = self.members[np.isin(self.members // targets, kept)]
        return Assignment(renumbered(members), renumbered(self.others[:, columns]))


def assignment_of(trials: Trials, targets: int) -> Assignment:
    """Write trials as entries; every round must compare the same members with as many others."""
    entries = trials.set * targets + trials.target
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
        members=entries[trials.member],
        others=entries[others][by_round].reshape(trials.rounds, count // trials.rounds),
    )


def redraw_assignments(
    design: Design, plan: Plan, game: GameSection, rng: Rng, count: int
) -> list[Assignment]:
    """Redraw `count` times by the plan's sampler (docs/method.md §8, null by redraw)."""
    targets = len(plan.targets)
    return [assignment_of(design.redraw(plan, game, rng), targets) for _ in range(count)]


def coins_of(assignment: Assignment, sets: int, targets: int) -> Bools:
    """Return the coins of a design in which every entry is a trial: `coins[set, target]`."""
    coins = np.zeros(sets * targets, dtype=np.bool_)
    coins[assignment.members] = True
    return coins.reshape(sets, targets)


def has_every_coin(plan: Plan) -> bool:
    """Say whether every record has a coin in every instance, and not one record in each."""
    assert plan.coins is not None
    sets = int(plan.coins.set.max()) + 1
    return len(plan.coins) == sets * len(plan.targets) and len(plan.coins) > 1


def coins_for_epsilon(plan: Plan, values: Floats) -> tuple[Floats, Bools] | None:
    """Return the scores and labels of all coins that a bound on ε may count; None without any.

    They are `values[set, target, signal]` with `member[set, target]` where every record has a coin
    in every instance, else `values[instance, signal]` and `member[instance]` of the one that has.
    """
    coins = plan.coins
    if coins is None:
        return None
    if has_every_coin(plan):
        return values, coins.member.reshape(values.shape[:2])
    return values[coins.set, coins.target], coins.member


@dataclass(frozen=True)
class Ranks:
    """`low[signal, entry]`: how many entries score lower; `high`: how many score no higher.

    `position` is where each entry stands in sorted order, ties in the order of entries.
    `same[signal]` is the first signal with the same ranks: only such signals need computing.
    """

    position: Small
    low: Small
    high: Small
    same: Ints

    @property
    def signals(self) -> int:
        return len(self.low)

    @property
    def distinct(self) -> Ints:
        """The signals that differ from all before them."""
        return np.flatnonzero(self.same == np.arange(self.signals))


def ranks_of(values: Floats) -> Ranks:
    """Rank `values[entry, signal]` within each signal.

    >>> ranks = ranks_of(np.array([[0.5, 1.0], [0.5, 2.0], [0.1, 0.0]]))
    >>> ranks.low.tolist(), ranks.high.tolist()
    ([[1, 1, 0], [1, 2, 0]], [[3, 3, 1], [2, 3, 1]])
    """
    columns = np.ascontiguousarray(values.T)
    order = np.argsort(columns, axis=1, kind="stable")
    position = np.empty(order.shape, dtype=np.int32)
    np.put_along_axis(position, order, np.arange(order.shape[1], dtype=np.int32)[None], axis=1)
    low, high = np.empty_like(position), np.empty_like(position)
    for signal, (column, sorting) in enumerate(zip(columns, order, strict=True)):
        ordered = column[sorting]
        low[signal] = np.searchsorted(ordered, column, side="left")
        high[signal] = np.searchsorted(ordered, column, side="right")
    first: dict[bytes, int] = {}
    same = [first.setdefault(row.tobytes(), signal) for signal, row in enumerate(low)]
    return Ranks(position, low, high, np.asarray(same, dtype=np.int64))


def auc(positive: Floats, negative: Floats) -> Floats:
    """Return the chance that a member outscores a non-member, ties counting half.

    The first axis is trials; all others are signals.

    >>> auc(np.array([2.0, 1.0]), np.array([0.0, 1.0]))
    array(0.875)
    """
    from scipy.stats import rankdata

    members, others = len(positive), len(negative)
    ranks = rankdata(np.concatenate([positive, negative]), axis=0)
    wins = ranks[:members].sum(axis=0) - members * (members + 1) / 2
    return np.asarray(wins / (members * others))


def tpr_at_fpr(positive: Floats, negative: Floats) -> Floats:
    """Return the largest share of members found while the false-positive rate is at most 5%.

    >>> tpr_at_fpr(np.array([3.0, 1.0]), np.array([2.0, 0.0]))
    array(0.5)
    """
    return np.asarray((positive > threshold_at_fpr(negative)).mean(axis=0))


def threshold_at_fpr(others: NDArray[Any]) -> NDArray[Any]:
    """Return the lowest threshold that at most 5% of the others pass, over the first axis.

    It is the score of the first non-member beyond the permitted false alarms. A threshold flags
    what lies strictly above it, so tied scores are flagged together.

    >>> threshold_at_fpr(np.arange(20)).tolist()
    18
    """
    index = len(others) - 1 - int(np.floor(FPR_LIMIT * len(others) + 1e-9))
    return np.asarray(np.partition(others, index, axis=0)[index])


@dataclass(frozen=True)
class RoundMeasurements:
    """The paper's measurements per proxy: AUC and TPR at 5% FPR, with `1.96 σ/√T` over rounds.

    The spread covers the sampling of negatives only; it is not an interval for the leakage.
    """

    auc: Floats
    auc_spread: Floats
    tpr: Floats
    tpr_spread: Floats
    n_positive: int
    n_negative: int


def round_measurements(values: Floats, assignment: Assignment) -> RoundMeasurements:
    """Evaluate every proxy of `values[set, target, proxy]` in every round, and average."""
    table = values.reshape(-1, values.shape[2])
    positive = table[assignment.members]
    aucs = np.array([auc(positive, table[others]) for others in assignment.others])
    tprs = np.array([tpr_at_fpr(positive, table[others]) for others in assignment.others])
    return RoundMeasurements(
        auc=aucs.mean(axis=0),
        auc_spread=_spread(aucs),
        tpr=tprs.mean(axis=0),
        tpr_spread=_spread(tprs),
        n_positive=len(assignment.members),
        n_negative=assignment.others.shape[1],
    )


def _spread(values: Floats) -> Floats:
    rounds = len(values)
    if rounds < 2:
        return np.zeros(values.shape[1])
    return np.asarray(1.96 * values.std(axis=0, ddof=1) / np.sqrt(rounds))


@dataclass(frozen=True)
class Chosen:
    """Per assignment: the signal chosen, its level, its TPR at 5% FPR and its pooled AUC."""

    signal: Ints
    level: Floats
    tpr: Floats
    pooled: Floats


def choose(
    ranks: Ranks, assignments: Sequence[Assignment], level: Floats, group: Signals
) -> Chosen:
    """Choose the best of a group's signals in every assignment, by `level[assignment, signal]`.

    A scenario reports its best proxy by AUC, ties by TPR, then by catalogue order. For the chance
    limit every redraw chooses its best in the same way (docs/method.md §7, §8).
    """
    signals, rates, pooled = [], [], []
    for assignment, values in zip(assignments, level[:, group], strict=True):
        tied = group[values >= values.max() - SLACK]
        tied = tied[np.unique(ranks.same[tied], return_index=True)[1]]
        tprs = [mean_tpr(ranks, assignment, signal) for signal in tied.tolist()]
        best = int(np.argmax(tprs))
        signals.append(int(tied[best]))
        rates.append(tprs[best])
        pooled.append(pooled_auc(ranks, assignment, int(tied[best])))
    chosen = np.asarray(signals, dtype=np.int64)
    return Chosen(
        chosen, level[np.arange(len(assignments)), chosen], np.asarray(rates), np.asarray(pooled)
    )


def mean_tpr(ranks: Ranks, assignment: Assignment, signal: int) -> float:
    """Return TPR at an FPR of at most 5% in every round, averaged over rounds."""
    low = ranks.low[signal]
    others = low[assignment.others]
    if not others.size or not assignment.members.size:
        return 0.0
    return float((low[assignment.members][:, None] > threshold_at_fpr(others.T)).mean())


def pooled_auc(ranks: Ranks, assignment: Assignment, signal: int) -> float:
    """Return the AUC of all members against all non-members of all rounds.

    Entries that no trial uses do not count.
    """
    low = ranks.low[signal]
    others, members = low[assignment.others], low[assignment.members]
    if not others.size or not members.size:
        return 0.5
    # Ranks are small whole numbers: counting them takes a third of the time of sorting.
    upto = np.cumsum(np.bincount(others.ravel(), minlength=len(low)))
    below = np.concatenate([[0], upto[:-1]])
    return float((below[members] + upto[members]).mean() / (2 * others.size))
