"""`lm`: a language model fine-tuned on the release (docs/method.md §14).

For each observation an adapter of one frozen backbone is trained on its texts, without privacy. A
target that was behind the release should then be more likely than before. All observations are
trained and scored as one fleet. After the attack of arXiv 2606.10481.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from synthleak.core.seeds import derive
from synthleak.evidence.family import ModelFamily, Scale, View, model_families
from synthleak.evidence.observation import Floats, Observation, Targets
from synthleak.releases.lm.backbone import SMOLLM2, require_llm

WINDOW = 10
"""Tokens of the passage that `lm_window` looks for."""
SPEED = ("device", "dtype", "fleet")
"""Settings that change how fast values come and not which ones."""
PLACES = 6
"""Decimals that are kept: those after them are the rounding of a batch."""


@model_families.register("lm", version=1)
class LanguageModelProxy(ModelFamily):
    """Likelihood under a language model fine-tuned on the release, against the bare one."""

    view: ClassVar[View] = "lexical"
    scale: ClassVar[Scale] = "log"
    proxies: ClassVar[dict[str, str]] = {
        "lm_llr": "mean log-likelihood a token under a model tuned on the texts, less the bare one",
        "lm_window": f"the largest such mean over {WINDOW} consecutive tokens",
    }

    backbone: str = SMOLLM2
    revision: str | None = Field(default=None, min_length=1)
    epochs: float = Field(default=3, gt=0, description="passes over the texts of an observation")
    batch_size: int = Field(default=16, ge=1)
    rank: int = Field(default=16, ge=1)
    learning_rate: float = Field(default=2e-3, gt=0)
    max_tokens: int = Field(default=128, ge=4, description="of a text; the rest is cut off")
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float64"] = "auto"
    fleet: int | None = Field(default=None, ge=1, description="observations at once")

    def identity(self) -> dict[str, Any]:
        """Return what decides the values: never the device, the precision or the fleet."""
        return {key: value for key, value in super().identity().items() if key not in SPEED}

    def check(self) -> None:
        """Say how to get torch and the backbone, if they are not here."""
        require_llm()
        self.shared()

    def shared(self) -> Any:
        """Return the backbone whose adapters are trained, loaded once a process."""
        from synthleak.releases.lm.fleet.shared_backbone import shared_backbone

        return shared_backbone(self.backbone, self.device, self.dtype, self.revision)

    def look_together(self, targets: Targets, observations: Sequence[Observation]) -> list[Floats]:
        """Fine-tune an adapter on each observation, and score every target under each.

        Equal targets are scored once, so that no rounding can tell them apart. The seed of an
        adapter is its observation.
        """
        from synthleak.releases.lm.fleet.likelihood import Tuning, tuned_log_likelihoods

        place = {text: row for row, text in enumerate(dict.fromkeys(targets.texts))}
        rows = [place[text] for text in targets.texts]
        gains = tuned_log_likelihoods(
            self.shared(),
            [observation.texts for observation in observations],
            [derive("lm", observation.key) for observation in observations],
            list(place),
            Tuning(
                epochs=self.epochs,
                batch=self.batch_size,
                rank=self.rank,
                learning_rate=self.learning_rate,
                longest=self.max_tokens,
                fleet=self.fleet,
            ),
        )
        return [np.array([_values(gain) for gain in own])[rows] for own in gains]


def _values(gain: Floats) -> tuple[float, float]:
    """Return the mean gain over all tokens, and over the best window.

    >>> _values(np.array([0.0] * 10 + [1.0] * 10))
    (0.5, 1.0)
    >>> _values(np.array([1.0, 2.0])), _values(np.array([]))
    ((1.5, 1.5), (0.0, 0.0))
    """
    if not len(gain):
        return 0.0, 0.0
    width = min(WINDOW, len(gain))
    sums = np.concatenate([[0.0], np.cumsum(gain)])
    best = ((sums[width:] - sums[:-width]) / width).max()
    return round(float(gain.mean()), PLACES), round(float(best), PLACES)
