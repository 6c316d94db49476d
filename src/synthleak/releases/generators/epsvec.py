"""`epsvec` (EPSVec): a frozen language model steered by noised vectors of the private texts.

Private records vote for exemplars, and move the vectors of some layers, both with noise; everything
after that is post-processing (docs/design/claim-epsvec.md). ε = ∞ neither clips nor adds noise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from synthleak.corpus.corpus import Record
from synthleak.releases.claim import GaussianEvent, gaussian_sigma, remaining_sigma
from synthleak.releases.generator import Floats, generators
from synthleak.releases.lm.generator import Prompted
from synthleak.releases.lm.prompts import RANDOM, STYLES, with_placeholders
from synthleak.releases.release import Request, Synthetic


@generators.register("epsvec", version=5)
class EpsVec(Prompted):
    """A frozen language model steered by noised vectors of the private texts (EPSVec)."""

    exemplars: int = Field(default=2, ge=1, description="per class, chosen by noised votes")
    candidates: int = Field(default=16, ge=2, description="per class, to choose exemplars from")
    references: int = Field(default=8, ge=2, description="generated texts that a mean is over")
    scope: Literal["class", "corpus"] = Field(
        default="class", description="one vector per class, or one for all"
    )
    depth: tuple[float, float] = Field(default=(0.5, 0.7), description="layers, as shares of all")
    clip: float = Field(default=1.0, gt=0, description="in units of how generated texts scatter")
    alpha: float | Literal["auto"] = Field(
        default="auto", description="auto: 1.4 with privacy, 0.2 without"
    )
    unit: float | Literal["auto"] = Field(
        default="auto", description="the length that alpha counts in; auto: a part of the states'"
    )
    part: float = Field(default=14.0, gt=0, description="unit = auto is the states' norm over this")
    vote_share: float = Field(default=1 / 6, gt=0, lt=1, description="of ε, for the exemplars")
    vote_delta: float = Field(default=1e-6, gt=0, lt=1)
    attempts: int = Field(default=3, ge=1, description="before a degenerate text stays")
    prompt: Annotated[str, with_placeholders("description", "labelled", "style", "words")] = Field(
        default=RANDOM, description="asks for a candidate"
    )
    styles: tuple[str, ...] = Field(default=STYLES, min_length=1)
    public_inputs: ClassVar = (
        "backbone",
        "description",
        "label classes",
        "R",
        "N",
        "max_tokens",
        "encoder",
    )

    @model_validator(mode="after")
    def _enough_candidates(self) -> EpsVec:
        if self.exemplars > self.candidates:
            raise ValueError(
                f"{self.exemplars} exemplars cannot be chosen from {self.candidates} candidates"
            )
        return self

    @field_validator("depth")
    @classmethod
    def _rising(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not 0 <= value[0] <= value[1] < 1:
            raise ValueError("use two shares of the depth, from 0 to below 1, the smaller first")
        return value

    def layers_of(self, count: int) -> tuple[int, ...]:
        """Return the layers that are steered, counted from 0: 8 to 11 of 16."""
        low, high = (share * count for share in self.depth)
        first = min(math.ceil(low), count - 1)
        return tuple(range(first, max(first, math.floor(high)) + 1))

    def vote_sigma(self, request: Request) -> float:
        if math.isinf(request.epsilon):
            return 0.0
        return gaussian_sigma(request.epsilon * self.vote_share, self.vote_delta)

    def vector_sigma(self, request: Request, layers: int) -> float:
        """Return the noise of the sums, in units of their bounds: what is left of the budget."""
        if math.isinf(request.epsilon):
            return 0.0
        spent = self.vote_sigma(request)
        return remaining_sigma(request.epsilon, request.delta, spent, layers)

    def strength(self, request: Request) -> float:
        """Return α: 1.4 with privacy, 0.2 without, unless the spec names one."""
        if self.alpha != "auto":
            return self.alpha
        return 0.2 if math.isinf(request.epsilon) else 1.4

    def events(self, request: Request) -> tuple[GaussianEvent, ...]:
        from synthleak.releases.lm.backbone import depth_of

        layers = len(self.layers_of(depth_of(self.backbone, self.revision)))
        votes = GaussianEvent(
            what="nearest-neighbour votes for exemplars, one per record",
            sigma=self.vote_sigma(request),
            replace_sensitivity=math.sqrt(2),
        )
        sums = GaussianEvent(
            what="sum of hidden-state differences of one layer, in units of their largest norm",
            sigma=self.vector_sigma(request, layers),
            replace_sensitivity=2.0,
            count=layers,
        )
        return votes, sums

    @property
    def score_columns(self) -> tuple[str, ...]:
        """A record's difference to the mean of its class, projected on the noised sums."""
        return ("projection",)

    def scored_with(self, epsilon: float) -> str:
        return "the vectors" if math.isinf(epsilon) else "the noised vectors"

    def _fleet(
        self, requests: Sequence[Request], records: Sequence[Record]
    ) -> list[tuple[list[Synthetic], Floats]]:
        from synthleak.releases.lm.backbone import require_llm

        require_llm()
        from synthleak.releases.lm.steering import steered

        return steered(self, requests, records)
