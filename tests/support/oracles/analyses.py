"""Slow, obvious versions of what the analyses count: loops over records, releases and draws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, mean

import numpy as np
from scipy.stats import spearmanr


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Rank all scores of a cell together, ties sharing their mean rank, and take normal scores."""
    flat = values.ravel().tolist()
    made = []
    for value in flat:
        below = sum(other < value for other in flat)
        upto = sum(other <= value for other in flat)
        made.append(NormalDist().inv_cdf((below + upto) / (2 * len(flat))))
    return np.array(made).reshape(values.shape)


def vulnerability(
    scores: np.ndarray, joined: Sequence[set[int]], absent: Sequence[set[int]]
) -> list[float]:
    """V(x) from the releases that each record joined, and those it did not."""
    found = []
    for record, (inside, outside) in enumerate(zip(joined, absent, strict=True)):
        if not inside or not outside:
            found.append(math.nan)
            continue
        found.append(
            mean(scores[i, record] for i in inside) - mean(scores[i, record] for i in outside)
        )
    return found


def paper_vulnerability(values: np.ndarray, trials: Sequence[tuple[int, int, bool]]) -> list[float]:
    """The paper's V(x): z-scores over the cell, a mean over trials of either kind.

    `trials` are (release, record, member), a non-member's once for every round that drew it.
    """
    flat = values.ravel().tolist()
    middle = mean(flat)
    spread = math.sqrt(mean((value - middle) ** 2 for value in flat))
    found = []
    for record in range(values.shape[1]):
        sides = [
            [(values[i, x] - middle) / spread for i, x, member in trials if (x, member) == wanted]
            for wanted in ((record, True), (record, False))
        ]
        found.append(mean(sides[0]) - mean(sides[1]) if all(sides) else math.nan)
    return found


def top_share(v: Sequence[float]) -> float:
    """S10: the share of all positive vulnerability in the top tenth, rounded half up."""
    known = sorted((value for value in v if not math.isnan(value)), reverse=True)
    k = max(1, math.floor(0.1 * len(known) + 0.5))
    positive = [max(value, 0.0) for value in known]
    return sum(positive[:k]) / sum(positive)


def reliability(scores: np.ndarray, coins: np.ndarray, halvings: Sequence[Sequence[int]]) -> float:
    """Correlate V of one half of the releases with V of the other, and stretch."""
    found = []
    for first in halvings:
        sides = []
        for half in (set(first), set(range(len(scores))) - set(first)):
            joined = [{i for i in half if coins[i, x]} for x in range(coins.shape[1])]
            absent = [{i for i in half if not coins[i, x]} for x in range(coins.shape[1])]
            sides.append(vulnerability(scores, joined, absent))
        known = [i for i, pair in enumerate(zip(*sides, strict=True)) if not np.isnan(pair).any()]
        found.append(spearmanr([sides[0][i] for i in known], [sides[1][i] for i in known])[0])
    r = mean(found)
    return 2 * r / (1 + r)


def fisher(rhos: Sequence[float], sizes: Sequence[int]) -> float:
    """Combine correlations by Fisher's z, weighing n − 3."""
    top = sum((n - 3) * math.atanh(rho) for rho, n in zip(rhos, sizes, strict=True))
    return math.tanh(top / sum(n - 3 for n in sizes))


def rare_bigram_density(text: list[str], known: Sequence[list[str]]) -> float:
    """Count document frequencies, take the 10th percentile over occurrences, count what is rare."""
    documents = [list(pairwise(words)) for words in known]
    frequency = {
        pair: sum(pair in document for document in documents)
        for document in documents
        for pair in document
    }
    occurrences = sorted(frequency[pair] for document in documents for pair in document)
    limit = occurrences[math.ceil(0.1 * len(occurrences)) - 1] if occurrences else 0
    own = list(pairwise(text))
    return mean(frequency.get(pair, 0) <= limit for pair in own) if own else 0.0
