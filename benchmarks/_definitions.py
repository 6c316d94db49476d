"""The measures of other tools on members, holdout and release, by definition, with a test of each.

The tools themselves test nothing: their shares, grades and AUCs have no null. Here each is compared
with the same measure on permuted splits, one-sided, so that `check.py` compares like with like.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.spatial.distance import cdist
from scipy.stats import rankdata

from synthleak.encoders.builtin.static import Static
from synthleak.evidence.observation import Observation, Targets
from synthleak.evidence.prior.canary import ngram_logprob
from synthleak.evidence.prior.domias import log_densities, principal
from synthleak.metrics.membership import auc
from synthleak.metrics.null import p_value

PERMUTATIONS = 499
IDENTICAL = 1e-6
THRESHOLDS = np.array([0.4, 0.3, 0.2, 0.1])
SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
RUNS = 10


@dataclass(frozen=True)
class Case:
    """One release, the records that it may come from, and which of them are members."""

    records: Sequence[str]
    release: Sequence[str]
    reference: Sequence[str]
    member: np.ndarray

    @cached_property
    def vectors(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return vectors of records, release and reference by the encoder static."""
        encode = Static().encode
        parts = (self.records, self.release, self.reference)
        own, theirs, known = (encode(list(part)).astype(np.float64) for part in parts)
        return own, theirs, known

    def reduced(self, components: int, by_reference: bool) -> list[np.ndarray]:
        """Return the vectors on the leading axes of the reference, or else of the records."""
        basis = principal(self.vectors[2 if by_reference else 0], components)
        return [basis.reduce(part) for part in self.vectors]


def permuted(
    figure: Callable[[np.ndarray], float], member: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Test a measure that is large where members leak."""
    null = np.array([figure(rng.permutation(member)) for _ in range(PERMUTATIONS)])
    return {"figure": figure(member), "p": p_value(figure(member), null)}


def by_records(scores: np.ndarray, member: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Test a score per record: AUC of members against holdout."""
    ranks = rankdata(scores)
    tested = permuted(lambda inside: float(ranks[inside].mean()), member, rng)
    return tested | {"figure": float(auc(scores[member], scores[~member]))}


def closest(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], member: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Test mostlyai-qa's share of synthetic texts nearer to a member: the largest of all groups.

    `pairs` are vectors of release and records, in one group of columns each. The nearest record of
    all decides, so it is searched for once; where members and holdout tie, a text counts half.
    """
    nearest = []
    for theirs, own in pairs:
        distance = cdist(theirs, own)
        nearest.append(csr_array(distance == distance.min(axis=1, keepdims=True), dtype=np.int64))
    ties = [ones.sum(axis=1) for ones in nearest]

    def share(inside: np.ndarray) -> float:
        weight = inside.astype(np.int64)
        counts = [ones @ weight for ones in nearest]
        return max(
            float((count == all_).mean() + ((count > 0) & (count < all_)).mean() / 2)
            for count, all_ in zip(counts, ties, strict=True)
        )

    return permuted(share, member, rng)


def identical(
    theirs: np.ndarray, own: np.ndarray, member: np.ndarray, rng: np.random.Generator
) -> dict[str, Any]:
    """Test mostlyai-qa's share of synthetic texts with the vector of a member."""
    same = csr_array(cdist(theirs, own) <= IDENTICAL, dtype=np.int64)
    return permuted(lambda inside: float((same @ inside > 0).mean()), member, rng)


def ranged(case: Case, rng: np.random.Generator) -> dict[str, Any]:
    """Test SDMetrics' share: differences by column, each divided by the range of that side."""
    own, theirs, _ = case.reduced(16, by_reference=False)

    def share(inside: np.ndarray) -> float:
        return float(
            (_nearest_ranged(theirs, own[inside]) < _nearest_ranged(theirs, own[~inside])).mean()
        )

    return permuted(share, case.member, rng)


def _nearest_ranged(theirs: np.ndarray, side: np.ndarray) -> np.ndarray:
    low, high = side.min(axis=0), side.max(axis=0)
    width = high - low
    nearest = cdist(theirs / width, side / width, "cityblock").min(axis=1)
    # No column counts more than its range, which matters only to texts that lie outside of it.
    for place in np.flatnonzero(((theirs < low) | (theirs > high)).any(axis=1)):
        parts = np.minimum(np.abs(theirs[place] - side) / width, 1)
        nearest[place] = parts.sum(axis=1).min()
    return nearest


def graded(distance: np.ndarray, member: np.ndarray, rng: np.random.Generator) -> dict[str, Any]:
    """Test NeMo's mean grade, 3 (excellent) to 1 (poor), of 36 attacks on ten orders of records."""
    orders = [
        np.random.RandomState(run).choice(len(member), len(member), replace=False)
        for run in range(RUNS)
    ]
    sizes = np.array([int(len(member) * share) for share in SHARES])

    def grade(inside: np.ndarray) -> float:
        placed = distance[np.argsort(~inside, kind="stable")]
        return float(np.mean([_grade(placed[o], o < inside.sum(), sizes) for o in orders]))

    tested = permuted(lambda inside: -grade(inside), member, rng)
    return tested | {"figure": -tested["figure"]}


def _grade(distance: np.ndarray, truth: np.ndarray, sizes: np.ndarray) -> float:
    called = distance < THRESHOLDS[:, None]
    calls = called.cumsum(axis=1)[:, sizes - 1]
    right = (called & truth).cumsum(axis=1)[:, sizes - 1]
    accuracy = ((called == truth).cumsum(axis=1)[:, sizes - 1] / sizes).round(1)
    precision = (right / np.maximum(calls, 1)).round(1)
    low, high = np.minimum(precision, accuracy), np.maximum(precision, accuracy)
    cases = [high <= 0.5, (high <= 0.8) & (low <= 0.5), high <= 0.8, low <= 0.8]
    return round(float(np.select(cases, [3.0, 2.5, 2.0, 1.5], 1.0).mean()), 2)


def cosine_distance(case: Case) -> np.ndarray:
    """Return each record's cosine distance to the nearest synthetic text."""
    own, theirs = (
        v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), 1e-9) for v in case.vectors[:2]
    )
    nearest: np.ndarray = 1 - (own @ theirs.T).max(axis=1)
    return nearest


def density_ratio(case: Case) -> np.ndarray:
    """Return DOMIAS' log ratio: kernel densities of release over reference, on 32 axes."""
    own, theirs, known = case.reduced(32, by_reference=True)
    ratio: np.ndarray = log_densities(theirs, own)[:, 1] - log_densities(known, own)[:, 1]
    return ratio


def bigrams(case: Case) -> np.ndarray:
    """Return Canary's log-probability of each record under an add-1 bigram model of the release."""
    encode = Static().encode
    return ngram_logprob(Targets(case.records, encode), Observation(case.release, encode), 2)
