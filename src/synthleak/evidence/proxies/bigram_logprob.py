"""n-gram log-probability: how predictable the target is from the texts nearest to it."""

from __future__ import annotations

import numpy as np

from synthleak.evidence import Floats, Observation, Targets, family
from synthleak.evidence.fast.retrieval import retrieve
from synthleak.evidence.fast.words import target_pairs, text_pairs, words


@family(
    "bigram_logprob",
    order=6,
    version=2,
    view="lexical",
    scale="log",
    proxies={"bigram_logprob": "log p(x) under an add-1 bigram model of the candidates"},
)
def bigram_logprob(targets: Targets, observation: Observation) -> Floats:
    """Log p(x) under an add-1 bigram model fitted on the retrieved texts alone.

    The vocabulary is that of the candidates and x, with the two ends of a text.

    >>> from synthleak.evidence import observe_texts
    >>> observe_texts(bigram_logprob, ["a b"], ["a b", "a c"])  # log(3/7 · 2/7 · 2/6), 5 words
    array([[-3.199]])
    """
    retrieved = retrieve(targets, observation)
    numbered, known = words(targets, retrieved.texts), target_pairs(targets)
    texts = text_pairs(targets, retrieved.texts)
    values = np.zeros((len(targets), 1))
    for target, candidates in enumerate(retrieved.places):
        seen = np.bincount(numbered.of_texts.take(candidates)[0], minlength=numbered.size)
        pairs = np.bincount(texts.take(candidates)[0], minlength=len(known.keys))
        own = numbered.of_targets[target]
        new = np.unique(own[seen[own] == 0])
        size = np.count_nonzero(seen) + len(new) + 2
        # A word is a context as often as it occurs, the begin once per candidate.
        contexts = np.concatenate([[len(candidates)], seen[own]])
        values[target] = np.log((pairs[known.rows[target]] + 1) / (contexts + size)).sum()
    return values
