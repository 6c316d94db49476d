"""Sampling for a fleet: all instances decode together, each from its own randomness.

The token of record r of instance i at position t depends on u[i, r, t] alone, which comes from the
instance's seed; the rest of the batch only affects rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.seeds import stream
from synthleak.releases.lm.fleet.adapters import Adapters, EvenLayout
from synthleak.releases.lm.fleet.decoding import Decoding, sample_tokens

if TYPE_CHECKING:
    from synthleak.releases.lm.fleet.shared_backbone import SharedBackbone

Tokens = tuple[int, ...]


class Sampler:
    """Samples the texts of a fleet."""

    COMPACT_EVERY = 8
    COMPACT_BELOW = 0.75

    def __init__(
        self, shared: SharedBackbone, adapters: Adapters, decoding: Decoding, *, texts_at_once: int
    ) -> None:
        self._shared = shared
        self._adapters = adapters
        self._decoding = decoding
        self._at_once = texts_at_once

    def sample(
        self,
        prompts: Sequence[Sequence[Tokens]],
        seeds: Sequence[int],
        advance: Callable[[int], None] = lambda texts: None,
    ) -> list[list[Tokens]]:
        """Return a continuation for every prompt: `prompts[i]` are those of instance i."""
        each = len(prompts[0])
        if any(len(own) != each for own in prompts):
            raise ValueError("every instance of a fleet samples equally many texts")
        uniforms = np.stack(
            [
                stream(seed, "tokens").random((each, self._decoding.longest), dtype=np.float32)
                for seed in seeds
            ]
        )
        made: list[list[Tokens]] = [[()] * each for _ in prompts]
        per_round = max(1, self._at_once // len(prompts))
        for start in range(0, each, per_round):
            part = slice(start, min(start + per_round, each))
            for instance, position, tokens in self._round(
                [own[part] for own in prompts], uniforms[:, part]
            ):
                made[instance][start + position] = tokens
            advance((part.stop - part.start) * len(prompts))
        return made

    @torch.no_grad()
    def _round(
        self, prompts: Sequence[Sequence[Tokens]], uniforms: NDArray[np.float32]
    ) -> Iterator[tuple[int, int, Tokens]]:
        fleet, each = len(prompts), len(prompts[0])
        batch = _Batch(prompts, uniforms, self._adapters.live.device)
        tokens: Tensor = batch.prompts
        cache: Any = None
        for t in range(self._decoding.longest):
            with self._adapters.serving(EvenLayout(fleet, batch.each)):
                hidden, cache = self._shared.step(tokens, batch.mask, batch.positions, cache)
            logits = torch.matmul(hidden, self._shared.backbone.head.T)
            drawn = sample_tokens(logits, batch.uniforms[:, t], self._decoding, t)
            batch.take(drawn, self._decoding.end)
            if t % self.COMPACT_EVERY == self.COMPACT_EVERY - 1 or t + 1 == self._decoding.longest:
                alive = batch.alive_each()
                if not alive:
                    break
                if alive <= self.COMPACT_BELOW * batch.each:
                    rows = batch.compact(alive)
                    cache.batch_select_indices(rows)
                    drawn = drawn[rows]
            tokens = drawn[:, None]
        yield from batch.texts(each)


class _Batch:
    """The texts that are being decoded: `each` per instance, in the instances' order."""

    def __init__(
        self,
        prompts: Sequence[Sequence[Tokens]],
        uniforms: NDArray[np.float32],
        device: torch.device,
    ) -> None:
        self._fleet, self.each = len(prompts), len(prompts[0])
        flat = [prompt for own in prompts for prompt in own]
        width = max(len(prompt) for prompt in flat)
        tokens = np.zeros((len(flat), width), dtype=np.int64)
        mask = np.zeros((len(flat), width), dtype=np.int64)
        for row, prompt in enumerate(flat):  # padded on the left, so that all continue together
            tokens[row, width - len(prompt) :] = prompt
            mask[row, width - len(prompt) :] = 1
        self.prompts = torch.from_numpy(tokens).to(device)
        self.mask = torch.from_numpy(mask).to(device)
        self.positions = (self.mask.cumsum(dim=1) - 1).clamp(min=0)
        self.uniforms = torch.from_numpy(uniforms.reshape(len(flat), -1)).to(device)
        self._alive = torch.ones(len(flat), dtype=torch.bool, device=device)
        self._row = torch.arange(len(flat), device=device)
        self._made = torch.full_like(self.uniforms, -1, dtype=torch.long)
        self._length = 0

    def take(self, drawn: Tensor, ends: tuple[int, ...]) -> None:
        """Store the drawn tokens, and advance by one position."""
        for end in ends:
            self._alive &= drawn != end
        # Every row is written, -1 for none: selecting rows would make the host wait for the device.
        self._made[self._row, self._length] = torch.where(self._alive, drawn, -1)
        self._length += 1
        self.mask = torch.cat([self.mask, torch.ones_like(self.mask[:, :1])], dim=1)
        self.positions = self.positions[:, -1:] + 1

    def alive_each(self) -> int:
        """Return the largest number of unfinished texts of one instance."""
        return int(self._alive.view(self._fleet, self.each).sum(dim=1).max())

    def compact(self, each: int) -> Tensor:
        """Keep `each` texts per instance, the unfinished first; return their rows."""
        alive = self._alive.view(self._fleet, self.each)
        order = torch.argsort(alive.int(), dim=1, descending=True, stable=True)[:, :each]
        base = torch.arange(self._fleet, device=order.device)[:, None] * self.each
        rows = (order + base).flatten()
        self.each = each
        self.mask, self.positions = self.mask[rows], self.positions[rows]
        self.uniforms, self._alive = self.uniforms[rows], self._alive[rows]
        self._row = self._row[rows]
        return rows

    def texts(self, each: int) -> Iterator[tuple[int, int, Tokens]]:
        """Yield (instance, position, tokens) of every text, without its end token."""
        for row, made in enumerate(self._made.cpu().numpy()):
            yield row // each, row % each, tuple(made[made >= 0].tolist())
