"""`augpe` (Aug-PE): private evolution for text, by prompting alone.

Private records are seen through their noised votes alone; what is done with those is
post-processing (docs/design/claim-augpe.md). ε = ∞ counts the votes as they are.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from synthleak.core.errors import GeneratorError
from synthleak.core.runtime import Resources
from synthleak.corpus.corpus import Record
from synthleak.releases.claim import GaussianEvent, gaussian_sigma
from synthleak.releases.generator import Floats, generators
from synthleak.releases.lm.generator import Prompted, timed
from synthleak.releases.lm.prompts import (
    LABELLED,
    RANDOM,
    STYLES,
    VARIATION,
    on_one_line,
    usual_lengths,
    with_placeholders,
)
from synthleak.releases.release import Public, Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.lm.evolution import Writer

CONNECTION = (
    "address",
    "key_variable",
    "requests_per_minute",
    "connections",
    "retries",
    "timeout",
    "price_in",
    "price_out",
)
"""Settings that say how an address is reached, not what it answers."""

_PLACEHOLDERS = ("description", "labelled", "style", "words")


@generators.register("augpe", version=5)
class AugPe(Prompted):
    """Private evolution: texts that private records vote for have descendants (Aug-PE)."""

    rounds: int = Field(default=10, ge=1)
    variations: int = Field(default=6, ge=0, description="paraphrases of a survivor: L - 1")
    shared_random: bool = Field(default=False, description="one RANDOM population for all releases")
    attempts: int = Field(default=2, ge=1, description="before a degenerate text stays")
    random_prompt: Annotated[str, with_placeholders(*_PLACEHOLDERS)] = RANDOM
    variation_prompt: Annotated[
        str, with_placeholders(*_PLACEHOLDERS, "text", needed=("text",))
    ] = VARIATION
    label_phrase: Annotated[str, with_placeholders("labels")] = LABELLED
    styles: tuple[str, ...] = Field(default=STYLES, min_length=1)
    words: tuple[int, ...] | Literal["auto"] = Field(
        default="auto", description="lengths to ask for; auto: those of the auxiliary records"
    )
    address: str | None = Field(default=None, description="of a chat-completions service")
    model: str = Field(default="", description="the name of the model at the address")
    key_variable: str = Field(default="", description="the environment variable with the key")
    requests_per_minute: float | None = Field(default=None, gt=0)
    connections: int = Field(default=8, ge=1)
    retries: int = Field(default=5, ge=0)
    timeout: float = Field(default=60.0, gt=0)
    price_in: float = Field(default=0.0, ge=0, description="per million tokens of prompts")
    price_out: float = Field(default=0.0, ge=0, description="per million tokens of answers")
    public_inputs: ClassVar = (
        "backbone or address",
        "description",
        "label classes",
        "R",
        "N",
        "encoder",
    )

    @field_validator("words", mode="before")
    @classmethod
    def _some_words(cls, value: Any) -> Any:
        listed = isinstance(value, list | tuple) and value
        if value != "auto" and not (listed and all(type(n) is int and n >= 1 for n in value)):
            raise ValueError('use a list of whole numbers from 1, or "auto"')
        return value

    @field_validator("address")
    @classmethod
    def _web_address(cls, value: str | None) -> str | None:
        if value is None:
            return value
        if not value.startswith(("http://", "https://")):
            raise ValueError("use an address that starts with http:// or https://")
        try:
            parts = urlsplit(value)
            host = (parts.hostname or "").rstrip(".")
            whole = (
                all(0 < len(part) < 64 for part in host.split("."))
                and parts.port != 0
                and parts.username is None
                and value.isascii()
                and not re.search(r"\s", value)
            )
        except ValueError:
            whole = False
        if not whole:
            raise ValueError(
                "use an address such as https://host:port/v1, in plain letters, without spaces or a"
                " password: a key comes from key_variable"
            )
        return value

    @model_validator(mode="after")
    def _model_at_address(self) -> AugPe:
        if self.address is not None and not self.model:
            raise ValueError("an address needs the name of a model: set model")
        if self.address is not None and self.shared_random:
            raise ValueError(
                "shared_random needs a backbone: an address may answer each release differently"
            )
        if self.address is not None and self.revision is not None:
            raise ValueError(
                "a revision belongs to a backbone: leave it out where there is an address"
            )
        return self

    def identity(self) -> dict[str, Any]:
        """Return what decides a release: the model that is asked, never the way to it."""
        settings = {k: v for k, v in super().identity().items() if k not in CONNECTION}
        del settings["model" if self.address is None else "backbone"]
        return settings

    @property
    def family(self) -> int:
        return self.variations + 1

    @property
    def resources(self) -> Resources:
        """From an address no GPU: the model is elsewhere."""
        return super().resources if self.address is None else Resources()

    @property
    def batch(self) -> int:
        """From an address one release at a time, so that a break loses least."""
        return (self.fleet or 1) if self.address else super().batch

    def default_delta(self, nominal: int) -> float:
        return 1.0 / (nominal * math.log(nominal)) if nominal > 2 else 0.5

    def lengths(self, public: Public) -> tuple[int, ...]:
        return usual_lengths(public) if self.words == "auto" else self.words

    def sigma(self, request: Request) -> float:
        """Return the noise of one bin in one round: from the nominal N alone."""
        if math.isinf(request.epsilon):
            return 0.0
        return gaussian_sigma(request.epsilon, request.delta, self.rounds)

    def events(self, request: Request) -> tuple[GaussianEvent, ...]:
        event = GaussianEvent(
            what="nearest-neighbour votes, one per record and round",
            sigma=self.sigma(request),
            replace_sensitivity=math.sqrt(2),
            count=self.rounds,
        )
        return (event,)

    def check(self) -> None:
        """Look for the files of the encoder, and for the key of an address."""
        super().check()
        if self.address is not None:
            self.api_key()

    def api_key(self) -> str:
        """Return the key of the address from the environment; empty if none is needed."""
        if not self.key_variable:
            return ""
        key = os.environ.get(self.key_variable, "").strip()
        if not key or not key.isascii() or not key.isprintable():
            what = "a key with invalid characters" if key else "no key"
            raise GeneratorError(
                f"the environment variable {self.key_variable} holds {what}",
                self.address,
                f"export {self.key_variable}=…, or set key_variable = '' if none is needed",
            )
        return key

    @property
    def score_columns(self) -> tuple[str, ...]:
        """The noised votes of the texts that a record would vote for; none from an address.

        Texts from an address would have to be paid for once more where releases are there already.
        """
        return ("votes",) * (self.address is None)

    def scored_with(self, epsilon: float) -> str:
        return "the votes" if math.isinf(epsilon) else "the noised votes"

    def _fleet(
        self, requests: Sequence[Request], records: Sequence[Record]
    ) -> list[tuple[list[Synthetic], Floats]]:
        from synthleak.releases.lm.evolution import evolved

        with timed("loading the backbone"):
            writer = self.writer(requests[0])
        return evolved(self, writer, requests, records)

    def writer(self, request: Request) -> Writer:
        one_line = on_one_line(request.public)
        if self.address is not None:
            from synthleak.releases.lm.chat import ChatWriter

            decoding = {
                "temperature": self.temperature,
                "top_p": self.top_p,
                "max_tokens": self.max_tokens,
            }
            return ChatWriter(self, decoding, one_line=one_line, store=request.store)
        from synthleak.releases.lm.backbone import require_llm

        require_llm()
        from synthleak.releases.lm.text_sampling import LocalWriter

        return LocalWriter(self, one_line=one_line)
