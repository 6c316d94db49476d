"""`ngram`: an interpolated word trigram model with a real privacy mechanism (docs/method.md §5.1).

With finite ε the n-grams of R are counted, and every count is noised (docs/design/claim-ngram.md;
for persons docs/design/claims.md). ε = ∞ counts the private set's own n-grams on their own support,
which is not the limit of large ε.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, compress
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Labels, Record
from synthleak.releases.claim import GaussianEvent, gaussian_sigma
from synthleak.releases.generator import PersonAccounting, generators
from synthleak.releases.release import Public, Request, Synthetic

ORDERS = 3
END = "\x03"
Gram = tuple[str, ...]
Continuations = dict[Gram, tuple[list[str], list[int]]]
Options = tuple[list[str], list[float]]

_WORD = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
_GLUED = re.compile(r"(?<!\s)\s++([.,;:!?)\]%])|([(\[])\s+")


@generators.register("ngram", version=1)
class Ngram(PersonAccounting):
    """Interpolated word trigrams; with finite ε, noised counts on a public support."""

    weights: tuple[float, float, float] = Field(
        default=(0.02, 0.08, 0.9), description="of orders 1, 2, 3; constants, never fitted"
    )
    max_words: int = Field(default=60, ge=1)
    public_inputs: ClassVar = (
        "auxiliary records R",
        "label classes",
        "class sizes of R",
        "max_words",
    )

    def events(self, request: Request) -> tuple[GaussianEvent, ...]:
        event = GaussianEvent(
            what="sum of n-gram count vectors of norm at most 1"
            + ", one for each person" * (self.unit == "person"),
            sigma=gaussian_sigma(request.epsilon, request.delta),
            replace_sensitivity=math.sqrt(2),
        )
        return (event,)

    def generate(self, request: Request) -> Sequence[Synthetic]:
        rng = stream(request.seed, "ngram")
        if math.isinf(request.epsilon):
            counts = plain_counts(request.records)
            model = Model(continuations(counts), list(counts.values()), self.weights)
        else:
            support = public_support(request.public)
            own, sigma = self.contributions(request), gaussian_sigma(request.epsilon, request.delta)
            cells = noised_sum(own, support, sigma, rng)
            following = request.public.remember("ngrams", lambda: continuations(support))
            model = Model(following, cells.tolist(), self.weights)
        classes = request.draw_classes(rng)
        return [Synthetic(model.sample(c, self.max_words, rng), c) for c in classes]


def grams_of(record: Record) -> Counter[Gram]:
    """Count the n-grams of a record, all orders together; its class opens the text as a word."""
    words = [class_word(record.labels), *_WORD.findall(record.text), END]
    grams: list[Gram] = []
    for end in range(1, len(words)):
        grams += [(words[end],), (words[end - 1], words[end])]
        if end > 1:
            grams.append((words[end - 2], words[end - 1], words[end]))
    return Counter(grams)


def class_word(labels: Labels) -> str:
    """Return the word that opens every text of a class; no text can contain it."""
    return "\x02" + "\x1f".join(labels)


def plain_counts(records: Iterable[Record]) -> dict[Gram, float]:
    """Count the n-grams of a private set on its own support: no privacy at all."""
    total: Counter[Gram] = Counter()
    for record in records:
        total.update(grams_of(record))
    return {gram: float(count) for gram, count in total.items()}


def bounded_vector(records: Sequence[Record], support: Mapping[Gram, int]) -> dict[int, float]:
    """Return the cells of a record, or of a person's, on the support, scaled to norm at most 1."""
    grams: Counter[Gram] = Counter()
    for record in records:
        grams.update(grams_of(record))
    cells = {support[gram]: count for gram, count in grams.items() if gram in support}
    norm = math.sqrt(sum(count * count for count in cells.values()))
    return {cell: count / max(norm, 1.0) for cell, count in cells.items()}


def bounded_sum(
    contributions: Iterable[Sequence[Record]], support: Mapping[Gram, int]
) -> NDArray[np.float64]:
    """Return the sum that the noise is for: one contribution moves it by at most 1."""
    total = np.zeros(len(support))
    for records in contributions:
        for cell, value in bounded_vector(records, support).items():
            total[cell] += value
    return total


def noised_sum(
    contributions: Iterable[Sequence[Record]],
    support: Mapping[Gram, int],
    sigma: float,
    rng: np.random.Generator,
) -> NDArray[np.float64]:
    """Noise every cell of the support, those that no record touches too, and cut negatives."""
    cells = bounded_sum(contributions, support) + rng.normal(0.0, sigma, len(support))
    return np.maximum(cells, 0.0)


def public_support(public: Public) -> dict[Gram, int]:
    """Return the cells of the n-grams of R: fixed before the private set is seen."""

    def make() -> dict[Gram, int]:
        grams = {gram for record in public.auxiliary for gram in grams_of(record)}
        return {gram: cell for cell, gram in enumerate(sorted(grams))}

    return public.remember("ngram support", make)


def continuations(grams: Iterable[Gram]) -> Continuations:
    """Return the words that follow each context, and the cells of their n-grams."""
    following: Continuations = {}
    for cell, gram in enumerate(grams):
        words, cells = following.setdefault(gram[:-1], ([], []))
        words.append(gram[-1])
        cells.append(cell)
    return following


class Model:
    """Samples texts from n-gram weights; an order without the context gives way to a lower one.

    A release visits few contexts of a support: the weights of one are summed when it is first met.
    """

    def __init__(
        self, following: Continuations, weights: Sequence[float], mixture: Sequence[float]
    ) -> None:
        self._following, self._weights, self._mixture = following, weights, mixture
        self._options: dict[Gram, Options | None] = {}
        self._choices: dict[Gram, tuple[list[Options], list[float]]] = {}

    def sample(self, labels: Labels, longest: int, rng: np.random.Generator) -> str:
        words: list[str] = [class_word(labels)]
        draws = rng.random((longest, 2))
        for choose, pick in draws.tolist():
            context = tuple(words[1 - ORDERS :])
            if (choices := self._choices.get(context)) is None:
                choices = self._choices[context] = self._choices_after(context)
            options, shares = choices
            if not options:
                break
            following, mass = options[bisect_left(shares, choose * shares[-1])]
            word = following[min(bisect_left(mass, pick * mass[-1]), len(following) - 1)]
            if word == END:
                break
            words.append(word)
        return _join(words[1:])

    def _choices_after(self, context: Gram) -> tuple[list[Options], list[float]]:
        """Return the options of every order that knows the context, and the orders' shares."""
        by_order = [
            (self._options_after(context[len(context) - order :]), self._mixture[order])
            for order in range(len(context) + 1)
        ]
        known = [(options, share) for options, share in by_order if options is not None]
        return [options for options, _ in known], list(accumulate(share for _, share in known))

    def _options_after(self, context: Gram) -> Options | None:
        """Return the words of positive weight after a context, with their summed weights."""
        if context in self._options:
            return self._options[context]
        words, cells = self._following.get(context, ([], []))
        masses = [self._weights[cell] for cell in cells]
        there = [mass > 0 for mass in masses]
        options = None
        if any(there):
            options = list(compress(words, there)), list(accumulate(compress(masses, there)))
        self._options[context] = options
        return options


def _join(words: Sequence[str]) -> str:
    return _GLUED.sub(r"\1\2", " ".join(words))
