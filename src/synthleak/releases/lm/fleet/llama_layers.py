"""What a Llama is made of: its layers, the sides of their matrices, and which can be written out.

`packed_model.py` writes out a Llama with adapters, `frozen_llama.py` one without.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import FleetLinear, Slot


@dataclass(frozen=True)
class Group:
    """Linear layers that share an input: their weights as one, and their adapters' slots."""

    weight: Tensor
    slots: tuple[Slot, ...]

    @property
    def bounds(self) -> list[int]:
        """The bounds of each layer's outputs: four numbers, the last repeated."""
        ends = [0]
        for slot in self.slots:
            ends.append(ends[-1] + slot.outputs)
        return [*ends, *ends[-1:] * 2][:4]

    @property
    def below(self) -> list[int]:
        """The start of each A: three numbers."""
        return [*(slot.start for slot in self.slots), 0, 0][:3]

    @property
    def above(self) -> list[int]:
        """The start of each B: three numbers."""
        return [*(slot.middle for slot in self.slots), 0, 0][:3]


@dataclass(frozen=True)
class Layer:
    """One layer of the decoder."""

    qkv: Group
    o: Group
    both: Group
    down: Group
    first: Any
    second: Any

    def pairs(self, own: Any) -> Iterator[tuple[Group, Tensor, Tensor, Tensor, Tensor]]:
        """Yield (group, its input, input times A, its gradient, gradient times B)."""
        yield self.qkv, own.h1, own.i_qkv, own.g_qkv, own.d_qkv
        yield self.o, own.o, own.i_o, own.g1, own.d_o
        yield self.both, own.h2, own.i_both, own.both, own.d_both
        yield self.down, own.z, own.i_down, own.g2, own.d_down


def stacked(layers: Sequence[FleetLinear]) -> Tensor:
    """Stack weights into one matrix; each layer's weight becomes a view of its part.

    Weights that were stacked before stay where they are.
    """
    first = layers[0].weight.data
    if len(layers) == 1:
        return first
    sizes = [layer.weight.numel() for layer in layers]
    ends = [first.data_ptr() + first.element_size() * sum(sizes[:n]) for n in range(len(sizes))]
    shape = (sum(layer.outputs for layer in layers), layers[0].inputs)
    room = first.untyped_storage().nbytes() // first.element_size() - first.storage_offset()
    if [layer.weight.data_ptr() for layer in layers] == ends and room >= sum(sizes):
        return first.as_strided(shape, (shape[1], 1))
    weight = torch.cat([layer.weight.data for layer in layers])
    parts = weight.split([layer.outputs for layer in layers])
    for layer, part in zip(layers, parts, strict=True):
        layer.weight.data = part
    return weight


def packable(model: Any, rank: int) -> bool:
    """Say whether this is a Llama with suitable dimensions on a GPU, and Triton is installed."""
    if not plain_llama(model) or not importlib.util.find_spec("triton"):
        return False
    config = model.config
    sides = head_size(config) in (32, 64, 128) and rank in (16, 32, 64) and tile_of(config) > 0
    return sides and model.device.type == "cuda"


def plain_llama(model: Any) -> bool:
    """Say whether this is a Llama as `PackedModel` and `FrozenLlama` write it out."""
    if type(model).__name__ != "LlamaForCausalLM":
        return False
    config = model.config
    plain = config.hidden_act == "silu" and not config.attention_bias and not config.mlp_bias
    rope = getattr(config, "rope_parameters", None) or {}
    return plain and rope.get("rope_type", "default") in ("default", "linear", "llama3")


def head_size(config: Any) -> int:
    """Return the width of one head."""
    return int(
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    )


def tile_of(config: Any) -> int:
    """Return the columns of a tile, 64 or 32: what divides all sides; 0 if neither does."""
    size = head_size(config)
    sides = (
        config.hidden_size,
        config.intermediate_size,
        config.num_attention_heads * size,
        config.num_key_value_heads * size,
    )
    return next((tile for tile in (64, 32) if not any(side % tile for side in sides)), 0)
