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

from synthleak.core.registry import Entry, Plugin, PluginRegistry, Registry, Version, edition
from synthleak.encoders.encoder import Vectors
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
        settings: those of a family on a model.
        model: fitted to many observations at once; such a family is looked at by itself.
    """

    name: str
    version: Version
    proxies: tuple[Proxy, ...]
    look: Look
    order: int = 1000
    settings: Mapping[str, Any] | None = None
    model: ModelFamily | None = None

    @property
    def view(self) -> View:
        return self.proxies[0].view

    def identity(self, encoder: dict[str, Any]) -> dict[str, Any]:
        """Return what decides the family's values besides the texts of targets and observation.

        Lexical evidence does not depend on the encoder. No evidence depends on R: `auxiliary` is
        always empty, and stays in the key so that stored evidence is found again.
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


class ModelFamily(Plugin):
    """A family whose model is fitted to each observation, to many of them in one call.

    It is opt-in, `[evidence] also = ["lm"]`, and has settings (docs/method.md §14). To everything
    after it its proxies are like others: calibration, nulls and chance limits apply unchanged.
    """

    view: ClassVar[View]
    scale: ClassVar[Scale]
    proxies: ClassVar[dict[str, str]]

    def check(self) -> None:
        """Raise a `UserError` if the model cannot be used here: asked before any work."""

    @abstractmethod
    def look_together(self, targets: Targets, observations: Sequence[Observation]) -> list[Floats]:
        """Return the values `[target, proxy]` on each observation, none depending on the others."""

    def look(self, targets: Targets, observation: Observation) -> Floats:
        return self.look_together(targets, [observation])[0]

    def family(self) -> Family:
        """Return the family with these settings, as an audit uses it."""
        members = tuple(
            Proxy(name, self.kind, self.view, self.scale, meaning)
            for name, meaning in self.proxies.items()
        )
        return Family(
            self.kind, self.version, members, self.look, settings=self.identity(), model=self
        )


model_families: PluginRegistry[ModelFamily] = PluginRegistry(
    "proxy family on a model", "synthleak.evidence.models"
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
