"""Prior attacks: published attacks on releases, under our protocol (docs/method.md §9).

An attack reads an observation as a proxy does, and returns a few columns per target. Its arms say
which column is used in which scenario, and how it is calibrated there. They are not among the 32
proxies.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from synthleak.core.identity import digest
from synthleak.core.plugins import calling
from synthleak.core.registry import Plugin, PluginRegistry
from synthleak.evidence.family import View
from synthleak.evidence.observation import Floats, Observation, Targets, TextSet, check_values

Rule = Literal["as it is", "mean probability", "ratio"]
"""How a column is calibrated: not at all; log p less the log of the references' mean probability;
divided by the references' mean."""


@dataclass(frozen=True)
class Arm:
    """One published signal in one scenario."""

    name: str
    scenario: str
    column: int
    view: View
    rule: Rule
    meaning: str


class Attack(Plugin):
    """A family of published attacks; its best arm per cell counts, as our best proxy does.

    An attack with `scores_only` is not run on the references themselves; one that `uses_references`
    gets their texts together, or None where the plan has none.
    """

    arms: ClassVar[tuple[Arm, ...]]
    columns: ClassVar[int]
    scores_only: ClassVar[bool] = False
    uses_auxiliary: ClassVar[bool] = False
    uses_references: ClassVar[bool] = False

    @abstractmethod
    def look(
        self, targets: Targets, observation: Observation, references: TextSet | None
    ) -> Floats:
        """Return `[target, column]`."""


attacks: PluginRegistry[Attack] = PluginRegistry("prior attack", "synthleak.evidence.prior")


def attack_key(
    attack: Attack,
    encoder: dict[str, Any],
    targets: Targets,
    text: str,
    references: tuple[str, ...],
) -> str:
    """Return the key of one attack's columns on one observation, from contents alone."""
    return digest(
        "prior",
        attack.identity(),
        encoder,
        targets.auxiliary.key if attack.uses_auxiliary else None,
        targets.key,
        text,
        references if attack.uses_references else None,
    )


def observe(
    attack: Attack, targets: Targets, observation: Observation, references: TextSet | None
) -> Floats:
    """Return the columns of one attack, checked against its contract."""
    with calling("prior attack", attack.kind, attack):
        values = attack.look(targets, observation, references)
        return check_values(f"the attack {attack.kind!r}", values, (len(targets), attack.columns))
