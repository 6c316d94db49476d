"""The two ways to continue prompts, and the hooks that steer them.

A plain Llama whose kernels work keeps the keys and values of a prompt once
(`fleet/frozen_llama.py`). Any other decoder is run by the library, with a copy for each row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.fleet.frozen_llama import FrozenLlama, Steer
from synthleak.releases.lm.fleet.kv_cache import new_cache
from synthleak.releases.lm.fleet.sampling import Tokens, left_padded
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone

COMPACT_EVERY = 8
COMPACT_BELOW = 0.75
DROP_EVERY = 2
DROP_BELOW = 0.97
"""Where prompts are shared, dropping rows moves nothing and pays sooner; looking makes the host
wait."""


class Decoder(Protocol):
    """Reads the tokens of many rows, and keeps what was read."""

    hidden: Tensor
    """The last states of every row."""

    every: int
    below: float
    """How often to look for finished rows, and which share of unfinished ones is worth a `keep`."""

    def read(
        self, prompts: Sequence[Tokens], of: NDArray[np.int64], longest: int, tokens_at_once: int
    ) -> None:
        """Read prompts, the longest first, some tokens at once.

        Row r continues `of[r]`, in order; `longest` is how many tokens may follow.
        """

    def step(self, tokens: Tensor) -> None:
        """Read one more token of every row."""

    def keep(self, rows: Tensor) -> None:
        """Keep these rows alone, in this order."""


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


class CopiedPrompts:
    """Rows of any decoder: each has a copy of its prompt's keys and values."""

    def __init__(
        self, shared: SharedBackbone, steer: ActiveVectors, vectors: Tensor | None
    ) -> None:
        self._shared, self._active, self._vectors = shared, steer, vectors
        self.every, self.below = COMPACT_EVERY, COMPACT_BELOW

    def read(
        self, prompts: Sequence[Tokens], of: NDArray[np.int64], longest: int, tokens_at_once: int
    ) -> None:
        every, seen, positions = left_padded(prompts, self._shared.device)
        at_once = max(1, tokens_at_once // every.shape[1])
        hidden, caches = [], []
        for start in range(0, len(prompts), at_once):
            part = slice(start, start + at_once)
            self._active.vectors = None if self._vectors is None else self._vectors[part]
            cache = new_cache(longest)
            hidden.append(self._shared.step(every[part], seen[part], positions[part], cache)[0])
            caches.append(cache)
        rows = torch.from_numpy(of).to(every.device)
        self._cache = _joined(caches, longest)
        self._cache.batch_select_indices(rows)
        self._vectors = None if self._vectors is None else self._vectors[rows]
        self.hidden, self._mask = torch.cat(hidden)[rows], seen[rows]
        self._positions = positions[rows, -1:]

    def step(self, tokens: Tensor) -> None:
        self._mask = torch.cat([self._mask, torch.ones_like(self._mask[:, :1])], dim=1)
        self._positions = self._positions + 1
        self._active.vectors = self._vectors
        self.hidden, _ = self._shared.step(
            tokens[:, None], self._mask, self._positions, self._cache
        )

    def keep(self, rows: Tensor) -> None:
        self._cache.batch_select_indices(rows)
        self._mask, self._positions = self._mask[rows], self._positions[rows]
        self._vectors = None if self._vectors is None else self._vectors[rows]


def _joined(caches: list[Any], ahead: int) -> Any:
    """Join the caches of microbatches, layer by layer, freeing each on the way."""
    if len(caches) == 1:
        return caches[0]
    whole = new_cache(ahead)
    for number in range(len(caches[0].layers)):
        layers = [cache.layers[number] for cache in caches]
        keys = torch.cat([layer.keys for layer in layers])
        values = torch.cat([layer.values for layer in layers])
        for layer in layers:
            layer.forget()
        whole.update(keys, values, number)
    return whole


@dataclass(frozen=True)
class SteeringVectors:
    """Steering: `vectors[p, l]` is added for prompt p after layer `layers[l]`.

    Always at the last position, where the next token is drawn (docs/method.md §5.2).
    """

    layers: tuple[int, ...]
    vectors: Tensor

    def of(self, prompts: NDArray[np.int64], device: torch.device, dtype: torch.dtype) -> Tensor:
        return self.vectors[torch.from_numpy(prompts)].to(device=device, dtype=dtype)


class ActiveVectors:
    """What is added after each layer now: `vectors[row, l]`, or nothing."""

    vectors: Tensor | None = None


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
