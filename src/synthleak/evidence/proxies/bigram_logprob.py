"""Bigram log-probability: how predictable the target is from the texts nearest to it."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np

from synthleak.evidence.family import family
from synthleak.evidence.observation import Floats, Observation, Targets
from synthleak.evidence.retrieval import retrieve

BEGIN, END = "\x02", "\x03"


@family(
    "bigram_logprob",
    version=1,
    view="lexical",
    scale="log",
    proxies={"bigram_logprob": "log p(x) under an add-1 bigram model of the candidates"},
)
def bigram_logprob(targets: Targets, observation: Observation) -> Floats:
    """Log p(x) under an add-1 bigram model fitted on the retrieved texts alone.

    The vocabulary is that of the candidates and x, with the two end marks.
    """
    rows = retrieve(targets, observation).rows

    def facts() -> list[tuple[Counter[tuple[str, str]], Counter[str], set[str]]]:
        padded = [[BEGIN, *words, END] for words in observation.tokens]
        return [(Counter(pairwise(p)), Counter(p[:-1]), set(p)) for p in padded]

    known = observation.remember("bigrams", facts)
    values = []
    for words, candidates in zip(targets.tokens, rows.tolist(), strict=True):
        padded = [BEGIN, *words, END]
        size = len(set(padded).union(*(known[c][2] for c in candidates)))
        total = 0.0
        for first, second in pairwise(padded):
            pair = sum(known[c][0][first, second] for c in candidates)
            context = sum(known[c][1][first] for c in candidates)
            total += math.log((pair + 1) / (context + size))
        values.append(total)
    return np.array(values)[:, None]
