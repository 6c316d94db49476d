"""Prior attacks: published attacks on releases, under our protocol (docs/method.md §9).

An attack reads an observation as a proxy does, and returns a few columns per target. Its arms say
which column is used in which scenario, and how it is calibrated there. They are not among the 32
proxies.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from synthleak.core.registry import Plugin, PluginRegistry, calling
from synthleak.core.seeds import digest
from synthleak.evidence.family import View
from synthleak.evidence.observation import Floats, Observation, Targets, TextSet, check_values

Rule = Literal["as it is", "mean probability", "ratio"]
"""How a column is calibrated: not at all; log p less the log of the references' mean probability;
divided by the references' mean."""


@dataclass(frozen=True)
class Arm:
    """One published signal in one scenario.

    Args:
        name: unique within the attack and scenario.
        scenario: "S1", "S2" or "S3".
        column: the column of `look` that it uses.
        view: what it reads, words or vectors.
        rule: how the column is calibrated.
        meaning: one line for tables.
    """

    name: str
    scenario: str
    column: int
    view: View
    rule: Rule
    meaning: str


class Attack(Plugin):
    """A family of published attacks; its best arm per cell counts, as our best proxy does.

    Attributes:
        arms: which column is used in which scenario.
        columns: the number of columns that `look` returns.
        scores_only: the attack is not run on the references themselves.
        uses_auxiliary: it reads `targets.auxiliary`, the texts of R.
        uses_references: it is given the texts of the references.
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
        """Compute the columns.

        Args:
            targets: the records that are asked about.
            observation: the release.
            references: the texts of the references together, if the attack uses them and the plan
                has any.

        Returns:
            A finite float64 array `[target, column]`.
        """


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
