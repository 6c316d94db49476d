"""Rare phrase overlap: which of the target's rare word pairs turn up in one text."""

from __future__ import annotations

import numpy as np

from synthleak.evidence.aggregate import max_and_mean
from synthleak.evidence.family import family
from synthleak.evidence.observation import Floats, Observation, Targets
from synthleak.evidence.ragged import Ints, found
from synthleak.evidence.retrieval import inverse_frequency, retrieve
from synthleak.evidence.words import number, target_pairs, target_words, text_pairs

RARE_COUNT = 2
RARE_SHARE = 0.01


@family(
    "rare_ngram",
    order=4,
    version=1,
    view="lexical",
    scale="ratio",
    proxies={
        "rare_ngram_max": "largest idf-weighted share of x's rare word bigrams in a candidate",
        "rare_ngram_mean": "mean idf-weighted share of x's rare word bigrams in the candidates",
    },
    uses_auxiliary=True,
)
def rare_ngram(targets: Targets, observation: Observation) -> Floats:
    """Share of the target's rare word bigrams found in a retrieved text, weighted by idf.

    Rare is what at most 2 records of R have, or 1% of them; idf is that of BM25 over R. So one
    table, what the attacker knows of the domain, serves every scenario.

    >>> from synthleak.evidence.glance import glance
    >>> glance(rare_ngram, ["the red fox"], ["red fox", "the red"], auxiliary=["the red"] * 3)
    array([[1. , 0.5]])
    """
    rows = retrieve(targets, observation).rows
    texts = text_pairs(targets, observation)
    shares = np.zeros(rows.shape)
    rare = targets.remember("rare pairs", lambda: _rare(targets))
    for target, (pairs, weights) in enumerate(rare):
        if len(pairs):
            shares[target] = found(pairs, texts, rows[target]) @ (weights / weights.sum())
    return max_and_mean(shares)


def _rare(targets: Targets) -> list[tuple[Ints, Floats]]:
    """Return each target's rare pairs with their idf."""
    known = target_pairs(targets)
    tokens, _ = number(targets.auxiliary.tokens, target_words(targets)[0])
    seen = known.find(tokens)
    once = np.unique(seen.owners * len(known.keys) + seen.values) % len(known.keys)
    frequency = np.bincount(once, minlength=len(known.keys))
    n = len(targets.auxiliary)
    idf = inverse_frequency(n, frequency)
    is_rare = frequency <= max(RARE_COUNT, RARE_SHARE * n)
    is_rare &= ~known.has_end(np.arange(len(known.keys)))
    own = [np.unique(known.rows[target]) for target in range(len(targets))]
    return [(pairs[is_rare[pairs]], idf[pairs[is_rare[pairs]]]) for pairs in own]
