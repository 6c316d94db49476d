"""Hooks that add steering vectors to hidden states, at the position that is sampled next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.errors import GeneratorError
from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone


@dataclass(frozen=True)
class SteeringVectors:
    """Steering: `vectors[p, l]` is added for prompt p after layer `layers[l]`.

    Always at the last position, where the next token is drawn (docs/method.md §5.2).
    """

    layers: tuple[int, ...]
    vectors: Tensor

    def of(self, prompts: NDArray[np.int64], device: torch.device, dtype: torch.dtype) -> Tensor:
        """Return the vectors of these prompts, on their device."""
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
    hooks = []
    if steering is not None:
        layers = decoder_layers(shared)
        for number, layer in enumerate(steering.layers):
            hooks.append(layers[layer].register_forward_hook(_adding(steer, number)))
    try:
        yield steer
    finally:
        for hook in hooks:
            hook.remove()


def _adding(steer: ActiveVectors, number: int) -> Any:
    def add(module: Any, inputs: Any, output: Any) -> None:
        states = output[0] if isinstance(output, tuple) else output
        if steer.vectors is not None:
            states[:, -1] += steer.vectors[:, number]

    return add


def decoder_layers(shared: SharedBackbone) -> Any:
    """Return the layers of a backbone's decoder, in order."""
    model = shared.backbone.model
    wanted = int(model.config.num_hidden_layers)
    for module in model.base_model.modules():
        if isinstance(module, torch.nn.ModuleList) and len(module) == wanted:
            return module
    raise GeneratorError(
        f"the layers of the backbone {shared.backbone.name!r} cannot be found",
        remedy="choose a decoder such as Llama, Mistral, Qwen or GPT-2",
    )
