"""A test of the split: can members be told from the holdout by text alone (docs/method.md §11)?

Two classifiers that do not see the release learn membership on four folds and score the fifth; both
are trained again on permuted splits. They are naive Bayes, which learns a hundred splits by one
matrix product.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np

from synthleak.core.text import tokens
from synthleak.evidence.observation import Floats
from synthleak.metrics.null import min_p_test
from synthleak.metrics.types import Bools, Ints, Rng
from synthleak.plan.given import permuted

UNFAIR = 0.01
"""At or below this p a split counts as not exchangeable; 1 uniform split in 100 is rejected."""
PERMUTATIONS = 499
FOLDS = 5
MOST_FEATURES = 50_000
"""Of what a classifier may see, as many as are most frequent."""
_BUCKETS = 2**20
_CHUNK = 100


@dataclass(frozen=True)
class BlindTest:
    """The cross-validated AUC of the deciding classifier, its chance limit, and p of both.

    `words` counts the features that both look at.
    """

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
    readings: Sequence[Ints],
    rng: Rng,
    permutations: int = PERMUTATIONS,
) -> BlindTest:
    """Classify members against the others by their texts and labels.

    Args:
        texts: the texts of members and holdout, in any order.
        labels: the labels of each text.
        member: which texts are members.
        readings: the block of each text, of which permutations move whole ones; where the split
            can be read in two ways there are two numberings, and the larger p counts. Folds hold
            whole blocks of the first.
        rng: draws folds and permutations.
        permutations: how many splits the observed one is compared with.

    Returns:
        The test whose p is the larger one, with AUC and chance limit of what decided it.
    """
    bags = [_bag(texts, _held, labels), _bag(texts, _order)]
    fold = rng.permutation(np.arange(int(readings[0].max()) + 1) % FOLDS)[readings[0]]
    return max(
        (_tested(bags, member, block, fold, rng, permutations) for block in readings),
        key=lambda test: test.p,
    )


def _tested(
    bags: Sequence[Any], member: Bools, block: Ints, fold: Ints, rng: Rng, permutations: int
) -> BlindTest:
    splits = [member, *(permuted(member, block, rng) for _ in range(permutations))]
    chunks = [
        np.stack(splits[start : start + _CHUNK], axis=1) for start in range(0, len(splits), _CHUNK)
    ]
    aucs = np.stack(
        [np.concatenate([_validated(bag, chunk, fold) for chunk in chunks]) for bag in bags], axis=1
    )
    words = sum(bag.shape[1] for bag in bags)
    test = min_p_test(aucs[None])
    if test is None:  # no permutation differs from the split: nothing can be said against it
        return BlindTest(float(aucs[0].max()), np.inf, 1.0, words, permutations)
    ceiling = float(test.ceilings()[0, test.signal])
    return BlindTest(float(aucs[0, test.signal]), ceiling, test.p, words, permutations)


def _held(text: str, words: Sequence[str]) -> Iterable[str]:
    """Name what a text holds, wherever it stands.

    Single characters show capitals, punctuation, and topics in languages without spaces.
    """
    yield from (f"w {word}" for word in words)
    yield from (f"c {character}" for character in text)
    yield f"n {_size(len(words))}"
    yield f"m {_size(len(text))}"


def _order(text: str, words: Sequence[str]) -> Iterable[str]:
    """Name what depends on the order of a text: word bigrams, how it begins and how it ends."""
    yield from (" ".join(pair) for pair in pairwise(("^", *words, "$")))
    yield f"first {text.strip()[:1]}"
    yield f"last {text.strip()[-1:]}"


def _bag(
    texts: Sequence[str],
    features: Callable[[str, Sequence[str]], Iterable[str]],
    labels: Sequence[Sequence[str]] | None = None,
) -> Any:
    """Return which features each text has, as a sparse 0 and 1.

    What only one text has cannot help to classify another; of more than 50,000 features the rarest
    are dropped. Features are numbered by a hash of what they are, ties at the limit too: a number
    that depended on the order of the texts would depend on who is a member. A few share a number,
    which costs nothing but a little power, and no list of all bigrams is held in memory.
    """
    from scipy.sparse import csr_matrix

    columns, ends = array("i"), array("q", [0])
    for number, text in enumerate(texts):
        names = {*features(text, tokens(text))}
        if labels is not None:
            names |= {f"l {name}" for name in labels[number]}
        columns.extend(sorted({_bucket(name) for name in names}))
        ends.append(len(columns))
    count = np.bincount(columns, minlength=_BUCKETS)
    kept = np.flatnonzero(count >= 2)
    kept = np.sort(kept[np.argsort(-count[kept], kind="stable")[:MOST_FEATURES]])
    ones = np.ones(len(columns), dtype=np.float32)
    return csr_matrix((ones, columns, ends), shape=(len(texts), _BUCKETS))[:, kept]


def _bucket(name: str) -> int:
    return crc32(name.encode("utf-8", "surrogatepass")) % _BUCKETS


def _size(length: int) -> int:
    """Return a length on a logarithmic scale, in steps of about a fifth."""
    return int(4 * np.log2(length + 1))


def _validated(words: Any, member: Bools, fold: Ints) -> Floats:
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
    return np.asarray(np.mean(aucs, axis=0))


def _aucs(scores: Floats, member: Bools) -> Floats:
    """Return the AUC of every column; 0.5 where a fold holds one side only."""
    from scipy.stats import rankdata

    joined = member.sum(axis=0).astype(np.float64)
    pairs = joined * (len(member) - joined)
    # Rounded, so that the order of summation cannot decide a tie.
    ranks = rankdata(np.round(scores.astype(np.float64), 4), axis=0)
    wins = (ranks * member).sum(axis=0) - joined * (joined + 1) / 2
    return np.asarray(np.divide(wins, pairs, out=np.full_like(pairs, 0.5), where=pairs > 0))
