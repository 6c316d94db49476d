"""Slow, obvious reimplementations of the statistics: loops over trials, one definition per line."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import numpy as np


def auc(members: Sequence[float], others: Sequence[float]) -> float:
    pairs = [(m > o) + (m == o) / 2 for m in members for o in others]
    return sum(pairs) / len(pairs)


def tpr(members: Sequence[float], others: Sequence[float], limit: float = 0.05) -> float:
    best = 0.0
    for threshold in [*members, *others, -np.inf]:
        if sum(o > threshold for o in others) <= limit * len(others) + 1e-9:
            best = max(best, sum(m > threshold for m in members) / len(members))
    return best


def tail(members: Sequence[float], others: Sequence[float], limit: float = 0.05) -> float:
    """Mean TPR over FPR in (0, limit]: the step ROC, integrated between its own steps."""
    points = sorted(
        {
            (sum(o > t for o in others) / len(others), sum(m > t for m in members) / len(members))
            for t in [*members, *others, -np.inf]
        }
    )
    steps = sorted({0.0, limit, *(f for f, _ in points if f < limit)})
    area = 0.0
    for low, high in itertools.pairwise(steps):
        area += (high - low) * max((t for f, t in points if f <= low + 1e-12), default=0.0)
    return area / limit


def largest(values: np.ndarray) -> list[float]:
    """T of every assignment, for `values[assignment, signal]` of one statistic."""
    columns = [
        (column - column.mean()) / column.std() for column in values.T if column.std() > 1e-9
    ]
    return [max(column[i] for column in columns) for i in range(len(values))]


def min_p(values: np.ndarray) -> tuple[list[float], float]:
    """U of every assignment and p, for `values[statistic, assignment, signal]`, observed first."""
    every = [largest(table) for table in values]
    count = values.shape[1]
    smallest = [
        min(sum(t >= own[i] - 1e-9 for t in own) / count for own in every) for i in range(count)
    ]
    return smallest, sum(u <= smallest[0] for u in smallest) / count


def lone_outcomes(
    instances: int, records: int
) -> Iterator[tuple[list[int], list[bool], list[int]]]:
    """Every outcome of `lone` with one round and all others as candidates; all equally likely.

    Designations are even: different records, or each record equally often.
    """
    if instances <= records:
        designations = set(itertools.permutations(range(records), instances))
    else:
        assert instances % records == 0
        designations = set(itertools.permutations([*range(records)] * (instances // records)))
    for targets in sorted(designations):
        others = [[x for x in range(records) if x != target] for target in targets]
        for joined in itertools.combinations(range(instances), instances // 2):
            for candidates in itertools.product(*others):
                yield list(targets), [i in joined for i in range(instances)], list(candidates)


def one_run_p(coins: int, guesses: int, right: int, points: Sequence[tuple[float, float]]) -> float:
    """The largest P[N ≥ right] over all distributions of N that the points (ε, δ) allow.

    A linear programme over the probabilities of 0 to `guesses` right guesses. Point by point: a
    right guess among i or more, against a wrong one among i − 1 or more.
    """
    from math import exp

    from scipy.optimize import linprog

    numbers = np.arange(guesses + 1)
    rows, limits = [], []
    for epsilon, delta in points:
        for i in range(1, guesses + 1):
            hits = np.where(numbers >= i, numbers / coins, 0.0)
            misses = np.where(numbers >= i - 1, (guesses - numbers) / coins, 0.0)
            rows += [hits - exp(epsilon) * misses, hits - exp(-epsilon) * misses]
            limits += [delta, 1 - exp(-epsilon) * (1 - delta)]
    wanted = -(numbers >= right).astype(float)
    solved = linprog(wanted, rows, limits, np.ones((1, guesses + 1)), [1.0])
    return float(-solved.fun)
