"""Sampling texts: prompts in, clean texts out; rejected texts are sampled again.

Whether a text is rejected depends on the text alone, never on a private record.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from synthleak.core.seeds import stream
from synthleak.corpus.corpus import Labels
from synthleak.releases.lm.fleet.decoding import Decoding
from synthleak.releases.lm.fleet.sampling import Tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone
from synthleak.releases.lm.prompting.cleaning import (
    clean_answer,
    degenerate,
    unquoted,
    whole_sentences,
)
from synthleak.releases.lm.prompting.prompt_tokens import PromptTokenizer
from synthleak.releases.lm.prompting.token_sampling import TokenSampler
from synthleak.releases.lm.steering.hooks import SteeringVectors

log = logging.getLogger("synthleak.releases")

Owner = tuple[int, int]
"""A seed, and the number of consecutive rows that are drawn from it."""


class TextSampler:
    """Samples texts from the shared backbone."""

    def __init__(self, shared: SharedBackbone, *, attempts: int) -> None:
        self.tokenizer = PromptTokenizer(shared.backbone)
        self._token_sampler = TokenSampler(shared)
        self._attempts = attempts

    def sample(
        self,
        prompts: Sequence[Tokens],
        of: Sequence[int] | NDArray[np.int64],
        owners: Sequence[Owner],
        how: Decoding,
        *,
        one_line: bool,
        quoted: bool = False,
        labels: Sequence[Labels] | None = None,
        steering: SteeringVectors | None = None,
        written: Callable[[Sequence[str]], None] = lambda texts: None,
    ) -> list[str]:
        """Continue prompt `of[r]` for every row r; a row's owner decides its randomness.

        `quoted` says that prompts end with an opening quotation mark; `labels` are those that each
        row should fit. A text that is degenerate after the last attempt is kept: a release always
        has its full size. `written` is given the others, in a thread, while the device draws more.
        """
        prompt_of = np.asarray(of, dtype=np.int64)
        texts = [""] * len(prompt_of)
        rows = np.arange(len(prompt_of))
        drawn = 0
        for attempt in range(self._attempts):
            uniforms = _uniforms(owners, attempt, how.longest)
            named = [labels[row] if labels else () for row in rows.tolist()]
            with _Reader(
                self.tokenizer, how.end, named, written, one_line=one_line, quoted=quoted
            ) as reader:
                tokens = self._token_sampler.sample(
                    prompts, prompt_of[rows], uniforms[rows], how, steering, reader.take
                )
            drawn += sum(map(len, tokens))
            for place, text in reader.texts.items():
                texts[rows[place]] = text
            rows = rows[sorted(reader.degenerate)]
            if not len(rows):
                break
        log.info("%d texts, %d tokens, %d still degenerate", len(prompt_of), drawn, len(rows))
        return texts


class _Reader:
    """Decodes and cleans texts in a thread, while the device draws more."""

    def __init__(
        self,
        tokenizer: PromptTokenizer,
        ends: Sequence[int],
        labels: Sequence[Labels],
        written: Callable[[Sequence[str]], None],
        *,
        one_line: bool,
        quoted: bool,
    ) -> None:
        self._tokenizer, self._ends, self._labels = tokenizer, frozenset(ends), labels
        self._one_line, self._quoted, self._written = one_line, quoted, written
        self._pool = ThreadPoolExecutor(1)
        self._waiting: list[Future[None]] = []
        self.texts: dict[int, str] = {}
        self.degenerate: list[int] = []

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._pool.shutdown(cancel_futures=kind is not None)
        if kind is None:
            for part in self._waiting:
                part.result()

    def take(self, places: list[int], drawn: list[Tokens]) -> None:
        """Queue the tokens of these places."""
        self._waiting.append(self._pool.submit(self._read, places, drawn))

    def _read(self, places: list[int], drawn: list[Tokens]) -> None:
        good = []
        for place, written, tokens in zip(
            places, self._tokenizer.decode(drawn), drawn, strict=True
        ):
            answer, ended = unquoted(written) if self._quoted else (written, False)
            whole = answer if ended or tokens[-1] in self._ends else whole_sentences(answer)
            text = self.texts[place] = clean_answer(whole, one_line=self._one_line)
            if degenerate(text, self._labels[place]):
                self.degenerate.append(place)
            else:
                good.append(text)
        self._written(good)


def _uniforms(owners: Sequence[Owner], attempt: int, longest: int) -> NDArray[np.float32]:
    parts = [
        stream(seed, "tokens", attempt).random((rows, longest), dtype=np.float32)
        for seed, rows in owners
    ]
    return np.concatenate(parts) if parts else np.zeros((0, longest), dtype=np.float32)
