"""Sampling tokens from a frozen backbone: rows of any prompt, each from its own randomness.

No adapters are involved, so rows of all instances form one flat batch. A prompt is read once
however many rows continue it. The token of a row at position t depends on its own `uniforms[t]`;
the batch that it is in changes nothing but rounding.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.engine.progress import tell
from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama
from synthleak.releases.lm.fleet.kv_cache import BLOCK, use_grouped_attention, whole_blocks
from synthleak.releases.lm.fleet.memory import HEADROOM, MOST_ANSWERS, MOST_TEXTS, Shape
from synthleak.releases.lm.fleet.sampling import Decoding, Tokens, sample_tokens
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of
from synthleak.releases.lm.prompt_decoders import (
    CopiedPrompts,
    Decoder,
    SharedPrompts,
    SteeringVectors,
    steering_hooks,
)

log = logging.getLogger("synthleak.releases")

DECODING = "SYNTHLEAK_DECODING"
"""Environment: `auto`, or `torch`, without kernels of our own."""


class TokenSampler:
    """Samples continuations of prompts from the shared backbone, at most `rows` at once."""

    def __init__(self, shared: SharedBackbone, *, rows: int | None = None) -> None:
        self._shared = shared
        self._most = rows
        decoding = os.environ.get(DECODING) or "auto"
        if decoding not in ("auto", "torch"):
            raise GeneratorError(
                f"unknown decoding {decoding!r}", DECODING, "use 'auto' or 'torch'"
            )
        self.llama: FrozenLlama | None = shared.frozen_llama if decoding == "auto" else None
        if self.llama is None:
            use_grouped_attention(shared.backbone.model)

    def sample(
        self,
        prompts: Sequence[Tokens],
        of: NDArray[np.int64],
        uniforms: NDArray[np.float32],
        how: Decoding,
        steering: SteeringVectors | None = None,
        done: Callable[[list[int], list[Tokens]], None] = lambda rows, drawn: None,
    ) -> list[Tokens]:
        """Return a continuation of prompt `of[r]` for every row r, with what ended it.

        `done` is told of rows as they are finished, many at a time.
        """
        continuations: list[Tokens] = [()] * len(of)
        if not len(of):
            return continuations
        lengths = np.array([len(prompt) for prompt in prompts])
        limits = self.limits(int(lengths[of].max()), how.longest)
        # The long with the long, and the rows of one prompt together.
        order = np.lexsort((of, -lengths[of]))
        start, rows = 0, limits.rows
        # Blocks kept from earlier batches have other sizes; a plan that fills memory would find it
        # in pieces that are too small.
        torch.cuda.empty_cache()

        def finish(part: list[int], drawn: NDArray[np.int32]) -> None:
            tokens = _texts(drawn)
            for row, text in zip(part, tokens, strict=True):
                continuations[row] = text
            done(part, tokens)

        # Tokens become tuples in a thread, while the device draws more.
        with ThreadPoolExecutor(1) as thread:
            finished: list[Future[None]] = []
            while start < len(order):
                part = order[start : start + rows]
                part = part[: limits.fitting(of[part])]
                try:
                    drawn = self._batch(prompts, of[part], uniforms[part], how, steering, limits)
                except torch.OutOfMemoryError:
                    if rows == 1:
                        raise
                    rows = max(1, len(part) // 2)
                    log.warning("out of device memory: continuing with %d texts at once", rows)
                else:
                    finished.append(thread.submit(finish, part.tolist(), drawn))
                    start += len(part)
                    tell(f"sampling texts, {start:,} of {len(order):,}", start / len(order))
                    continue
                torch.cuda.empty_cache()  # the failed batch is freed only now
            for one in finished:
                one.result()
        return continuations

    def limits(self, prompt: int, answer: int) -> SamplingLimits:
        """Plan what is sampled at once, for the longest prompt and answer."""
        memory = memory_of(self._shared.device)
        copied = self.llama is None
        shape = self._shared.shape(1)
        return plan_sampling(shape, memory, prompt, answer, self._most, copied=copied)

    def _batch(
        self,
        prompts: Sequence[Tokens],
        of: NDArray[np.int64],
        uniforms: NDArray[np.float32],
        how: Decoding,
        steering: SteeringVectors | None,
        limits: SamplingLimits,
    ) -> NDArray[np.int32]:
        """Return the tokens of every row, and -1 beyond its end."""
        # Prompts in the order of their rows, which are sorted by prompt.
        used = of[np.flatnonzero(np.diff(of, prepend=-1))]
        local = np.cumsum(np.diff(of, prepend=of[0]) != 0)
        head = self._shared.backbone.head
        asked = [prompts[p] for p in used]
        vectors = None if steering is None else steering.of(used, head.device, head.dtype)
        with torch.no_grad(), steering_hooks(self._shared, steering) as steer:
            decoder: Decoder = CopiedPrompts(self._shared, steer, vectors)
            if self.llama is not None:
                layers = () if steering is None else steering.layers
                decoder = SharedPrompts(self.llama, layers, vectors)
            decoder.read(asked, local, how.longest, limits.tokens)
            rows = _Rows(decoder, uniforms, how, head, limits.logits)
            while rows.go_on():
                pass
        return rows.drawn()


class _Rows:
    """The texts that are being drawn."""

    def __init__(
        self,
        decoder: Decoder,
        uniforms: NDArray[np.float32],
        how: Decoding,
        head: Tensor,
        logits_at_once: int,
    ) -> None:
        device, count = head.device, len(uniforms)
        self._decoder, self._how, self._head, self._at_once = decoder, how, head, logits_at_once
        self._ends = torch.zeros(len(head), dtype=torch.bool, device=device)
        self._ends[list(how.end)] = True
        self._uniforms = torch.from_numpy(uniforms).to(device)
        self._row = torch.arange(count, device=device)
        self._alive = torch.ones(count, dtype=torch.bool, device=device)
        self._made = torch.full(uniforms.shape, -1, dtype=torch.int32, device=device)
        self._length = 0

    def go_on(self) -> bool:
        """Draw the next token of every row, and read it if any text is unfinished."""
        t = self._length
        last = self.draw(t)
        self._made[self._row, t] = torch.where(self._alive, last, -1).int()
        self._alive &= ~self._ends[last]
        self._length += 1
        if self._length == self._how.longest:
            return False
        if self._length % self._decoder.every == 0:
            rows = self._alive.nonzero().squeeze(1)
            if not len(rows):
                return False
            if len(rows) <= self._decoder.below * len(last):
                last = last[rows]
                self._keep(rows)
        self._decoder.step(last)
        return True

    def draw(self, t: int) -> Tensor:
        """Return the next token of every row, the t-th of its text."""
        drawn = []
        for start in range(0, len(self._row), self._at_once):
            part = slice(start, start + self._at_once)
            logits = torch.matmul(self._decoder.hidden[part], self._head.T)
            uniforms = self._uniforms[part, t]
            drawn.append(sample_tokens(logits, uniforms, self._how, t))
        return torch.cat(drawn)

    def _keep(self, rows: Tensor) -> None:
        self._decoder.keep(rows)
        self._uniforms, self._row = self._uniforms[rows], self._row[rows]
        self._alive = self._alive[rows]

    def drawn(self) -> NDArray[np.int32]:
        return np.asarray(self._made.cpu().numpy())


def _texts(drawn: NDArray[np.int32]) -> list[Tokens]:
    lengths = (drawn >= 0).sum(axis=1).tolist()
    return [tuple(row[:length]) for row, length in zip(drawn.tolist(), lengths, strict=True)]


MOST_READ = 65_536
"""Tokens of prompts that are read together."""
MOST_LOGITS = 16_384
"""Rows whose next tokens are drawn together: beyond, logits only take memory."""


@dataclass(frozen=True)
class SamplingLimits:
    """How many rows are drawn, and how many tokens of prompts are read, at once.

    Logits of `logits` rows exist together. `memory` is shared by rows and their prompts, which
    take `row` and `prompt` bytes each.
    """

    rows: int
    tokens: int
    logits: int
    memory: int
    row: int
    prompt: int

    def fitting(self, prompt_of: NDArray[np.int64]) -> int:
        """Return how many of the first rows fit, whose prompts are these; at least one."""
        new = np.diff(prompt_of[: self.rows], prepend=-1) != 0
        taken = np.cumsum(self.row + self.prompt * new)
        return max(1, int(np.searchsorted(taken, self.memory, side="right")))


def plan_sampling(
    shape: Shape,
    memory: int,
    prompt: int,
    answer: int,
    most: int | None = None,
    *,
    copied: bool = True,
) -> SamplingLimits:
    """Plan by arithmetic what fits `memory`, for the longest prompt and answer.

    With `copied` every row has keys and values of its prompt, else a prompt has them once.
    """
    free = int(memory * HEADROOM) - shape.weights
    token = shape.bytes * (8 * shape.hidden + 3 * shape.inner) + 8 * shape.hidden
    tokens = min(MOST_READ, free // 4 // token)
    logits = max(1, min(MOST_LOGITS, free // 8 // shape.logits))
    left = free - tokens * token - logits * shape.logits
    # Where rows are chosen or room is made, one layer after another exists twice.
    layers = shape.layers + 1
    if copied:
        row, once = shape.layer(prompt + answer + BLOCK) * layers, 0
    else:
        # A step's states, products and results, besides keys and values.
        work = shape.bytes * (8 * shape.hidden + 4 * shape.keys + 4 * shape.inner)
        row = shape.layer(whole_blocks(answer)) * layers + work
        once = shape.layer(whole_blocks(prompt)) * layers
    if free <= 0 or left < row + once or tokens < prompt + answer:
        raise GeneratorError(
            f"the backbone and one text of {prompt + answer} tokens do not fit into"
            f" {memory * HEADROOM / 2**30:.1f} GiB",
            remedy="use a smaller backbone or max_tokens, or a larger device",
        )
    most = most or (MOST_TEXTS if copied else MOST_ANSWERS)
    return SamplingLimits(
        rows=int(min((left - once) // row, most)),
        tokens=int(tokens),
        logits=int(logits),
        memory=int(left),
        row=int(row),
        prompt=int(once),
    )
