"""A test of the split: can members be told from the holdout by text alone (docs/method.md §11)?

A classifier that sees words, characters and labels, but not the release, learns membership on four
folds and scores the fifth. If the split was uniform, any other split of the same sizes is as
likely, so training and scoring are repeated on permuted splits: the p-value is exact. The
classifier is naive Bayes, which learns a hundred permuted splits by one matrix product.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from synthleak.core.text import tokens
from synthleak.evidence.observation import Floats
from synthleak.metrics.null import p_value, upper_point
from synthleak.metrics.types import Bools, Rng
from synthleak.plan.given import permuted

UNFAIR = 0.01
"""At or below this p a split counts as not exchangeable; 1 uniform split in 100 is rejected."""
PERMUTATIONS = 499
FOLDS = 5
MOST_WORDS = 50_000
_CHUNK = 100


@dataclass(frozen=True)
class BlindTest:
    """The cross-validated AUC of the classifier, its chance limit under permuted splits, and p."""

    auc: float
    ceiling: float
    p: float
    words: int
    permutations: int

    @property
    def unfair(self) -> bool:
        """Whether the split is unlikely to have been uniform."""
        return self.p <= UNFAIR


def blind_test(
    texts: Sequence[str],
    labels: Sequence[Sequence[str]],
    member: Bools,
    block: Sequence[int],
    rng: Rng,
    permutations: int = PERMUTATIONS,
) -> BlindTest:
    """Classify members against the others by their texts and labels; blocks stay whole."""
    words = _bag(texts, labels)
    numbers = np.asarray(block)
    fold = rng.permutation(np.arange(int(numbers.max()) + 1) % FOLDS)[numbers]
    splits = [member, *(permuted(member, numbers, rng) for _ in range(permutations))]
    found = np.concatenate(
        [
            _validated(words, np.stack(splits[start : start + _CHUNK], axis=1), fold)
            for start in range(0, len(splits), _CHUNK)
        ]
    )
    return BlindTest(
        auc=float(found[0]),
        ceiling=upper_point(found[1:]),
        p=p_value(float(found[0]), found[1:]),
        words=words.shape[1],
        permutations=permutations,
    )


def _bag(texts: Sequence[str], labels: Sequence[Sequence[str]]) -> Any:
    """Return which words, characters, labels and lengths each text has, as a sparse 0 and 1.

    Single characters show capitals, punctuation, and topics in languages without spaces. What only
    one text has cannot help to classify another; of more than 50,000 words the rarest are dropped.
    """
    from scipy.sparse import csr_matrix

    place: dict[str, int] = {}
    rows, columns = [], []
    for number, (text, names) in enumerate(zip(texts, labels, strict=True)):
        own = tokens(text)
        seen = {f"w {word}" for word in own} | {f"l {name}" for name in names}
        seen |= {f"c {character}" for character in text}
        seen |= {f"n {_size(len(own))}", f"m {_size(len(text))}"}
        rows += [number] * len(seen)
        columns += [place.setdefault(word, len(place)) for word in sorted(seen)]
    count = np.bincount(columns, minlength=len(place))
    kept = np.flatnonzero(count >= 2)
    kept = kept[np.argsort(-count[kept], kind="stable")[:MOST_WORDS]]
    ones = np.ones(len(rows), dtype=np.float32)
    return csr_matrix((ones, (rows, columns)), shape=(len(texts), len(place)))[:, np.sort(kept)]


def _size(length: int) -> int:
    """Return a length on a logarithmic scale, in steps of about a fifth."""
    return int(4 * np.log2(length + 1))


def _validated(words: Any, member: Bools, fold: NDArray[np.integer]) -> Floats:
    """Return the mean AUC over folds for every column of `member[text, split]`."""
    inside = member.astype(np.float32)
    total = words.T @ inside
    everybody = np.asarray(words.sum(axis=0), dtype=np.float32).reshape(-1, 1)
    aucs = []
    for number in np.unique(fold):
        here = fold == number
        held = words[here]
        joined = total - held.T @ inside[here]
        absent = everybody - np.asarray(held.sum(axis=0)).reshape(-1, 1) - joined
        weight = np.log((joined + 1) / (joined + 1).sum(axis=0))
        weight -= np.log((absent + 1) / (absent + 1).sum(axis=0))
        aucs.append(_aucs(held @ weight, member[here]))
    mean: Floats = np.mean(aucs, axis=0)
    return mean


def _aucs(scores: Floats, member: Bools) -> Floats:
    """Return the AUC of every column; 0.5 where a fold holds one side only."""
    from scipy.stats import rankdata

    joined = member.sum(axis=0).astype(np.float64)
    pairs = joined * (len(member) - joined)
    # Rounded, so that the order of summation cannot decide a tie.
    ranks = rankdata(np.round(scores.astype(np.float64), 4), axis=0)
    wins = (ranks * member).sum(axis=0) - joined * (joined + 1) / 2
    share: Floats = np.divide(wins, pairs, out=np.full_like(pairs, 0.5), where=pairs > 0)
    return share
