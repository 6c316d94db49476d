"""Two key-value caches, and attention that reads them once per step.

A decoding step mostly reads the keys and values of every text. The library copies all of them to
append one position, and again for every query head that shares them. Here memory is allocated
ahead, and heads that share keys are multiplied together.

`new_cache` is for any decoder of the library: a copy of the prompt for every row. `AnswerCache` is
for a Llama written out: a prompt's keys and values are kept once for all its answers. Their queries
are rows of one product with its keys, an answer's own positions are few, and one softmax spans
both, so the result is that of the copies. On a GPU one kernel does a layer's whole attention
(`attention_kernels.py`), and finished answers are dropped without moving what is kept of others.

A step sees a cache in whole blocks: matrices whose sides are not divisible by a power of two are
multiplied by kernels that take four times as long. A block is zero and masked beyond the text.
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

    @property
    def even(self) -> bool:
        """Whether every group is full, so that rows need not be moved to be grouped."""
        return int(self.offsets[-1]) == self.each * len(self.home)

    def places(self) -> NDArray[np.int64]:
        """Return the place of each row if every group had `each` rows."""
        counts = np.diff(self.offsets)
        within = np.arange(self.offsets[-1]) - np.repeat(self.offsets[:-1], counts)
        return np.repeat(np.arange(len(counts)), counts) * self.each + within


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
    kernel; without it is written in torch, which is the oracle.
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
        # The same list: prompts that are dropped must not stay in memory.
        self._home = prompts.kept
        self._lengths = prompts.lengths.int()
        self._prompt_of = prompt_of
        self._each = best_group(np.bincount(prompt_of)[np.unique(prompt_of)], heads.most_answers)
        like, rows = prompts.kept[0], len(prompt_of)
        # Kernels read written positions only; products read whole blocks, which must be finite.
        room = longest if kernels else whole_blocks(longest)
        new = like.new_empty if kernels else like.new_zeros
        shape = (2, rows, heads.keys, room, heads.size)
        self._own = [new(shape) for _ in prompts.kept]
        self._device = like.device
        self._slot = torch.arange(rows, dtype=torch.int32, device=like.device)
        self.step = 0
        self._lay_out()

    def _lay_out(self) -> None:
        groups = self._groups = grouped(self._prompt_of, self._each)
        if self._kernels:
            self._offsets = self._sent(groups.offsets).int()
            self._of_group = self._sent(groups.home).int()
            return
        self._of_row = self._sent(self._prompt_of)
        self._of_group = self._sent(groups.home)
        self._in_place = np.array_equal(groups.home, np.arange(self._home[0].shape[1]))
        places = groups.places()
        self._places = self._sent(places)
        rows = np.zeros(len(groups.home) * groups.each, dtype=np.int64)
        rows[places] = np.arange(len(places))
        self._rows = self._sent(rows)
        seen = torch.arange(self._home[0].shape[3], device=self._device)
        unseen = seen >= self._lengths[self._of_group][:, None]
        self._prompt_mask = self._float_mask(unseen)[:, None]
        self._prompt_mask = self._prompt_mask.repeat_interleave(self._heads.keys, dim=0)

    def _sent(self, numbers: NDArray[np.int64]) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(numbers)).to(self._device)

    def _float_mask(self, unseen: Tensor) -> Tensor:
        """Return what is added to scores, once for all layers: -inf where nothing is seen."""
        zero = self._own[0].new_zeros(unseen.shape)
        return zero.masked_fill_(unseen, -torch.inf)

    def begin_step(self) -> None:
        """Prepare what all layers of a step share."""
        if self._kernels:
            return
        at = (self._lengths[self._of_row] + self.step).long()
        kind = self._own[0].dtype
        self._turn = [angle[at][:, None].to(kind) for angle in self._angles]
        seen = torch.arange(whole_blocks(self.step + 1), device=self._device)
        self._own_mask = self._float_mask(seen > self.step)

    def attend(self, layer: int, qkv: Tensor) -> Tensor:
        """Keep the new keys and values of every row, and attend from it to all before it.

        `qkv` are queries, keys and values [rows, (queries + 2 keys) · size] before the turn.
        """
        return self._attend_kernel(layer, qkv) if self._kernels else self._attend(layer, qkv)

    def _attend_kernel(self, layer: int, qkv: Tensor) -> Tensor:
        heads, groups = self._heads, self._groups
        own, home = self._own[layer], self._home[layer]
        out = qkv.new_empty(len(qkv), heads.queries * heads.size)
        tile = max(16, power_of_two(groups.each * heads.shared))
        options = ANSWER_OPTIONS | {
            "num_warps": ANSWER_OPTIONS["num_warps"] * (2 if tile > 32 else 1)
        }
        self._kernels.attend_answers[(len(groups.home), heads.keys)](
            qkv, own[0], own[1], self._slot, home[0], home[1], self._offsets, self._of_group,
            self._lengths, *self._angles, out, self.step, own.shape[3], home.shape[3],
            heads.size**-0.5, HEADS=heads.queries, KEYS=heads.keys, HALF=heads.size // 2, Q=tile,
            **options,
        )  # fmt: skip
        return out

    def _attend(self, layer: int, qkv: Tensor) -> Tensor:
        heads, own = self._heads, self._own[layer]
        rows, shared, size = len(qkv), heads.shared, heads.size
        split = qkv.view(rows, -1, size)
        turned = turn(split[:, : heads.queries + heads.keys], *self._turn)
        queries = turned[:, : heads.queries].reshape(rows, heads.keys, shared, size)
        own[0, :, :, self.step] = turned[:, heads.queries :]
        own[1, :, :, self.step] = split[:, heads.queries + heads.keys :]
        positions = whole_blocks(self.step + 1)
        keys, values = own[:, :, :, :positions].flatten(1, 2)
        scale = size**-0.5
        to_own = torch.baddbmm(
            self._own_mask, queries.reshape(-1, shared, size), keys.mT, alpha=scale
        )
        home = self._home[layer]
        if not self._in_place:
            home = home.index_select(1, self._of_group)
        width = home.shape[3]
        prompt_keys, prompt_values = home.flatten(1, 2)
        to_prompt = torch.baddbmm(
            self._prompt_mask, self._together(queries), prompt_keys.mT, alpha=scale
        )
        of_rows = self._together(to_own.view(rows, heads.keys, shared, positions))
        weights = torch.softmax(torch.cat([to_prompt, of_rows], dim=2), dim=2)
        mixed = self._apart(torch.bmm(weights[:, :, :width], prompt_values))
        own_weights = self._apart(weights[:, :, width:]).reshape(-1, shared, positions)
        mixed = mixed + torch.bmm(own_weights, values).view(mixed.shape)
        return mixed.reshape(rows, -1)

    def _together(self, x: Tensor) -> Tensor:
        """Make the rows of a group one matrix per key head.

        From [rows, keys, shared, n] to [groups · keys, each · shared, n].
        """
        groups = self._groups
        padded = x if groups.even else x.index_select(0, self._rows)
        split = padded.unflatten(0, (len(groups.home), groups.each))
        return split.transpose(1, 2).reshape(-1, groups.each * x.shape[2], x.shape[3])

    def _apart(self, x: Tensor) -> Tensor:
        groups, heads = self._groups, self._heads
        split = x.view(len(groups.home), heads.keys, groups.each, heads.shared, -1)
        padded = split.transpose(1, 2).flatten(0, 1)
        return padded if groups.even else padded.index_select(0, self._places)

    def keep(self, rows: Tensor) -> None:
        """Keep these rows, in this order, and the prompts that they have."""
        chosen = rows.cpu().numpy()
        self._prompt_of = self._prompt_of[chosen]
        if self._kernels:
            self._slot = self._slot[rows]
        else:
            used, self._prompt_of = np.unique(self._prompt_of, return_inverse=True)
            prompts = self._sent(used)
            self._lengths = self._lengths[prompts]
            for layer in range(len(self._own)):
                self._own[layer] = self._own[layer].index_select(1, rows)
                if len(used) < self._home[layer].shape[1]:
                    self._home[layer] = self._home[layer].index_select(1, prompts)
        self._lay_out()

    @property
    def cheap_to_drop(self) -> bool:
        """Whether `keep` moves no keys and values, so that rows are dropped as they finish."""
        return bool(self._kernels)


def turn(x: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Turn the heads of queries or keys [..., heads, size] by angles [..., 1, size / 2]."""
    turned = torch.empty(x.shape, dtype=x.dtype, device=x.device)
    first, second = x.chunk(2, dim=-1)
    low, high = turned.chunk(2, dim=-1)
    torch.mul(first, cosine, out=low).addcmul_(second, sine, value=-1)
    torch.mul(second, cosine, out=high).addcmul_(first, sine)
    return turned
