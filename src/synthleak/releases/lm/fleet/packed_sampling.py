"""Sampling for a packed fleet: what `sampling.py` draws, several times faster on a GPU.

Every text begins at position 0 and reads one token of its prompt per step, so all texts are at the
same position and none is padded. Finished texts are dropped from a batch without moving the keys
and values of the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.lm.fleet.decoding import Decoding, sample_tokens
from synthleak.releases.lm.fleet.packed_model import PackedModel
from synthleak.releases.lm.fleet.packs import tile_rows
from synthleak.releases.lm.fleet.sampling import Sampler, Tokens


class PackedSampler(Sampler):
    """Samples the texts of a fleet with a packed backbone."""

    DROP_EVERY = 4
    """Steps between checks for finished texts: a check makes the host wait."""

    def __init__(self, packed: PackedModel, decoding: Decoding, *, texts_at_once: int) -> None:
        self._packed = packed
        self._decoding = decoding
        self._at_once = texts_at_once

    @torch.no_grad()
    def _round(
        self, prompts: Sequence[Sequence[Tokens]], uniforms: NDArray[np.float32]
    ) -> Iterator[tuple[int, int, Tokens]]:
        texts = _Texts(prompts, uniforms, self._decoding, self._packed.head.device)
        cache = KeyValueCache(self._packed, len(texts.row), texts.steps)
        for step in range(texts.steps):
            cache.read(texts.tokens, texts.tiles, texts.slot, step)
            if step + 1 < texts.shortest:
                texts.go_on(step)
            else:
                logits = torch.matmul(cache.states(len(texts.row)), self._packed.head.T)
                texts.take(logits, step)
            if step % self.DROP_EVERY == self.DROP_EVERY - 1 and not texts.drop():
                break
        yield from texts.made(len(prompts[0]))


class _Texts:
    """The texts that are being drawn, sorted by instance."""

    def __init__(
        self,
        prompts: Sequence[Sequence[Tokens]],
        uniforms: NDArray[np.float32],
        decoding: Decoding,
        device: torch.device,
    ) -> None:
        flat = [prompt for own in prompts for prompt in own]
        lengths = np.array([len(prompt) for prompt in flat])
        self.shortest, width = int(lengths.min()), int(lengths.max())
        self.steps = width + decoding.longest - 1
        table = np.zeros((len(flat), width), dtype=np.int64)
        for row, prompt in enumerate(flat):
            table[row, : len(prompt)] = prompt
        # The minimum length is applied text by text, in `take`: texts differ in progress.
        self._how = replace(decoding, least=0)
        self._least, self._longest = decoding.least, decoding.longest
        self._ends = torch.tensor(decoding.end, dtype=torch.long, device=device)
        self._prompts = torch.from_numpy(table).to(device)
        self._lengths = torch.from_numpy(lengths).to(device)
        self._uniforms = torch.from_numpy(uniforms.reshape(len(flat), -1)).to(device)
        self._owner = np.repeat(np.arange(len(prompts)), [len(own) for own in prompts])
        self._instances = len(prompts)
        self.tiles = self._tiled().to(device)
        self.row = torch.arange(len(flat), device=device)
        self.slot = self.row.int()
        self.tokens = self._prompts[:, 0]
        self._alive = torch.ones(len(flat), dtype=torch.bool, device=device)
        # The last column takes tokens that are not used: those within a prompt, or after an end.
        shape = (len(flat), decoding.longest + 1)
        self._made = torch.full(shape, -1, dtype=torch.long, device=device)

    def go_on(self, step: int) -> None:
        """Go on to the next token of every prompt."""
        self.tokens = self._prompts[:, step + 1]

    def take(self, logits: Tensor, step: int) -> None:
        """Draw what follows position `step`, where the prompt does not say."""
        drawn_before = step + 1 - self._lengths
        begun = drawn_before >= 0
        if self._least and len(self._ends):
            forbidden = (drawn_before < self._least)[:, None]
            logits[:, self._ends] = logits[:, self._ends].masked_fill(forbidden, -torch.inf)
        at = drawn_before.clamp(0, self._longest - 1)[:, None]
        drawn = sample_tokens(logits, self._uniforms.gather(1, at).squeeze(1), self._how, 0)
        ended = (drawn[:, None] == self._ends).any(dim=1)
        self._alive &= ~(begun & ended)
        written = begun & self._alive
        place = torch.where(written, drawn_before, self._longest)
        self._made[self.row, place] = drawn
        self._alive &= drawn_before + 1 < self._longest
        prompted = self._prompts[:, min(step + 1, self._prompts.shape[1] - 1)]
        self.tokens = torch.where(begun, drawn, prompted)

    def drop(self) -> bool:
        """Drop finished texts; say whether any are left."""
        left = self._alive.nonzero().squeeze(1)
        if len(left) < len(self._alive):
            self._prompts, self._lengths = self._prompts[left], self._lengths[left]
            self._uniforms, self._alive = self._uniforms[left], self._alive[left]
            self.row, self.slot, self.tokens = self.row[left], self.slot[left], self.tokens[left]
            self._owner = self._owner[left.cpu().numpy()]
            self.tiles = self._tiled().to(left.device)
        return len(left) > 0

    def _tiled(self) -> Tensor:
        counts = np.bincount(self._owner, minlength=self._instances)
        return torch.from_numpy(tile_rows(counts, len(self._owner)).astype(np.int32))

    def made(self, each: int) -> Iterator[tuple[int, int, Tokens]]:
        """Yield (instance, position, tokens) of every text, without its end token."""
        for row, made in enumerate(self._made[:, :-1].cpu().numpy()):
            yield row // each, row % each, tuple(made[made >= 0].tolist())


class KeyValueCache:
    """Keys and values of all texts, and the buffers of one step."""

    def __init__(self, packed: PackedModel, texts: int, positions: int) -> None:
        self._packed = packed
        packed.reach(positions)
        live = packed.adapters.live
        shape = (2, texts, packed.keys, positions, packed.size)
        self._kept = [live.new_empty(shape) for _ in packed.layers]
        self._own = packed.buffers(packed.kept(), texts)
        self._shared = packed.buffers(packed.shared(), texts)
        self._position = torch.zeros(texts, dtype=torch.int32, device=live.device)

    def read(self, tokens: Tensor, tiles: Tensor, slot: Tensor, position: int) -> None:
        """Read one token of every text; `slot` says where its keys and values lie."""
        n = len(tokens)
        own, shared = (
            SimpleNamespace(**{name: buffer[:n] for name, buffer in some.items()})
            for some in (self._own, self._shared)
        )

        def attend(number: int, own: Any) -> None:
            keys, values = self._kept[number]
            self._packed.launches.attend_next(own, keys, values, slot, position)

        kept = [own] * len(self._packed.layers)
        where = self._position[:n].fill_(position)
        self._packed.forward(tokens, tiles, where, kept, shared, attend)

    def states(self, n: int) -> Tensor:
        """Return the last states of every text."""
        return self._shared["h"][:n]
