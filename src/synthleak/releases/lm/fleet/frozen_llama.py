"""The forward pass of a frozen Llama, written out: prompts are read, then answered many times.

Without adapters and gradients a layer is few operations: queries, keys and values are one product,
gate and up another, and products are added onto the residual where they are computed. Any other
decoder is left to the library, and so is a Llama where the kernels do not work
(`lm/token_sampling.py`).
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
from synthleak.releases.lm.fleet.kv_cache import (
    AnswerCache,
    Heads,
    Prompts,
    turn,
    whole_blocks,
)
from synthleak.releases.lm.fleet.sampling import Tokens

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
