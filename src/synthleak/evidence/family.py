"""Proxy families: what a proxy is, and where families are registered (docs/method.md §6).

A family is one idea with its variants. It is a pure function of targets and an observation:
``look(targets, observation) -> float64 [targets, proxies]``; higher always means more like a
member. It never sees a scenario, a coin or a plan.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from synthleak.core.registry import Entry, Plugin, PluginRegistry, Registry, Version, edition
from synthleak.core.text import tokens
from synthleak.encoders.encoder import Vectors
from synthleak.evidence.fast.words import Ngrams, Ragged, distinct, ngrams, number, word_index
from synthleak.evidence.observation import Floats, Observation, Targets

View = Literal["lexical", "embedding"]
Scale = Literal["ratio", "log", "difference"]
Look = Callable[[Targets, Observation], Floats]


@dataclass(frozen=True)
class Proxy:
    """One signal.

    Args:
        name: stable once published.
        family: the family that computes it.
        view: what it reads, words or vectors.
        scale: how it is calibrated: a ratio is divided by the references' mean, a log or a
            difference has it subtracted.
        meaning: one line for tables.
    """

    name: str
    family: str
    view: View
    scale: Scale
    meaning: str


@dataclass(frozen=True)
class Family:
    """Proxies that are computed together.

    Args:
        name: the name in a spec.
        version: raised whenever values change.
        proxies: in the order of the columns.
        look: the function that computes them.
        order: the place in the catalogue, which breaks ties between proxies.
        settings: those of an opt-in family.
        plugin: the opt-in family itself.
    """

    name: str
    version: Version
    proxies: tuple[Proxy, ...]
    look: Look
    order: int = 1000
    settings: Mapping[str, Any] | None = None
    plugin: OptInFamily | None = None

    @property
    def model(self) -> ModelFamily | None:
        """What is fitted to many observations at once; such a family is looked at by itself."""
        return self.plugin if isinstance(self.plugin, ModelFamily) else None

    @property
    def counts(self) -> CountFamily | None:
        """What counts n-grams, and scores targets by the counts (docs/method.md §17)."""
        return self.plugin if isinstance(self.plugin, CountFamily) else None

    @property
    def view(self) -> View:
        return self.proxies[0].view

    def values(self, targets: Targets, kept: Floats) -> Floats:
        """Return `[target, proxy]` on one observation.

        Args:
            targets: the targets.
            kept: what is kept of the observation.
        """
        if self.counts is None:
            return kept
        uncalibrated = np.zeros((len(targets), 1), dtype=np.bool_)
        values: Floats = self.counts.scores(targets, kept[None], uncalibrated)[0]
        return values

    def identity(self, encoder: dict[str, Any]) -> dict[str, Any]:
        """Return what decides the family's values besides the texts of targets and observation.

        Lexical evidence does not depend on the encoder. No evidence depends on R: `auxiliary` is
        always empty, and stays in the key so that stored evidence is found again.

        Args:
            encoder: the identity of the encoder.
        """
        return {
            "family": self.name,
            "version": self.version,
            "encoder": encoder if self.view == "embedding" else None,
            "auxiliary": None,
            **({"settings": dict(self.settings)} if self.settings is not None else {}),
        }


class Catalogue(Registry[Family]):
    """The proxy families in the order of the method's table, then others by name."""

    def __iter__(self) -> Iterator[Entry[Family]]:
        return iter(sorted(super().__iter__(), key=lambda e: (e.plugin.order, e.name)))


families = Catalogue("proxy family", "synthleak.evidence.proxies")


def family(
    name: str, *, version: int, view: View, scale: Scale, proxies: dict[str, str], order: int = 1000
) -> Callable[[Look], Look]:
    """Register the decorated function as a family of proxies.

    The function is called with all targets and one observation, and returns a finite float64 array
    `[target, proxy]`; higher means more like a member.

    Args:
        name: the name in a spec.
        version: raise it when values change: kept evidence is then made again.
        view: "embedding" if the function reads vectors: its key then holds the encoder.
        scale: how values are calibrated: "ratio", "log" or "difference".
        proxies: name and meaning of each proxy, in the order of the columns.
        order: the place in the catalogue, for the families of the method's table.

    Returns:
        A decorator that returns the function unchanged.
    """
    members = tuple(Proxy(proxy, name, view, scale, meaning) for proxy, meaning in proxies.items())

    def register(look: Look) -> Look:
        entry = Family(name, edition(version, look), members, look, order)
        families.add(name, entry, version=version, described_by=look)
        return look

    return register


class OptInFamily(Plugin):
    """A family beside the method's table, which a spec asks for: `[evidence] also = ["lm"]`.

    It may have settings. To everything after calibration its proxies are like others: nulls,
    selection and chance limits apply unchanged.
    """

    view: ClassVar[View]
    scale: ClassVar[Scale]
    proxies: ClassVar[dict[str, str]]
    reads_labels: ClassVar[bool] = False
    """Whether it reads the labels of targets: they are then part of the key of its values."""

    @abstractmethod
    def look(self, targets: Targets, observation: Observation) -> Floats:
        """Return the values `[target, proxy]` on one observation."""

    def family(self) -> Family:
        """Return the family with these settings, as an audit uses it."""
        return Family(
            self.kind,
            self.version,
            tuple(
                Proxy(name, self.kind, self.view, self.scale, meaning)
                for name, meaning in self.proxies.items()
            ),
            self.look,
            settings=self.identity(),
            plugin=self,
        )


class ModelFamily(OptInFamily):
    """A family whose model is fitted to each observation, to many of them in one call.

    The values are calibrated like those of other proxies (docs/method.md §14).
    """

    def check(self) -> None:
        """Raise a `UserError` if the model cannot be used here: asked before any work."""

    @abstractmethod
    def look_together(self, targets: Targets, observations: Sequence[Observation]) -> list[Floats]:
        """Return the values `[target, proxy]` on each observation, none depending on the others."""

    def look(self, targets: Targets, observation: Observation) -> Floats:
        return self.look_together(targets, [observation])[0]


class CountFamily(OptInFamily):
    """A family that compares counts of the target's n-grams with those that references expect.

    What is kept of an observation are the counts. Scores come from the counts on all sets of a
    plan, so that a rare n-gram and a frequent one need not weigh the same (docs/method.md §17).
    `longest` is, for each proxy, the largest n.
    """

    view: ClassVar[View] = "lexical"
    scale: ClassVar[Scale] = "difference"
    longest: ClassVar[tuple[int, ...]]

    @staticmethod
    def cut(text: str) -> list[str]:
        """Return the symbols of a text, whose n-grams are counted: its words."""
        return tokens(text)

    @abstractmethod
    def excess(self, counts: Floats, expected: Floats) -> Floats:
        """Say by how much each count exceeds what was expected; higher means more like a member's.

        Args:
            counts: in how many texts of each set each n-gram occurs, `[set, n-gram]`.
            expected: the same as references have it, for a set of this size.
        """

    def ngrams(self, targets: Targets) -> Ngrams:
        """Return the different n-grams of each target."""
        key = f"n-grams of {self.kind}"
        return targets.remember(key, lambda: ngrams(targets, self.cut, max(self.longest)))

    def count(self, targets: Targets, observation: Observation) -> Floats:
        """Return in how many texts each n-gram occurs and, last, the size of the observation.

        The size is the number of different symbols of each text, added up: a long text has more
        n-grams than a short one.
        """
        symbols, vocabulary = self._symbols_of(observation)
        counts = self.ngrams(targets).frequencies(symbols, vocabulary)

        def size() -> int:
            width = max(len(vocabulary), 1)
            return sum(len(distinct(part.owners * width + part.values)) for part in symbols.parts())

        different = observation.remember(f"different symbols of {self.kind}", size)
        return np.append(counts, different).astype(np.float64)

    def _symbols_of(self, observation: Observation) -> tuple[Ragged, Mapping[str, int]]:
        if self.cut is CountFamily.cut:
            return word_index(observation).words, word_index(observation).vocabulary
        return observation.remember(
            f"symbols of {self.kind}", lambda: number(map(self.cut, observation.texts), np.int32)
        )

    def look(self, targets: Targets, observation: Observation) -> Floats:
        """Return the share of each target's n-grams that the observation has."""
        return self.family().values(targets, self.count(targets, observation))

    def scores(self, targets: Targets, counts: Floats, uses: NDArray[np.bool_]) -> Floats:
        """Score every target on every set of a plan: Σ excess / √n over its n different n-grams.

        Args:
            targets: the targets, as they were counted.
            counts: what `count` returned for each set, `[set, n-gram]`.
            uses: which sets calibrate which target, `[target, set]`; never themselves.

        Returns:
            `[set, target, proxy]`. Where nothing calibrates, a score is the share of the target's
            n-grams that the set has.
        """
        known, sizes = self.ngrams(targets), counts[:, -1:]
        scores = np.zeros((len(counts), len(targets), len(self.longest)))
        for target in np.flatnonzero(known.rows.lengths).tolist():
            own, used = known.rows[target], uses[target][:, None]
            seen = counts[:, own]
            others = (seen * used).sum(axis=0) - seen * used
            size = (sizes * used).sum() - sizes * used
            excess = self.excess(seen, others * sizes / np.maximum(size, 1))
            for column, n in enumerate(self.longest):
                short = own < known.ends[n - 1]
                if used.any():
                    sums = excess[:, short].sum(axis=1)
                    scores[:, target, column] = sums / np.sqrt(np.count_nonzero(short))
                else:
                    scores[:, target, column] = (seen[:, short] > 0).mean(axis=1)
        return scores


model_families: PluginRegistry[ModelFamily] = PluginRegistry(
    "opt-in proxy family", "synthleak.evidence.models"
)


def observe_texts(look: Look, targets: Sequence[str], texts: Sequence[str]) -> Floats:
    """Call a family's function on a few texts, to try it out.

    Args:
        look: the function. If it needs vectors, it reads a text of numbers as its vector.
        targets: the texts of the targets.
        texts: the texts of the observation.

    Returns:
        What it returned, rounded for reading.

    >>> observe_texts(lambda targets, observation: observation.vectors, [], ["0.5 1"])
    array([[0.5, 1. ]])
    """
    return look(Targets(targets, read_vectors), Observation(texts, read_vectors)).round(3)


def read_vectors(texts: Sequence[str]) -> Vectors:
    return np.array([[float(number) for number in text.split()] for text in texts], np.float32)
