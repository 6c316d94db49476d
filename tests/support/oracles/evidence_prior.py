"""The prior attacks of docs/method.md §9 as slowly and obviously as can be."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from support.oracles.evidence_lexical import words


def ngram_logprob(x: str, texts: Sequence[str], order: int) -> float:
    """Log p(x) under an add-1 n-gram model of all texts, token by token."""

    def padded(text: str) -> list[str]:
        return ["<s>"] * (order - 1) + list(words(text)) + ["</s>"]

    grams: Counter[tuple[str, ...]] = Counter()
    contexts: Counter[tuple[str, ...]] = Counter()
    for text in texts:
        row = padded(text)
        for i in range(len(row) - order + 1):
            grams[tuple(row[i : i + order])] += 1
            contexts[tuple(row[i : i + order - 1])] += 1
    vocabulary = {word for text in [*texts, x] for word in words(text)} | {"<s>", "</s>"}
    row, total = padded(x), 0.0
    for i in range(len(row) - order + 1):
        top = grams[tuple(row[i : i + order])] + 1
        total += math.log(top / (contexts[tuple(row[i : i + order - 1])] + len(vocabulary)))
    return total
