"""Canary's Echo (Meeus et al. 2025): n-gram support and embedding similarity.

The published results are for canaries that were inserted 12 to 16 times; ours are for natural
records that were inserted once. They cannot be compared.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from pydantic import Field

from synthleak.evidence import Arm, Attack, Floats, Observation, Targets, TextSet, attacks
from synthleak.evidence.fast.extremes import top_mean
from synthleak.evidence.fast.nearest import top_cosines
from synthleak.evidence.fast.ngram_model import ngram_logprob

_NGRAM = "log p(x) under an add-1 n-gram model of all of O"
_SIMILARITY = "mean cosine to the nearest texts"


@attacks.register("canary", version=1)
class Canary(Attack):
    """Canary's Echo: an n-gram model of the whole release, and similarity to its nearest texts."""

    order: int = Field(default=2, ge=2, le=5)
    neighbours: int = Field(default=25, ge=1)

    columns: ClassVar[int] = 2
    arms: ClassVar[tuple[Arm, ...]] = (
        Arm("n", "S1", 0, "lexical", "as it is", _NGRAM),
        Arm("s", "S1", 1, "embedding", "as it is", _SIMILARITY),
        *(
            arm
            for scenario in ("S2", "S3")
            for arm in (
                Arm("nR", scenario, 0, "lexical", "mean probability", f"{_NGRAM}, calibrated"),
                Arm("sR", scenario, 1, "embedding", "ratio", f"{_SIMILARITY}, calibrated"),
            )
        ),
    )

    def look(
        self, targets: Targets, observation: Observation, references: TextSet | None
    ) -> Floats:
        """Return the log-probability and the mean of the largest cosines."""
        support = ngram_logprob(targets, observation, self.order)
        nearness = top_mean(top_cosines(targets, observation, self.neighbours), self.neighbours)
        return np.stack([support, nearness], axis=1)
