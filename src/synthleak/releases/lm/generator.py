"""What generators on a language model share: one backbone, many instances (docs/method.md §5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from synthleak.releases.lm.backbone import SMOLLM2
from synthleak.releases.release import Generator, Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone

SPEED = ("device", "dtype", "fleet")
"""Settings that change how fast a release comes and not which one."""


class LanguageModel(Generator):
    """A generator whose instances share one frozen backbone."""

    backbone: str = SMOLLM2
    revision: str | None = Field(
        default=None, min_length=1, description="a commit, tag or branch of a backbone on the hub"
    )
    max_tokens: int = Field(default=128, ge=4, description="of a text")
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
    def private_by_design(self) -> bool:
        """A finite ε is accounted for."""
        return True

    @property
    def exclusive(self) -> bool:
        """One process holds the device."""
        return True

    @property
    def batch(self) -> int:
        """Take as many as one fleet could ever hold: they are made together."""
        return self.fleet or 128

    def shared_backbone(self) -> SharedBackbone:
        """Return the backbone with what serves a fleet, loaded once a process."""
        from synthleak.releases.lm.fleet.shared_backbone import shared_backbone

        return shared_backbone(self.backbone, self.device, self.dtype, self.revision)

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Make one release: a fleet of one."""
        (release,) = self.generate_many([request])
        return release


def peeks(request: Request) -> bool:
    """Say whether class sizes are taken from the private set."""
    return request.label_prior == "private"


def void_of(request: Request) -> str | None:
    """Return why a claim does not hold, if it does not."""
    return "class sizes were taken from the private set" if peeks(request) else None
