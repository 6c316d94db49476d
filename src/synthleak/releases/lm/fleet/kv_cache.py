"""A preallocated key-value cache, and attention that reads it once per step.

A decoding step mostly reads the keys and values of every text. The library copies all of them to
append one position, and again for every query head that shares them. Here memory is allocated
ahead, and heads that share keys are multiplied together.

A step sees the cache in whole blocks: matrices whose sides are not divisible by a power of two are
multiplied by kernels that take four times as long. A block is zero and masked beyond the text.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "synthleak"
BLOCK = 16
"""Positions that a step sees at a time."""


class PreallocatedLayer(DynamicLayer):
    """The keys and values of one layer, allocated for all positions when the first is drawn."""

    is_initialized: bool
    _kept: tuple[Tensor, Tensor] | None
    _used: int

    def __init__(self, ahead: int = BLOCK) -> None:
        super().__init__()
        self._ahead = ahead

    def update(self, keys: Tensor, values: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Append positions and return all of them; a step that continues sees whole blocks."""
        if not self.is_initialized:
            self.lazy_initialization(keys, values)
            self._kept, self._used = _room_for((keys, values), keys.shape[-2]), 0
        assert self._kept is not None
        before, needed = self._used, self._used + keys.shape[-2]
        if needed > self._kept[0].shape[-2]:
            larger = _room_for(
                (keys, values), whole_blocks(before + max(self._ahead, keys.shape[-2]))
            )
            for new, old in zip(larger, self._kept, strict=True):
                new[:, :, :before] = old[:, :, :before]
            self._kept = larger
        for kept, more in zip(self._kept, (keys, values), strict=True):
            kept[:, :, before:needed] = more
        self._used = needed
        self._show()
        return self._first(_seen(before, needed))

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Return the number of positions that `update` will return, for the mask."""
        length, offset = super().get_mask_sizes(query_length)
        return _seen(length - query_length, length), offset

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keep these rows, in this order."""
        if self.is_initialized and self._kept is not None:
            keys, values = self._kept
            self._kept = (keys[indices], values[indices])
            self._show()

    def forget(self) -> None:
        """Free keys and values."""
        self.keys = self.values = None
        self._kept, self._used, self.is_initialized = None, 0, False

    def _show(self) -> None:
        self.keys, self.values = self._first(self._used)

    def _first(self, positions: int) -> tuple[Tensor, Tensor]:
        assert self._kept is not None
        keys, values = self._kept
        return keys[:, :, :positions], values[:, :, :positions]


def _seen(before: int, after: int) -> int:
    """Return how many positions attention sees when a text grows from `before` to `after`."""
    return whole_blocks(after) if before and after == before + 1 else after


def whole_blocks(positions: int) -> int:
    """Return how many positions the blocks have that hold `positions`."""
    return -(-positions // BLOCK) * BLOCK


def _room_for(like: tuple[Tensor, Tensor], positions: int) -> tuple[Tensor, Tensor]:
    def room(tensor: Tensor) -> Tensor:
        return tensor.new_zeros(*tensor.shape[:2], positions, tensor.shape[3])

    return room(like[0]), room(like[1])


def new_cache(ahead: int = BLOCK) -> Cache:
    """Return an empty cache for `ahead` more tokens; longer texts cost another copy."""
    return Cache(layer_class_to_replicate=partial(PreallocatedLayer, ahead))


def grouped_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Attend from one position to all before it; other cases are left to the library.

    Query heads that share a key head are adjacent, so they are rows of one product.
    """
    rows, heads, length, size = query.shape
    if length != 1 or query.requires_grad:
        attended: tuple[Tensor, None] = sdpa_attention_forward(
            module, query, key, value, attention_mask, scaling=scaling, **more
        )
        return attended
    groups, positions = key.shape[1], key.shape[2]
    queries = query.reshape(rows * groups, heads // groups, size)
    unseen = _added(attention_mask, (rows, groups, heads // groups, positions), query)
    scores = unseen.view(rows * groups, -1, positions).baddbmm_(
        queries,
        key.reshape(rows * groups, positions, size).mT,
        alpha=size**-0.5 if scaling is None else scaling,
    )
    weights = torch.softmax(scores, dim=-1)
    mixed = torch.bmm(weights, value.reshape(rows * groups, positions, -1))
    return mixed.view(rows, 1, heads, -1), None


def _added(mask: Tensor | None, shape: tuple[int, int, int, int], like: Tensor) -> Tensor:
    """Return what is added to scores: -inf where masked. The caller overwrites it."""
    if mask is None:
        return like.new_zeros(shape)
    if mask.dtype == torch.bool:
        mask = like.new_zeros(mask.shape).masked_fill_(~mask, -torch.inf)
    return like.new_empty(shape).copy_(mask[..., : shape[3]])


def use_grouped_attention(model: Any) -> None:
    """Use this attention for decoding, if the model's attention can be chosen."""
    AttentionInterface.register(NAME, grouped_attention)
    AttentionMaskInterface.register(NAME, sdpa_mask)
    if getattr(model.config, "_attn_implementation", None) == "sdpa":
        model.set_attn_implementation(NAME)
