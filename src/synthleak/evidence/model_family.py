"""Proxy families that fit a model to many observations at once (docs/method.md §14).

They are opt-in, `[evidence] also = ["lm"]`, and have settings. To everything after them they are
proxies like others: calibration, nulls and chance limits apply unchanged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from synthleak.core.registry import Plugin, PluginRegistry
from synthleak.evidence.family import Family, Proxy, Scale, View
from synthleak.evidence.observation import Floats, Observation, Targets


class ModelFamily(Plugin):
    """A family whose model is fitted to each observation, to many of them in one call."""

    view: ClassVar[View]
    scale: ClassVar[Scale]
    proxies: ClassVar[dict[str, str]]

    def check(self) -> None:
        """Raise a `UserError` if the model cannot be used here: asked before any work."""

    @abstractmethod
    def look_together(self, targets: Targets, observations: Sequence[Observation]) -> list[Floats]:
        """Return the values `[target, proxy]` on each observation, none depending on the others."""

    def look(self, targets: Targets, observation: Observation) -> Floats:
        """Return the values on one observation."""
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
