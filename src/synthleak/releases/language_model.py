"""What generators on a language model share: one backbone, many instances (METHOD §5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from synthleak.releases.release import Generator, Request, Synthetic

SPEED = ("device", "dtype", "fleet")
"""Settings that change how fast a release comes and not which one."""


class LanguageModel(Generator):
    """A generator whose instances share one frozen backbone."""

    backbone: str = "smollm2"
    max_tokens: int = Field(default=128, ge=4, description="of a text")
    top_k: int = Field(default=50, ge=1)
    top_p: float = Field(default=0.9, gt=0, le=1)
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    fleet: int | None = Field(
        default=None, ge=1, description="instances at once; none: what fits, up to 128"
    )

    def identity(self) -> dict[str, Any]:
        """Return what decides a release: never the device, the precision or the fleet."""
        return {key: value for key, value in super().identity().items() if key not in SPEED}

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
