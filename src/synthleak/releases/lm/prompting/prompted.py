"""What generators that prompt a frozen backbone have in common (docs/method.md §5.2)."""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationInfo

from synthleak.core.engine.progress import span, tell
from synthleak.core.errors import UserError
from synthleak.core.identity import digest
from synthleak.core.spec_sections import EncoderSection
from synthleak.corpus.corpus import Labels
from synthleak.encoders.encoder import Encoder, encoders
from synthleak.releases.lm.generator import LanguageModel
from synthleak.releases.release import Request, Synthetic

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
        """Draw the classes to generate, and put them in order."""
        return sorted(super().classes(request))

    def generate_many(self, requests: Sequence[Request]) -> Iterator[Sequence[Synthetic]]:
        """Make the releases of one fleet after another; they are kept as they come."""
        for start in range(0, len(requests), self.batch):
            part = requests[start : start + self.batch]
            with span(start, start + len(part)):
                made = self._fleet(part)
            yield from made

    def check(self) -> None:
        """Look for the files of the encoder."""
        self.encoder.check()

    @abstractmethod
    def _fleet(self, requests: Sequence[Request]) -> list[list[Synthetic]]:
        """Return the releases of one fleet."""


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
