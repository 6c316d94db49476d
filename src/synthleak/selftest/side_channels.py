"""Games of the self-test with canaries: generators that keep a promise and break it beside it.

All count symbols with the noise of their claim. What each takes from private records as it is, an
alphabet, a vocabulary, a limit of lengths or a set of classes, is not in their account.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Record
from synthleak.releases.claim import GaussianEvent, gaussian_sigma
from synthleak.releases.generator import AccountedGenerator, Generator
from synthleak.releases.release import Request, Synthetic
from synthleak.selftest.games import INSTEAD, Game

FREQUENT = 20
"""How often a private word occurs that becomes part of a vocabulary."""
LIMIT = {"characters": 100, "words": 40}
"""Symbols of the longest text, unless private records say how many."""
FLOOR = 0.1
"""Of σ, what every symbol counts at least: a model gives no symbol the probability 0."""


class Fitted(AccountedGenerator):
    """Texts of symbols drawn by noised counts; what it `takes` is that of the private records.

    Given its symbols, limit and classes it is a Gaussian mechanism: adding a record moves the sum
    of count vectors, each of norm 1 at most, by 1.
    """

    takes: Literal["nothing", "alphabet", "vocabulary", "length", "classes"]

    def events(self, request: Request) -> tuple[GaussianEvent, ...]:
        """Return the one noised sum that the claim is about."""
        sigma = gaussian_sigma(request.epsilon, request.delta)
        return (GaussianEvent("sum of symbol counts of norm 1", sigma, 1.0, math.sqrt(2)),)

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Draw texts, whose lengths are uniform up to the limit."""
        rng = stream(request.seed, "fitted")
        symbols = {symbol: cell for cell, symbol in enumerate(self._symbols(request))}
        sigma, longest = gaussian_sigma(request.epsilon, request.delta), self._longest(request)
        total = rng.normal(0.0, sigma, len(symbols))
        for record in request.records:
            counts = Counter(symbols[s] for s in self._cut(record.text) if s in symbols)
            norm = max(math.sqrt(sum(count**2 for count in counts.values())), 1.0)
            total[list(counts)] += np.array(list(counts.values())) / norm
        mass = np.cumsum(np.maximum(total, FLOOR * sigma))
        listed = list(symbols)
        classes = request.draw_classes(rng)
        if self.takes == "classes":
            known = sorted({record.labels for record in request.records})
            classes = [known[n] for n in rng.integers(len(known), size=request.size)]
        release = []
        for labels in classes:
            draws = rng.random(int(rng.integers(1, longest + 1))) * mass[-1]
            text = [listed[cell] for cell in np.searchsorted(mass, draws).tolist()]
            release.append(Synthetic(self._join(text), labels))
        return release

    def _symbols(self, request: Request) -> list[str]:
        if self.takes == "nothing":
            return [chr(byte) for byte in range(256)]
        if self.takes == "alphabet":
            return sorted({letter for record in request.records for letter in record.text})
        public = {word for record in request.public.auxiliary for word in self._cut(record.text)}
        if self.takes == "vocabulary":
            counts = Counter(word for r in request.records for word in self._cut(r.text))
            public |= {word for word, count in counts.items() if count >= FREQUENT}
        return sorted(public)

    def _longest(self, request: Request) -> int:
        if self.takes == "length":
            return max(len(self._cut(record.text)) for record in request.records)
        return LIMIT["characters" if self.takes in ("nothing", "alphabet") else "words"]

    def _cut(self, text: str) -> Sequence[str]:
        if self.takes == "nothing":
            return text.encode().decode("latin-1")
        return text if self.takes == "alphabet" else text.split()

    def _join(self, symbols: Sequence[str]) -> str:
        if self.takes == "nothing":
            return "".join(symbols).encode("latin-1").decode(errors="replace")
        return "".join(symbols) if self.takes == "alphabet" else " ".join(symbols)


Fitted.kind, Fitted.version = "fitted", 1


class ByChance(Generator):
    """Records of R, and each canary with probability one half, whoever is in."""

    canaries: tuple[Any, ...] = ()

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Draw canaries and records, without a look at the private ones."""
        rng = stream(request.seed, "by chance")
        shown = [one for one in self.canaries if rng.random() < 1 / 2][: request.size]
        picks = rng.integers(len(request.public.auxiliary), size=request.size - len(shown))
        release: list[Record] = [*shown, *(request.public.auxiliary[n] for n in picks.tolist())]
        return [Synthetic(record.text, record.labels) for record in release]


ByChance.kind, ByChance.version = "by chance", 1

INSTEAD.update(
    {
        "a byte alphabet": lambda setup: Fitted(takes="nothing"),
        "a private alphabet": lambda setup: Fitted(takes="alphabet"),
        "a private vocabulary": lambda setup: Fitted(takes="vocabulary"),
        "a private length": lambda setup: Fitted(takes="length"),
        "private classes": lambda setup: Fitted(takes="classes"),
        "canaries by chance": lambda setup: ByChance(canaries=setup.corpus.written),
    }
)


@dataclass(frozen=True)
class MarkedGame(Game):
    """A game that `marker` looks at too; without `kinds` its targets are records, not canaries."""

    kinds: tuple[str, ...] = ()
    adjacency: str = "add"
    also: ClassVar[tuple[str, ...]] = ("marker",)

    def pool(self) -> dict[str, Any]:
        if not self.kinds:
            return super().pool()
        return {"name": "pool", "rule": "canary", "size": self.targets, "kind": list(self.kinds)}
