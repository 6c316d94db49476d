"""Answers from a backbone on this machine, all instances at once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from synthleak.core.errors import GeneratorError
from synthleak.corpus.corpus import Labels
from synthleak.releases.lm.prompting.prompt_tokens import distinct
from synthleak.releases.lm.prompting.text_sampling import TextSampler

if TYPE_CHECKING:
    from synthleak.releases.generators.augpe import AugPe

log = logging.getLogger("synthleak.releases")


class LocalWriter:
    """Writes texts with the shared backbone."""

    def __init__(self, generator: AugPe, *, one_line: bool) -> None:
        shared = generator.shared_backbone()
        self._sampler = TextSampler(shared, attempts=generator.attempts)
        tokenizer = self._sampler.tokenizer
        if tokenizer.chat_frame is None:
            log.warning(
                "the backbone %r has no chat template: prompts are written plainly, and texts end"
                " with their line",
                shared.backbone.name,
            )
        self._quoted = tokenizer.chat_frame is not None
        self._one_line = one_line or not self._quoted
        self._how = generator.decoding(tokenizer.ends(one_line=self._one_line))
        self._context = shared.backbone.context

    def tell(self) -> None:
        """Log nothing: a local backbone costs only time."""

    def write(
        self,
        requests: Sequence[str],
        labels: Sequence[Labels],
        each: int,
        owners: Sequence[tuple[int, int]],
        written: Callable[[Sequence[str]], None] = lambda texts: None,
    ) -> list[str]:
        """Answer every request `each` times; a prompt is read once for all its answers."""
        different, number = distinct(requests)
        prompts = self._sampler.tokenizer.encode_requests(different)
        longest = max(map(len, prompts), default=0) + self._how.longest
        if longest > self._context:
            raise GeneratorError(
                f"a prompt and its answer take {longest} tokens and the backbone reads"
                f" {self._context}",
                remedy="use a smaller max_tokens, or shorter prompts",
            )
        of = np.repeat(number, each)
        return self._sampler.sample(
            prompts,
            of,
            owners,
            self._how,
            one_line=self._one_line,
            quoted=self._quoted,
            labels=[name for name in labels for _ in range(each)],
            written=written,
        )
