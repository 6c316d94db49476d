"""Keys and values of answers and of their prompts, and attention that reads them once per step.

A decoding step mostly reads the keys and values of every text. The library copies all of them to
append one position, and again for every query head that shares them. For a Llama written out a
prompt's keys and values are kept once for all its answers, in memory that is allocated ahead. On a
GPU one kernel does a layer's whole attention (`attention_kernels.py`), and finished answers are
dropped without moving what is kept of others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.lm.fleet.batches import power_of_two

BLOCK = 16
"""Positions of a prompt that memory is allocated for at a time."""


def whole_blocks(positions: int) -> int:
    """Return how many positions the blocks have that hold `positions`."""
    return -(-positions // BLOCK) * BLOCK


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
