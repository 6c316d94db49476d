"""What generators that prompt a frozen backbone have in common (METHOD §5.2)."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, ValidationInfo

from synthleak.corpus.corpus import Labels
from synthleak.encoders.encoder import Encoder, encoders
from synthleak.engine.progress import tell
from synthleak.errors import UserError
from synthleak.identity import digest
from synthleak.releases.release import Generator, Request, Synthetic, private_prior
from synthleak.seeds import stream
from synthleak.spec import EncoderSection

log = logging.getLogger("synthleak.releases")

SPEED = ("device", "dtype", "fleet")
"""Settings that change how fast a release comes and not which one."""


def _encoder(value: Any, info: ValidationInfo) -> Any:
    if isinstance(value, Encoder):
        return value
    section = EncoderSection.model_validate(value)
    base = (info.context or {}).get("base")
    try:
        return encoders.build(section.kind, section.settings, key="kind", where=(), base=base)
    except UserError as error:
        raise ValueError(str(error)) from None


EncoderSetting = Annotated[Encoder, BeforeValidator(_encoder)]


class Prompted(Generator):
    """A generator that prompts a frozen backbone, many instances at once."""

    backbone: str = "smollm2"
    encoder: EncoderSetting = Field(default="static", validate_default=True)
    max_tokens: int = Field(default=128, ge=4, description="of a text")
    top_k: int = Field(default=50, ge=1)
    top_p: float = Field(default=0.9, gt=0, le=1)
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    fleet: int | None = Field(default=None, ge=1, description="instances at once; none: up to 128")

    def identity(self) -> dict[str, Any]:
        """Return what decides a release: never the device, the precision or the fleet."""
        settings = self.model_dump(exclude={"encoder", *SPEED})
        encoder = self.encoder.identity()
        return {"kind": self.kind, "version": self.version, **settings, "encoder": encoder}

    def fingerprint(self, request: Request) -> str:
        """Return the hash of the corpus's description, which every prompt is made of."""
        return digest("description", request.public.description)

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
        """Take many: the rows of all of them are drawn together."""
        return self.fleet or 128

    def classes(self, request: Request) -> list[Labels]:
        """Draw the classes to generate from the public prior, and put them in order."""
        side = private_prior(request.public, request.records) if peeks(request) else request.public
        return sorted(side.draw_classes(request.size, stream(request.seed, "classes")))

    def generate(self, request: Request) -> Sequence[Synthetic]:
        """Make one release: a fleet of one."""
        return next(self.generate_many([request]))

    def generate_many(self, requests: Sequence[Request]) -> Iterator[Sequence[Synthetic]]:
        """Make the releases of one fleet after another; they are kept as they come."""
        for start in range(0, len(requests), self.batch):
            yield from self._fleet(requests[start : start + self.batch])

    def check(self) -> None:
        """Look for the files of the encoder."""
        self.encoder.check()

    @abstractmethod
    def _fleet(self, requests: Sequence[Request]) -> list[list[Synthetic]]:
        """Return the releases of one fleet."""


def peeks(request: Request) -> bool:
    """Say whether class sizes are taken from the private set."""
    return request.label_prior == "private"


def void_of(request: Request) -> str | None:
    """Return why a claim does not hold, if it does not."""
    return "class sizes were taken from the private set" if peeks(request) else None


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Say that something is being done, and at level INFO how long it took."""
    tell(what)
    began = time.perf_counter()
    yield
    log.info("%s: %.1f s", what, time.perf_counter() - began)
