"""Slow, obvious versions of the n-gram generator: cumulated arrays, searched by numpy."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

import numpy as np

from synthleak.corpus import Labels, Record
from synthleak.releases.generators.ngram import _WORD, END, ORDERS, Gram, _join, class_word


def grams_of(record: Record) -> Counter[Gram]:
    """Count the n-grams of a record, all orders together; its class opens the text as a word."""
    words = [class_word(record.labels), *_WORD.findall(record.text), END]
    return Counter(
        tuple(words[end - order + 1 : end + 1])
        for end in range(1, len(words))
        for order in range(1, ORDERS + 1)
        if end - order + 1 >= 0
    )


class Model:
    """Samples texts from n-gram weights; an order without the context gives way to a lower one."""

    def __init__(
        self, grams: Iterable[Gram], weights: Iterable[float], mixture: Sequence[float]
    ) -> None:
        following: dict[Gram, tuple[list[str], list[float]]] = defaultdict(lambda: ([], []))
        for gram, weight in zip(grams, weights, strict=True):
            if weight > 0:
                words, masses = following[gram[:-1]]
                words.append(gram[-1])
                masses.append(weight)
        self._next = {
            context: (words, np.cumsum(masses)) for context, (words, masses) in following.items()
        }
        self._mixture = mixture

    def sample(self, labels: Labels, longest: int, rng: np.random.Generator) -> str:
        """Sample one text of a class."""
        words: list[str] = [class_word(labels)]
        draws = rng.random((longest, 2))
        for choose, pick in draws.tolist():
            word = self._word(words, choose, pick)
            if word == END:
                break
            words.append(word)
        return _join(words[1:])

    def _word(self, words: Sequence[str], choose: float, pick: float) -> str:
        contexts = [()] + [tuple(words[-n:]) for n in range(1, ORDERS) if n <= len(words)]
        known = [
            (context, order) for order, context in enumerate(contexts) if context in self._next
        ]
        if not known:
            return END
        shares = np.cumsum([self._mixture[order] for _, order in known])
        context, _ = known[int(np.searchsorted(shares, choose * shares[-1]))]
        options, mass = self._next[context]
        return options[min(int(np.searchsorted(mass, pick * mass[-1])), len(options) - 1)]
