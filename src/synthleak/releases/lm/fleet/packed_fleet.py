"""A packed fleet: what `training.py` and `sampling.py` do, several times faster on a GPU.

Sampled texts all begin at position 0 and read one token of their prompt per step, so all are at the
same position and none is padded. Finished texts are dropped from a batch without moving the keys
and values of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.releases.lm.fleet.batches import Example, Pack, Packer, tile_rows
from synthleak.releases.lm.fleet.packed_model import PackedModel, first_rows
from synthleak.releases.lm.fleet.sampling import Decoding, Sampler, Tokens, sample_tokens
from synthleak.releases.lm.fleet.training import Owners, RecordedPasses, Trainer, TrainingConfig


class PackedTrainer(Trainer):
    """Trains the adapters of a fleet on texts that are packed end to end."""

    def __init__(
        self,
        packed: PackedModel,
        config: TrainingConfig,
        *,
        longest: int,
        tokens_at_once: int,
    ) -> None:
        self._packed = packed
        self._adapters = packed.adapters
        self._config = config
        self.longest = longest
        self._at_once = tokens_at_once
        master = packed.adapters.master
        self._passes = RecordedPasses(recorded=master.is_cuda)
        self._first = torch.zeros_like(master)
        self._second = torch.zeros_like(master)
        self._total = torch.zeros_like(master)
        self._compiled = False

    def prepare(self, sets: Sequence[Sequence[Example]]) -> Any:
        rate, at_once = self._config.rate, self._at_once
        return Packer(sets, self._total.device, longest=self.longest, rate=rate, at_once=at_once)

    def clipped_sum(self, prepared: Any, chosen: Sequence[NDArray[np.int64]]) -> Tensor:
        """Return each instance's sum of clipped gradients; the next call overwrites it."""
        self._total.zero_()
        return self._with_sums(prepared, chosen)

    def noised_sum(
        self,
        prepared: Any,
        chosen: Sequence[NDArray[np.int64]],
        generators: Sequence[torch.Generator],
        owners: Owners | None = None,
    ) -> Tensor:
        """Return each instance's clipped sum on top of its noise, which is drawn first."""
        assert owners is None, "packs know norms of texts, not of persons"
        spread = self._config.sigma * (self._config.clip or 0.0)
        if not spread:
            return self.clipped_sum(prepared, chosen)
        for row, generator in zip(self._total, generators, strict=True):
            row.normal_(0.0, spread, generator=generator)
        return self._with_sums(prepared, chosen)

    def _with_sums(self, prepared: Packer, chosen: Sequence[NDArray[np.int64]]) -> Tensor:
        for pack in prepared.packs(chosen):
            self._pass(pack)
        return self._total

    def _pass(self, pack: Pack) -> None:
        if pack.shape[0] > self._packed.room:
            self._passes.forget()
            self._packed.make_room(pack.shape[0])
        if self._passes.recorded and not self._compiled:
            # All kernels are compiled before the first pass, several at a time.
            with self._packed.launches.compiling():
                self._add_pack(*pack.parts())
            self._compiled = True
        self._passes(self._add_pack, pack.parts(), pack.shape)

    def _add_pack(self, *parts: Tensor) -> None:
        factors = partial(self.factors, dtype=self._adapters.live.dtype)
        clip = None if self._config.clip is None else factors
        self._packed.add(Pack(*parts), clip, self._total)

    def update(self, total: Tensor, step: int) -> None:
        self._packed.launches.adamw(total, self._first, self._second, self._config, step)


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
    ) -> NDArray[np.int64]:
        texts = _Texts(prompts, uniforms, self._decoding, self._packed.head.device)
        cache = KeyValueCache(self._packed, len(texts.row), texts.steps)
        for step in range(texts.steps):
            states = cache.read(texts.tokens, texts.tiles, texts.slot, step)
            if step + 1 < texts.shortest:
                texts.go_on(step)
            else:
                texts.take(torch.matmul(states, self._packed.head.T), step)
            if step % self.DROP_EVERY == self.DROP_EVERY - 1 and not texts.drop():
                break
        return texts.drawn()


class _Texts:
    """The texts that are being drawn, sorted by instance."""

    def __init__(
        self,
        prompts: Sequence[Sequence[Tokens]],
        uniforms: NDArray[np.float32],
        decoding: Decoding,
        device: torch.device,
    ) -> None:
        flat = list(chain.from_iterable(prompts))
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
        self._instance_of = np.repeat(np.arange(len(prompts)), list(map(len, prompts)))
        self._instances = len(prompts)
        self.tiles = self._tiled().to(device)
        self.row = torch.arange(len(flat), device=device)
        self.slot = self.row.int()
        self.tokens = self._prompts[:, 0]
        self._alive = torch.ones(len(flat), dtype=torch.bool, device=device)
        # The last column takes tokens that are not used: those within a prompt, or after an end.
        shape = (len(flat), decoding.longest + 1)
        self._drawn = torch.full(shape, -1, dtype=torch.long, device=device)

    def go_on(self, step: int) -> None:
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
        column = torch.where(written, drawn_before, self._longest)
        self._drawn[self.row, column] = drawn
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
            self._instance_of = self._instance_of[left.cpu().numpy()]
            self.tiles = self._tiled().to(left.device)
        return len(left) > 0

    def _tiled(self) -> Tensor:
        counts = np.bincount(self._instance_of, minlength=self._instances)
        return torch.from_numpy(tile_rows(counts, len(self._instance_of)).astype(np.int32))

    def drawn(self) -> NDArray[np.int64]:
        return self._drawn[:, :-1].cpu().numpy()


class KeyValueCache:
    """Keys and values of all texts, and the buffers of one step."""

    def __init__(self, packed: PackedModel, texts: int, positions: int) -> None:
        self._packed = packed
        packed.reach(positions)
        live = packed.adapters.live
        shape = (2, texts, packed.keys, positions, packed.size)
        self._kept = [live.new_empty(shape) for _ in packed.layers]
        self._buffers = packed.buffers(packed.kept(), texts)
        self._shared = packed.buffers(packed.shared(), texts)
        self._position = torch.zeros(texts, dtype=torch.int32, device=live.device)

    def read(self, tokens: Tensor, tiles: Tensor, slot: Tensor, position: int) -> Tensor:
        """Read one token of every text, and return their last states, until the next step.

        `slot` says where the keys and values of each text lie.
        """
        n = len(tokens)
        buf, shared = first_rows(self._buffers, n), first_rows(self._shared, n)

        def attend(number: int, buf: Any) -> None:
            keys, values = self._kept[number]
            self._packed.launches.attend_next(buf, keys, values, slot, position)

        kept = [buf] * len(self._packed.layers)
        where = self._position[:n].fill_(position)
        self._packed.forward(tokens, tiles, where, kept, shared, attend)
        return shared.h
