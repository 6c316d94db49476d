"""Sampling tokens from a frozen backbone: rows of any prompt, each from its own randomness.

No adapters are involved, so rows of all instances form one flat batch. A prompt is read once
however many rows continue it. The token of a row at position t depends on its own `uniforms[t]`;
the batch that it is in changes nothing but rounding.

There are two ways to continue prompts. A plain Llama whose kernels work keeps the keys and values
of a prompt once (`fleet/frozen_llama.py`). Any other decoder is run by the library, with a copy for
each row (`fleet/sampling.py`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.engine.progress import tell
from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama, Steer, whole_blocks
from synthleak.releases.lm.fleet.memory import HEADROOM, MOST_ANSWERS, MOST_TEXTS, Shape
from synthleak.releases.lm.fleet.sampling import (
    ActiveVectors,
    CopiedPrompts,
    Decoder,
    Decoding,
    Rows,
    Tokens,
)
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone, memory_of, retry_halved

DECODING = "SYNTHLEAK_DECODING"
"""Environment: `auto`, or `torch`, without kernels of our own."""

DROP_EVERY = 2
DROP_BELOW = 0.97
"""Where prompts are shared, dropping rows moves nothing and pays sooner; looking makes the host
wait."""


class SharedPrompts:
    """Rows of a Llama: their prompt's keys and values are kept once."""

    every, below = DROP_EVERY, DROP_BELOW

    def __init__(self, llama: FrozenLlama, layers: Sequence[int], vectors: Tensor | None) -> None:
        self._llama = llama
        self._steered = {layer: number for number, layer in enumerate(layers)}
        self._vectors = vectors

    def read(
        self, prompts: Sequence[Tokens], of: NDArray[np.int64], longest: int, tokens_at_once: int
    ) -> None:
        def steer_at(part: slice, last: Tensor) -> Steer | None:
            return None if self._vectors is None else self._steer(self._vectors[part], last)

        read = self._llama.read(prompts, tokens_at_once=tokens_at_once, steer_at=steer_at)
        rows = torch.from_numpy(of).to(read.states.device)
        self.hidden = read.states[rows]
        self._vectors = None if self._vectors is None else self._vectors[rows]
        self._cache = self._llama.cache(read, of, longest)

    def _steer(self, vectors: Tensor, rows: Tensor | None = None) -> Steer:
        """Add vectors after the steered layers, to all states or to some rows of them."""

        def steer(layer: int, states: Tensor) -> None:
            number = self._steered.get(layer)
            if number is None:
                return
            if rows is None:
                states += vectors[:, number]
            else:
                states[rows] += vectors[:, number]

        return steer

    def step(self, tokens: Tensor) -> None:
        steer = None if self._vectors is None else self._steer(self._vectors)
        self.hidden = self._llama.step(tokens, self._cache, steer)

    def keep(self, rows: Tensor) -> None:
        self._cache.keep(rows)
        self._vectors = None if self._vectors is None else self._vectors[rows]


@dataclass(frozen=True)
class SteeringVectors:
    """Steering: `vectors[p, l]` is added for prompt p after layer `layers[l]`.

    Always at the last position, where the next token is drawn (docs/method.md §5.2).
    """

    layers: tuple[int, ...]
    vectors: Tensor

    def of(self, prompts: NDArray[np.int64], device: torch.device, dtype: torch.dtype) -> Tensor:
        return self.vectors[torch.from_numpy(prompts)].to(device=device, dtype=dtype)


@contextmanager
def steering_hooks(
    shared: SharedBackbone, steering: SteeringVectors | None
) -> Iterator[ActiveVectors]:
    """Let the steered layers add its vectors at the last position of every row."""
    steer = ActiveVectors()
    with ExitStack() as hooks:
        for number, layer in enumerate(steering.layers if steering else ()):
            hook = decoder_layers(shared)[layer].register_forward_hook(_adding(steer, number))
            hooks.callback(hook.remove)
        yield steer


def _adding(steer: ActiveVectors, number: int) -> Any:
    def add(module: Any, inputs: Any, output: Any) -> None:
        states = output[0] if isinstance(output, tuple) else output
        if steer.vectors is not None:
            states[:, -1] += steer.vectors[:, number]

    return add


def decoder_layers(shared: SharedBackbone) -> Any:
    model = shared.backbone.model
    wanted = int(model.config.num_hidden_layers)
    for module in model.base_model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == wanted:
            return module
    raise GeneratorError(
        f"the layers of the backbone {shared.backbone.name!r} cannot be found",
        remedy="choose a decoder such as Llama, Mistral, Qwen or GPT-2",
    )


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
                rest = order[start : start + rows]
                most = limits.fitting(of[rest])

                def draw(count: int, rest: NDArray[np.int64] = rest) -> NDArray[np.int32]:
                    part = rest[:count]
                    return self._batch(prompts, of[part], uniforms[part], how, steering, limits)

                drawn = retry_halved(draw, most, "texts")
                if len(drawn) < most:
                    rows = len(drawn)
                finished.append(thread.submit(finish, rest[: len(drawn)].tolist(), drawn))
                start += len(drawn)
                tell(f"sampling texts, {start:,} of {len(order):,}", start / len(order))
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
            decoder: Decoder = CopiedPrompts(self._shared, steer=steer, vectors=vectors)
            if self.llama is not None:
                layers = () if steering is None else steering.layers
                decoder = SharedPrompts(self.llama, layers, vectors)
            decoder.read(asked, local, how.longest, limits.tokens)
            return Rows(decoder, uniforms, how, head, at_once=limits.logits).draw_all()


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
    # Where rows are chosen or a position is added, one layer after another exists twice.
    layers = shape.layers + 1
    if copied:  # and one has its keys and values once for every query head
        heads = -(-shape.hidden // shape.keys)
        row, once = shape.layer(prompt + answer) * (layers + heads), 0
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
