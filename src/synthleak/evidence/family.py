"""Proxy families: what a proxy is, and where families are registered (docs/method.md §6).

A family is one idea with its variants. It is a pure function of targets and an observation:
``look(targets, observation) -> float64 [targets, proxies]``; higher always means more like a
member. It never sees a scenario, a coin or a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from synthleak.core.registry import Entry, Registry, Version, edition
from synthleak.evidence.observation import Floats, Observation, Targets

if TYPE_CHECKING:
    from synthleak.evidence.model_family import ModelFamily

View = Literal["lexical", "embedding"]
Scale = Literal["ratio", "log", "difference"]
Look = Callable[[Targets, Observation], Floats]


@dataclass(frozen=True)
class Proxy:
    """One signal: its name is stable once published; its scale says how it is calibrated."""

    name: str
    family: str
    view: View
    scale: Scale
    meaning: str


@dataclass(frozen=True)
class Family:
    """Proxies that are computed together.

    `order` is the family's place in the catalogue, which breaks ties between proxies. A family that
    fits a `model` to many observations at once has settings, and is looked at by itself.
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
        """The view of the family: lexical or embedding."""
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
    """Register the decorated function as a family.

    `proxies` gives names and meanings, in the order of the columns that the function returns;
    `order` is for the families of the method's table.
    """
    members = tuple(Proxy(proxy, name, view, scale, meaning) for proxy, meaning in proxies.items())

    def register(look: Look) -> Look:
        entry = Family(name, edition(version, look), members, look, order)
        families.add(name, entry, version=version, described_by=look)
        return look

    return register
