"""DOMIAS (van Breugel et al. 2023): where the release is denser than the domain.

Its published settings have at least 78 records per dimension, ours often fewer than one; hence four
estimators, two of them on 32 principal axes.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from synthleak.evidence import Arm, Attack, Floats, Observation, Targets, TextSet, attacks
from synthleak.evidence.fast.kernel import Basis, log_densities, principal

_MEANINGS = {
    "g": "log p_G(x) - log p_R(x), Ledoit–Wolf Gaussians",
    "k": "log p_G(x) - log p_R(x), kernel densities",
    "pg": "log p_G(x) - log p_R(x), Gaussians on principal axes of R",
    "pk": "log p_G(x) - log p_R(x), kernel densities on principal axes of R",
}


@attacks.register("domias", version=1)
class Domias(Attack):
    """DOMIAS: density of the release against density of the domain, by four estimators."""

    components: int = Field(default=32, ge=1)

    columns: ClassVar[int] = 8
    scores_only: ClassVar[bool] = True
    uses_auxiliary: ClassVar[bool] = True
    uses_references: ClassVar[bool] = True
    arms: ClassVar[tuple[Arm, ...]] = tuple(
        Arm(name, scenario, 4 * place + column, "embedding", "as it is", meaning)
        for place, scenario in enumerate(("S2", "S3"))
        for column, (name, meaning) in enumerate(_MEANINGS.items())
    )

    def look(
        self, targets: Targets, observation: Observation, references: TextSet | None
    ) -> Floats:
        """Return the log-density ratios against R, then against the references (0 for none)."""
        nothing = np.zeros((len(targets), 4))
        return np.hstack(
            [
                self._against(targets, observation, domain) if domain else nothing
                for domain in (targets.auxiliary, references)
            ]
        )

    def _against(self, targets: Targets, observation: Observation, domain: TextSet) -> Floats:
        basis, expected = domain.remember(
            f"densities of {self.components} at {targets.key}", lambda: self._fit(targets, domain)
        )
        whole = observation.beside(
            targets, "densities", lambda: log_densities(observation.vectors, targets.vectors)
        )
        reduced = log_densities(basis.reduce(observation.vectors), basis.reduce(targets.vectors))
        return np.hstack([whole, reduced]) - expected

    def _fit(self, targets: Targets, domain: TextSet) -> tuple[Basis, Floats]:
        """Return the principal axes of the domain, and its log-densities at the targets."""
        basis = principal(domain.vectors, self.components)
        whole = log_densities(domain.vectors, targets.vectors)
        reduced = log_densities(basis.reduce(domain.vectors), basis.reduce(targets.vectors))
        return basis, np.hstack([whole, reduced])
