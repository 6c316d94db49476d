"""The lexical proxies of docs/method.md §6, pair by pair, as slowly and obviously as can be."""

from __future__ import annotations

import hashlib
import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from synthleak.core.text import entities


@cache
def words(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+", text.lower()))


@cache
def word_pairs(text: str) -> frozenset[tuple[str, str]]:
    return frozenset(pairwise(words(text)))


def folded(text: str) -> str:
    return " ".join(text.casefold().split())


def idf(n: int, df: int) -> float:
    return math.log(1 + (n - df + 0.5) / (df + 0.5))


def bm25(query: str, text: str, texts: Sequence[str]) -> float:
    counts, n = Counter(words(text)), len(texts)
    mean = sum(len(words(other)) for other in texts) / n or 1.0
    damping = 1.5 * (1 - 0.75 + 0.75 * len(words(text)) / mean)
    score = 0.0
    for word in words(query):
        df = sum(word in words(other) for other in texts)
        score += idf(n, df) * counts[word] * 2.5 / (counts[word] + damping)
    return score


def candidates(x: str, texts: Sequence[str]) -> list[str]:
    """The top 50 by BM25, ties by content hash."""

    def place(text: str) -> tuple[float, str]:
        return -round(bm25(x, text, texts), 9), hashlib.sha256(text.encode()).hexdigest()

    return sorted(texts, key=place)[:50]


@cache
def grams(text: str) -> frozenset[str]:
    text = folded(text)
    if len(text) < 5:
        return frozenset({text} - {""})
    return frozenset(text[i : i + 5] for i in range(len(text) - 4))


def containment(x: str, c: str) -> float:
    return len(grams(x) & grams(c)) / len(grams(x)) if grams(x) else 0.0


def jaccard(x: str, c: str) -> float:
    either = grams(x) | grams(c)
    return len(grams(x) & grams(c)) / len(either) if either else 0.0


def lcs(a: Sequence[Any], b: Sequence[Any]) -> int:
    """Longest common subsequence, by the table everyone learns."""
    table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i, left in enumerate(a):
        for j, right in enumerate(b):
            longer = max(table[i][j + 1], table[i + 1][j])
            table[i + 1][j + 1] = table[i][j] + 1 if left == right else longer
    return table[-1][-1]


def substring_length(a: str, b: str) -> int:
    """Longest common substring: every start, every length."""
    best = 0
    for i in range(len(a)):
        for j in range(i + best + 1, len(a) + 1):
            if a[i:j] not in b:
                break
            best = j - i
    return best


def rouge_l(x: str, c: str) -> float:
    common, own, theirs = lcs(words(x), words(c)), len(words(x)), len(words(c))
    if not common:
        return 0.0
    precision, recall = common / theirs, common / own
    return 2 * precision * recall / (precision + recall)


def token_lcs(x: str, c: str) -> float:
    return lcs(words(x), words(c)) / len(words(x)) if words(x) else 0.0


def substring(x: str, c: str) -> float:
    return substring_length(folded(x), folded(c)) / len(folded(x)) if folded(x) else 0.0


def rare_ngram(x: str, c: str, texts: Sequence[str]) -> float:
    n = len(texts)

    def df(pair: tuple[str, str]) -> int:
        return sum(pair in word_pairs(text) for text in texts)

    rare = {pair for pair in word_pairs(x) if df(pair) <= max(2, n / 100)}
    whole = sum(idf(n, df(pair)) for pair in rare)
    there = sum(idf(n, df(pair)) for pair in rare & word_pairs(c))
    return there / whole if rare else 0.0


def entity_f1(x: str, c: str) -> float:
    own, theirs = set(entities(x)), set(entities(c))
    if not own & theirs:
        return 0.0
    precision, recall = len(own & theirs) / len(theirs), len(own & theirs) / len(own)
    return 2 * precision * recall / (precision + recall)


def bigram_logprob(x: str, chosen: Sequence[str]) -> float:
    padded = [["<s>", *words(text), "</s>"] for text in chosen]
    pairs = Counter(pair for row in padded for pair in pairwise(row))
    contexts = Counter(first for row in padded for first, _ in pairwise(row))
    own = ["<s>", *words(x), "</s>"]
    size = len({word for row in [*padded, own] for word in row})
    return sum(math.log((pairs[a, b] + 1) / (contexts[a] + size)) for a, b in pairwise(own))


def lexical(x: str, texts: Sequence[str]) -> dict[str, float]:
    """Every lexical proxy of one target on one observation."""
    chosen = candidates(x, texts)
    columns = {
        "bm25": [bm25(x, c, texts) for c in chosen],
        "containment": [containment(x, c) for c in chosen],
        "jaccard": [jaccard(x, c) for c in chosen],
        "rouge_l": [rouge_l(x, c) for c in chosen],
        "token_lcs": [token_lcs(x, c) for c in chosen],
        "substring": [substring(x, c) for c in chosen],
        "rare_ngram": [rare_ngram(x, c, texts) for c in chosen],
        "entity_f1": [entity_f1(x, c) for c in chosen],
    }
    values = {}
    for name, column in columns.items():
        values[f"{name}_max"] = max(column)
        values[f"{name}_mean"] = sum(column) / len(column)
    return values | {"bigram_logprob": bigram_logprob(x, chosen)}
