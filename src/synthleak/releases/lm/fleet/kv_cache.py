"""Two key-value caches, and attention that reads them once per step.

A decoding step mostly reads the keys and values of every text. The library copies all of them to
append one position, and again for every query head that shares them. Here memory is allocated
ahead, and heads that share keys are multiplied together.

`new_cache` is for any decoder of the library: a copy of the prompt for every row. `AnswerCache` is
for a Llama written out: a prompt's keys and values are kept once for all its answers. On a GPU one
kernel does a layer's whole attention (`attention_kernels.py`), and finished answers are dropped
without moving what is kept of others.

A step sees copied prompts in whole blocks: matrices whose sides are not divisible by a power of two
are multiplied by kernels that take four times as long. A block is zero and masked beyond the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.cache_utils import Cache, DynamicLayer
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from synthleak.releases.lm.fleet.batches import power_of_two

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
        # As many positions as `update` will return.
        length, offset = super().get_mask_sizes(query_length)
        return _seen(length - query_length, length), offset

    def batch_select_indices(self, indices: Tensor) -> None:
        if self.is_initialized and self._kept is not None:
            keys, values = self._kept
            self._kept = (keys[indices], values[indices])
            self._show()

    def forget(self) -> None:
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


MOST_QUERIES = 64
"""Queries of one key head that the kernel multiplies together."""

ANSWER_OPTIONS: dict[str, int] = {"BT": 32, "num_warps": 2, "num_stages": 2}
"""Positions that the kernel reads at a time, and compiler options of tiles up to 32 queries."""

READING = 8
"""What reading a prompt costs, in answers that attend to it; it decides how many are a group."""


@dataclass(frozen=True)
class Heads:
    """The query heads, the key heads that they share, and the width of one."""

    queries: int
    keys: int
    size: int

    @property
    def shared(self) -> int:
        """The query heads that share a key head; they are adjacent."""
        return self.queries // self.keys

    @property
    def most_answers(self) -> int:
        """How many answers to a prompt fit into one group."""
        return max(1, MOST_QUERIES // self.shared)


@dataclass(frozen=True)
class Prompts:
    """Prompts that were read, padded on the right.

    `kept[l]` holds keys and values of layer l [2, prompts, key heads, positions, size], and zeros
    beyond the longest prompt; `states` the states of each prompt's last token.
    """

    kept: list[Tensor]
    lengths: Tensor
    states: Tensor


@dataclass(frozen=True)
class Groups:
    """Rows that attend to their prompt together: at most `each`, all of one prompt.

    Group g has the rows offsets[g] to offsets[g + 1], and the prompt home[g].
    """

    each: int
    offsets: NDArray[np.int64]
    home: NDArray[np.int64]


def grouped(prompt_of: NDArray[np.int64], each: int) -> Groups:
    """Group rows whose prompts are sorted."""
    new = np.flatnonzero(np.diff(prompt_of, prepend=-1))
    counts = np.diff(new, append=len(prompt_of))
    within = np.arange(len(prompt_of)) - np.repeat(new, counts)
    starts = np.flatnonzero(within % each == 0)
    return Groups(each, np.append(starts, len(prompt_of)), prompt_of[starts])


def best_group(counts: NDArray[np.int64], most: int) -> int:
    """Return how many answers should be a group, from the number of answers to each prompt.

    Large groups read a prompt seldom, but all have the size of the largest.

    >>> best_group(np.array([6, 6, 6]), 21), best_group(np.array([1] * 99 + [20]), 21)
    (6, 1)
    """
    sizes = np.arange(1, min(most, int(counts.max())) + 1)
    numbers, often = np.unique(counts, return_counts=True)
    groups = (-(-numbers // sizes[:, None]) * often).sum(axis=1)
    return int(sizes[np.argmin(groups * (sizes + READING))])


class AnswerCache:
    """Keys and values of answers and their prompts, and attention to them.

    Rows are answers, sorted by prompt: `prompt_of[r]` is the prompt of row r. `angles` are cosine
    and sine of every position [positions, size / 2]. With `kernels` a layer's attention is one
    kernel; without, it is plain torch that copies the prompt of every row: the oracle.
    """

    def __init__(
        self,
        prompts: Prompts,
        prompt_of: NDArray[np.int64],
        heads: Heads,
        angles: tuple[Tensor, Tensor],
        *,
        longest: int,
        kernels: Any = None,
    ) -> None:
        self._heads, self._kernels, self._angles = heads, kernels, angles
        self._prompts, self._lengths = prompts.kept, prompts.lengths.int()
        self._prompt_of = prompt_of
        self._each = best_group(np.bincount(prompt_of)[np.unique(prompt_of)], heads.most_answers)
        like, rows = prompts.kept[0], len(prompt_of)
        shape = (2, rows, heads.keys, longest, heads.size)
        self._answers = [like.new_empty(shape) for _ in prompts.kept]
        self._slot = torch.arange(rows, dtype=torch.int32, device=like.device)
        self.step = 0
        self._lay_out()

    def _lay_out(self) -> None:
        groups = self._groups = grouped(self._prompt_of, self._each)
        device = self._slot.device
        self._offsets = torch.from_numpy(groups.offsets).to(device).int()
        self._of_group = torch.from_numpy(groups.home).to(device).int()

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Keep the new keys and values of every row, and attend from it to all before it.

        `qkv` are queries, keys and values [rows, (queries + 2 keys) · size] before the turn.
        """
        return self._attend_kernel(layer, qkv) if self._kernels else self._attend(layer, qkv)

    def _attend_kernel(self, layer: int, qkv: Tensor) -> Tensor:
        heads, groups = self._heads, self._groups
        answers, prompts = self._answers[layer], self._prompts[layer]
        out = qkv.new_empty(len(qkv), heads.queries * heads.size)
        tile = max(16, power_of_two(groups.each * heads.shared))
        options = ANSWER_OPTIONS | {
            "num_warps": ANSWER_OPTIONS["num_warps"] * (2 if tile > 32 else 1)
        }
        self._kernels.attend_answers[(len(groups.home), heads.keys)](
            qkv, answers[0], answers[1], self._slot, prompts[0], prompts[1], self._offsets,
            self._of_group, self._lengths, *self._angles, out, self.step, answers.shape[3],
            prompts.shape[3], heads.size**-0.5, HEADS=heads.queries, KEYS=heads.keys,
            HALF=heads.size // 2, Q=tile, **options,
        )  # fmt: skip
        return out

    def _attend(self, layer: int, qkv: Tensor) -> Tensor:
        heads, answers, slot = self._heads, self._answers[layer], self._slot.long()
        prompt = torch.from_numpy(self._prompt_of).to(qkv.device)
        lengths = self._lengths[prompt].long()
        cosine, sine = (angle[lengths + self.step, None].to(qkv.dtype) for angle in self._angles)
        split = qkv.view(len(qkv), -1, heads.size)
        turned = turn(split[:, : heads.queries + heads.keys], cosine, sine)
        queries, keys = turned.split([heads.queries, heads.keys], dim=1)
        answers[0, slot, :, self.step] = keys
        answers[1, slot, :, self.step] = split[:, heads.queries + heads.keys :]
        before = self._prompts[layer][:, prompt]
        kept = torch.cat([before, answers[:, slot, :, : self.step + 1]], dim=3)
        keys, values = kept.repeat_interleave(heads.shared, dim=2)
        position = torch.arange(kept.shape[3], device=qkv.device)
        seen = (position < lengths[:, None]) | (position >= before.shape[3])
        mixed = torch.nn.functional.scaled_dot_product_attention(
            queries[:, :, None], keys, values, seen[:, None, None]
        )
        return mixed.reshape(len(qkv), -1)

    def keep(self, rows: Tensor) -> None:
        """Keep these rows, in this order; what is kept of others does not move."""
        self._prompt_of = self._prompt_of[rows.cpu().numpy()]
        self._slot = self._slot[rows]
        self._lay_out()


def turn(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn the heads of queries or keys [..., heads, size] by angles [..., 1, size / 2]."""
    turned = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    first, second = x.chunk(2, dim=-1)
    low, high = turned.chunk(2, dim=-1)
    torch.mul(first, cosine, out=low).addcmul_(second, sine, value=-1)
    torch.mul(second, cosine, out=high).addcmul_(first, sine)
    return turned
