"""What generators on a language model share: one backbone, many instances (docs/method.md §5.2)."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, ValidationInfo, model_validator

from synthleak.core.engine.progress import span, tell
from synthleak.core.errors import UserError
from synthleak.core.seeds import digest, stream
from synthleak.core.spec import EncoderSection
from synthleak.corpus.corpus import Labels, Record
from synthleak.encoders.encoder import Encoder, encoders
from synthleak.releases.generator import AccountedGenerator, Floats
from synthleak.releases.lm.backbone import SMOLLM2
from synthleak.releases.release import Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.lm.fleet.sampling import Decoding
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone


SPEED = ("device", "dtype", "fleet")
"""Settings that change how fast a release comes and not which one."""


class LanguageModel(AccountedGenerator):
    """A generator whose instances share one frozen backbone."""

    reproducible: ClassVar[bool] = False  # sums of floating-point numbers differ between devices
    exclusive: ClassVar[bool] = True
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
    def batch(self) -> int:
        """As many as one fleet can hold: they are made together."""
        return self.fleet or 128

    def shared_backbone(self) -> SharedBackbone:
        from synthleak.releases.lm.fleet.shared_backbone import shared_backbone

        return shared_backbone(self.backbone, self.device, self.dtype, self.revision)

    def decoding(
        self, end: tuple[int, ...], longest: int | None = None, least: int = 0
    ) -> Decoding:
        """Return how tokens are drawn; `end` are the tokens that end a text."""
        from synthleak.releases.lm.fleet.sampling import Decoding

        longest = self.max_tokens if longest is None else longest
        return Decoding(end, longest, self.temperature, self.top_k, self.top_p, least)

    def classes(self, request: Request) -> list[Labels]:
        return request.draw_classes(stream(request.seed, "classes"))

    def generate(self, request: Request) -> Sequence[Synthetic]:
        (release,) = self.generate_many([request])
        return release


log = logging.getLogger("synthleak.releases")


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


class Prompted(LanguageModel):
    """A generator that prompts a frozen backbone, many instances at once."""

    encoder: EncoderSetting = Field(default="static", validate_default=True)

    def identity(self) -> dict[str, Any]:
        """Return what decides a release, the encoder with its own identity."""
        return super().identity() | {"encoder": self.encoder.identity()}

    def fingerprint(self, request: Request) -> str:
        """Return the hash of the corpus's description, which every prompt is made of."""
        return digest("description", request.public.description)

    def classes(self, request: Request) -> list[Labels]:
        return sorted(super().classes(request))

    def generate_many(self, requests: Sequence[Request]) -> Iterator[Sequence[Synthetic]]:
        """Make the releases of one fleet after another; they are kept as they come."""
        yield from (release for release, _ in self.generate_and_score(requests, ()))

    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Record], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Floats]]:
        """Make the releases of one fleet after another, and score records by what each learnt."""
        for start in range(0, len(requests), self.batch):
            part = requests[start : start + self.batch]
            with span(start, start + len(part)):
                made = self._fleet(part, records)
            yield from ((release if sample else [], scores) for release, scores in made)

    def check(self) -> None:
        self.encoder.check()

    @abstractmethod
    def _fleet(
        self, requests: Sequence[Request], records: Sequence[Record]
    ) -> list[tuple[list[Synthetic], Floats]]:
        """Return the releases of one fleet, each with the scores of the records."""


@contextmanager
def timed(what: str, start: float = 0.0, end: float = 0.0) -> Iterator[None]:
    """Say that something is being done, and at level INFO how long it took.

    `start` and `end` are the shares of the fleet's work that are done before it and after it.
    """
    began = time.perf_counter()
    with span(start, end):
        tell(what, 0.0 if end else None)
        yield
    log.info("%s: %.1f s", what, time.perf_counter() - began)
