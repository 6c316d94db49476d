"""`dpsgd` (DP-Gen): a language model fine-tuned on the private records with DP-SGD.

How a record is written, and what is drawn, clipped and noised in a step, for records and for
persons: docs/design/claim-dpsgd.md. No text is empty. ε = ∞ neither clips nor adds noise;
`clip_only` clips.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, field_validator

from synthleak.corpus.corpus import Labels, Record
from synthleak.releases.claim import GaussianEvent, gaussian_sigma
from synthleak.releases.generator import Floats, PersonAccounting, generators
from synthleak.releases.lm.generator import LanguageModel
from synthleak.releases.release import Request, Synthetic

if TYPE_CHECKING:
    from synthleak.releases.lm.backbone import Backbone
    from synthleak.releases.lm.fleet.batches import Example
    from synthleak.releases.lm.fleet.training import TrainingConfig


LENGTHS = ((128, 16), (512, 8))
"""(longest, batch): texts of at most `longest` tokens are trained in batches of `batch`."""
LONG_TEXTS = 4
"""The batch for longer texts."""


@generators.register("dpsgd", version=2)
class DpSgd(PersonAccounting, LanguageModel):
    """A language model fine-tuned with DP-SGD, a hundred instances at once (DP-Gen)."""

    adapter: Literal["lora"] = "lora"
    rank: int = Field(default=16, ge=1, description="of LoRA")
    scale: float = Field(default=2.0, gt=0)
    epochs: float = Field(default=10, gt=0)
    batch_size: float | Literal["auto"] = Field(
        default="auto", description="expected; auto: 16, 8 or 4, by max_tokens"
    )
    learning_rate: float | Literal["auto"] = Field(
        default="auto", description="auto: 2e-3 without privacy, 1e-3 with"
    )
    clip: float = Field(default=1.0, gt=0, description="the largest norm of a record's gradient")
    clip_only: bool = Field(default=False, description="clip without privacy too")
    max_tokens: int = Field(default=128, ge=8, description="of prompt and text")
    public_inputs: ClassVar = ("backbone", "label classes", "class sizes of R", "N", "max_tokens")

    @field_validator("batch_size", "learning_rate", mode="before")
    @classmethod
    def _above_zero(cls, value: Any) -> Any:
        number = type(value) in (int, float) and 0 < value < math.inf
        if value != "auto" and not number:
            raise ValueError('use a number above 0, or "auto"')
        return value

    @property
    def score_columns(self) -> tuple[str, ...]:
        """The gain in log p: its sum over a record's tokens, and its mean."""
        return ("sum", "mean")

    @property
    def expected_batch(self) -> float:
        """B: the expected batch and normaliser; `auto` goes by `max_tokens`, never by D."""
        if self.batch_size != "auto":
            return self.batch_size
        fitting = (batch for longest, batch in LENGTHS if self.max_tokens <= longest)
        return next(fitting, LONG_TEXTS)

    def steps(self, nominal: int) -> int:
        """Return the number of steps: from the nominal N alone."""
        return max(1, int(self.epochs * nominal / self.expected_batch))

    def rate(self, nominal: int) -> float:
        """Return the Poisson rate: from the nominal N alone."""
        return min(1.0, self.expected_batch / nominal)

    def sigma(self, request: Request) -> float:
        if math.isinf(request.epsilon):
            return 0.0
        nominal = request.nominal
        return gaussian_sigma(
            request.epsilon, request.delta, self.steps(nominal), self.rate(nominal)
        )

    def events(self, request: Request) -> tuple[GaussianEvent, ...]:
        event = GaussianEvent(
            what=f"sum of gradients of norm at most {self.clip:g}, in units of that norm"
            + ", one for each person" * (self.unit == "person"),
            sigma=self.sigma(request),
            replace_sensitivity=2.0,
            count=self.steps(request.nominal),
            rate=self.rate(request.nominal),
        )
        return (event,)

    def generate_many(self, requests: Sequence[Request]) -> Iterator[Sequence[Synthetic]]:
        yield from (release for release, _ in self.generate_and_score(requests, ()))

    def generate_and_score(
        self, requests: Sequence[Request], records: Sequence[Record], *, sample: bool = True
    ) -> Iterator[tuple[Sequence[Synthetic], Floats]]:
        """Train a fleet of models together, score records under each, and sample its release."""
        from synthleak.releases.lm.backbone import require_llm

        require_llm()
        from synthleak.releases.lm.fleet.finetune import finetuned

        yield from finetuned(self, requests, records, sample=sample)

    def training_config(self, request: Request) -> TrainingConfig:
        from synthleak.releases.lm.fleet.training import TrainingConfig

        private = math.isfinite(request.epsilon)
        return TrainingConfig(
            steps=self.steps(request.nominal),
            rate=self.rate(request.nominal),
            batch=self.expected_batch,
            learning_rate=self._learning_rate(private=private),
            clip=self.clip if private or self.clip_only else None,
            sigma=self.sigma(request),
            persons=self.unit == "person",
        )

    def _learning_rate(self, *, private: bool) -> float:
        if self.learning_rate != "auto":
            return self.learning_rate
        return 1e-3 if private else 2e-3


def prompt_of(labels: Labels, backbone: Backbone) -> tuple[int, ...]:
    """Return the prompt of a class: what begins a text, its labels, then a blank line."""
    return (*backbone.opening, *backbone.encode("\t".join(labels) + "\n\n"))


def example_of(record: Record, backbone: Backbone, longest: int) -> tuple[Example, bool]:
    """Write a record as an example; say whether its text had to be cut.

    The end token is part of the text, also where the text was cut: what comes after is unknown, and
    a model that never sees an end runs on.
    """
    from synthleak.releases.lm.fleet.batches import Example

    prompt = prompt_of(record.labels, backbone)
    text = backbone.encode(record.text)
    room = max(longest - len(prompt) - 1, 0)
    cut = len(text) > room
    tokens = (*prompt, *text[:room], backbone.end)[-longest:]
    return Example(tuple(tokens), min(len(prompt), len(tokens) - 1)), cut
