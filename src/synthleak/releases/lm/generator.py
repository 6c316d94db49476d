"""What generators on a language model share: one backbone, many instances (docs/method.md §5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Labels
from synthleak.releases.generator import AccountedGenerator
from synthleak.releases.lm.backbone import SMOLLM2
from synthleak.releases.release import Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.lm.fleet.decoding import Decoding
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone

SPEED = ("device", "dtype", "fleet")
"""Settings that change how fast a release comes and not which one."""


class LanguageModel(AccountedGenerator):
    """A generator whose instances share one frozen backbone."""

    backbone: str = SMOLLM2
    revision: str | None = Field(
        default=None, min_length=1, description="a commit, tag or branch of a backbone on the hub"
    )
    max_tokens: int = Field(default=128, ge=4, description="of a text")
    temperature: float = Field(default=1.0, gt=0)
    top_k: int = Field(default=50, ge=1)
    top_p: float = Field(default=0.9, gt=0, le=1)
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    fleet: int | None = Field(
        default=None, ge=1, description="instances at once; none: what fits, up to 128"
    )

    @model_validator(mode="after")
    def _revision_on_the_hub(self) -> LanguageModel:
        if self.revision is None:
            return self
        if self.backbone == SMOLLM2 or Path(self.backbone).is_dir():
            raise ValueError(
                f"a revision belongs to a model on the Hugging Face hub, and the backbone is"
                f" {self.backbone!r}: name one, or leave revision out"
            )
        return self

    def identity(self) -> dict[str, Any]:
        """Return what decides a release: never the device, the precision or the fleet.

        A revision counts where one is named: releases made without keep their keys.
        """
        settings = super().identity()
        if self.revision is None:
            del settings["revision"]
        return {key: value for key, value in settings.items() if key not in SPEED}

    @property
    def reproducible(self) -> bool:
        """False: sums of floating-point numbers differ between devices."""
        return False

    @property
    def exclusive(self) -> bool:
        """One process holds the device."""
        return True

    @property
    def batch(self) -> int:
        """As many as one fleet can hold: they are made together."""
        return self.fleet or 128

    def shared_backbone(self) -> SharedBackbone:
        """Return the backbone with what serves a fleet, loaded once a process."""
        from synthleak.releases.lm.fleet.shared_backbone import shared_backbone

        return shared_backbone(self.backbone, self.device, self.dtype, self.revision)

    def decoding(
        self, end: tuple[int, ...], longest: int | None = None, least: int = 0
    ) -> Decoding:
        """Return how tokens are drawn; `end` are the tokens that end a text."""
        from synthleak.releases.lm.fleet.decoding import Decoding

        longest = self.max_tokens if longest is None else longest
        return Decoding(end, longest, self.temperature, self.top_k, self.top_p, least)

    def classes(self, request: Request) -> list[Labels]:
        """Draw the classes to generate."""
        return request.draw_classes(stream(request.seed, "classes"))

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Make one release: a fleet of one."""
        (release,) = self.generate_many([request])
        return release
