"""The forward pass of a frozen Llama, written out: prompts are read, then answered many times.

Without adapters and gradients a layer is few operations: queries, keys and values are one product,
gate and up another, and products are added onto the residual where they are computed. Any other
decoder is left to the library, and so is a Llama where the kernels do not work
(`lm/token_sampling.py`).

A decoding step mostly reads the keys and values of every text. The library copies all of them to
append one position, and again for every query head that shares them. Here a prompt's keys and
values are kept once for all its answers, in memory that is allocated ahead. On a GPU one kernel
does a layer's whole attention (`attention_kernels.py`), and finished answers are dropped without
moving what is kept of others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.lm.fleet.adapters import stacked
from synthleak.releases.lm.fleet.batches import power_of_two
from synthleak.releases.lm.fleet.sampling import Tokens

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


Steer = Callable[[int, Tensor], None]
"""Changes the states after layer l, in place."""


@dataclass(frozen=True)
class FrozenLayer:
    """One layer: norms, and the weights of its products."""

    first: Any
    qkv: Tensor
    o: Tensor
    second: Any
    both: Tensor
    down: Tensor


class FrozenLlama:
    """A Llama that reads prompts and answers them, without adapters.

    All is plain torch, which is the oracle, until `check_and_use_kernels` has set `kernels`.
    """

    def __init__(self, model: Any) -> None:
        config = model.config
        self.heads = Heads(
            int(config.num_attention_heads), int(config.num_key_value_heads), head_size(config)
        )
        self.embedding = model.get_input_embeddings().weight
        self._norm, self._rotary = model.model.norm, model.model.rotary_emb
        self._layers = [_layer(layer) for layer in model.model.layers]
        self.kernels: Any = None

    def _angles(self, positions: int) -> tuple[Tensor, Tensor]:
        """Return cosine and sine of `positions` positions, as the model computes them."""
        at = torch.arange(positions, device=self.embedding.device)[None]
        half = self.heads.size // 2
        like = self.embedding.new_empty(0, dtype=torch.float32)
        cosine, sine = (angle[0, :, :half].contiguous() for angle in self._rotary(like, at))
        return cosine, sine

    def _through(
        self, x: Tensor, attend: Callable[[int, Tensor], Tensor], steer: Steer | None
    ) -> Tensor:
        """Return the states [rows, hidden] after all layers; `x` is overwritten."""
        for number, layer in enumerate(self._layers):
            x.addmm_(attend(number, layer.first(x) @ layer.qkv.T), layer.o.T)
            x.addmm_(self._gated(layer.second(x) @ layer.both.T), layer.down.T)
            if steer is not None:
                steer(number, x)
        return x

    def _gated(self, both: Tensor) -> Tensor:
        rows, width = len(both), both.shape[1] // 2
        if not self.kernels:
            return torch.nn.functional.silu(both[:, :width]).mul_(both[:, width:])
        out = both.new_empty(rows, width)
        grid = (-(-out.numel() // 1024),)
        self.kernels.gate[grid](both, out, out.numel(), WIDTH=width, BN=1024)
        return out

    def read(
        self,
        prompts: Sequence[Tokens],
        *,
        tokens_at_once: int,
        steer_at: Callable[[slice, Tensor], Steer | None] = lambda part, last: None,
    ) -> Prompts:
        """Read prompts, the longest first, a microbatch at a time.

        `steer_at` says what steers these prompts at their last tokens, which are these rows of the
        states.
        """
        lengths = np.array([len(prompt) for prompt in prompts])
        table = np.zeros((len(prompts), int(lengths[0])), dtype=np.int64)
        every = np.fromiter(chain.from_iterable(prompts), np.int64, int(lengths.sum()))
        table[np.arange(table.shape[1]) < lengths[:, None]] = every
        shape = (2, len(prompts), self.heads.keys, whole_blocks(table.shape[1]), self.heads.size)
        kept = [self.embedding.new_zeros(shape) for _ in self._layers]
        angles, states = self._angles(table.shape[1]), []
        device = self.embedding.device
        start = 0
        while start < len(table):
            wide = int(lengths[start])
            part = slice(start, min(len(table), start + max(1, tokens_at_once // wide)))
            last = torch.from_numpy(np.arange(len(lengths[part])) * wide + lengths[part] - 1)
            last = last.to(device)
            tokens = torch.from_numpy(table[part, :wide]).to(device)
            attend = self._attend_within(kept, part, wide, angles)
            x = self._through(self._embedded(tokens.flatten()), attend, steer_at(part, last))
            states.append(self._norm(x[last]))
            start = part.stop
        return Prompts(kept, torch.from_numpy(lengths).to(device), torch.cat(states))

    def _attend_within(
        self, kept: list[Tensor], part: slice, wide: int, angles: tuple[Tensor, Tensor]
    ) -> Callable[[int, Tensor], Tensor]:
        """Return causal attention of prompts that keeps the keys and values of `wide` tokens.

        Padding is on the right, where no token of a prompt looks.
        """
        heads = self.heads
        cosine, sine = (angle[:wide, None].to(self.embedding.dtype) for angle in angles)

        def attend(number: int, qkv: Tensor) -> Tensor:
            split = qkv.view(-1, wide, heads.queries + 2 * heads.keys, heads.size)
            turned = turn(split[:, :, : heads.queries + heads.keys], cosine, sine).transpose(1, 2)
            queries, keys = turned.split([heads.queries, heads.keys], dim=1)
            values = split[:, :, heads.queries + heads.keys :].transpose(1, 2)
            kept[number][0, part, :, :wide] = keys
            kept[number][1, part, :, :wide] = values
            mixed = torch.nn.functional.scaled_dot_product_attention(
                queries, keys, values, is_causal=True, enable_gqa=heads.shared > 1
            )
            return mixed.transpose(1, 2).reshape(len(qkv), -1)

        return attend

    def _embedded(self, tokens: Tensor) -> Tensor:
        return self.embedding.index_select(0, tokens)

    def cache(self, prompts: Prompts, prompt_of: NDArray[np.int64], longest: int) -> AnswerCache:
        """Return the memory of answers to prompts: row r answers `prompt_of[r]`, in order."""
        angles = self._angles(int(prompts.lengths.max()) + longest)
        return AnswerCache(
            prompts, prompt_of, self.heads, angles, longest=longest, kernels=self.kernels
        )

    def step(self, tokens: Tensor, cache: AnswerCache, steer: Steer | None = None) -> Tensor:
        """Read one more token of every answer; return the last states."""
        x = self._through(self._embedded(tokens), cache.attend, steer)
        cache.step += 1
        return self._norm(x)


def _layer(layer: Any) -> FrozenLayer:
    attention, mlp = layer.self_attn, layer.mlp
    return FrozenLayer(
        first=layer.input_layernorm,
        qkv=stacked([attention.q_proj, attention.k_proj, attention.v_proj]),
        o=stacked([attention.o_proj]),
        second=layer.post_attention_layernorm,
        both=stacked([mlp.gate_proj, mlp.up_proj]),
        down=stacked([mlp.down_proj]),
    )


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
