"""Sampling for a fleet: all instances decode together, each from its own randomness.

The token of record r of instance i at position t depends on u[i, r, t] alone, which comes from the
instance's seed; the rest of the batch only affects rounding. Decoding is temperature, then top-k,
then top-p.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synthleak.core.seeds import stream
from synthleak.releases.lm.fleet.adapters import Adapters

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
        if any(len(of_instance) != each for of_instance in prompts):
            raise ValueError("every instance of a fleet samples equally many texts")
        uniforms = np.stack(
            [
                stream(seed, "tokens").random((each, self._decoding.longest), dtype=np.float32)
                for seed in seeds
            ]
        )
        texts: list[list[Tokens]] = [[()] * each for _ in prompts]
        per_round = max(1, self._at_once // len(prompts))
        for start in range(0, each, per_round):
            part = slice(start, min(start + per_round, each))
            drawn = self._round([of_instance[part] for of_instance in prompts], uniforms[:, part])
            for row, tokens in enumerate(drawn):
                instance, position = divmod(row, part.stop - start)
                texts[instance][start + position] = tuple(tokens[tokens >= 0].tolist())
            advance(len(drawn))
        return texts

    @torch.no_grad()
    def _round(
        self, prompts: Sequence[Sequence[Tokens]], uniforms: NDArray[np.float32]
    ) -> NDArray[np.int64]:
        """Return the tokens of every text, instance by instance, and -1 beyond its end."""
        batch = _Batch(prompts, uniforms, self._adapters.live.device)
        tokens: Tensor = batch.prompts
        cache: Any = None
        for t in range(self._decoding.longest):
            with self._adapters.serving():
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
        return batch.drawn()


class _Batch:
    """The texts that are being decoded: `each` per instance, in the instances' order."""

    def __init__(
        self,
        prompts: Sequence[Sequence[Tokens]],
        uniforms: NDArray[np.float32],
        device: torch.device,
    ) -> None:
        self._fleet, self.each = len(prompts), len(prompts[0])
        flat = list(chain.from_iterable(prompts))
        self.prompts, self.mask, self.positions = left_padded(flat, device)
        self.uniforms = torch.from_numpy(uniforms.reshape(len(flat), -1)).to(device)
        self._alive = torch.ones(len(flat), dtype=torch.bool, device=device)
        self._row = torch.arange(len(flat), device=device)
        self._drawn = torch.full_like(self.uniforms, -1, dtype=torch.long)
        self._length = 0

    def take(self, drawn: Tensor, ends: tuple[int, ...]) -> None:
        """Store the drawn tokens, and advance by one position."""
        for end in ends:
            self._alive &= drawn != end
        # Every row is written, -1 for none: selecting rows would make the host wait for the device.
        self._drawn[self._row, self._length] = torch.where(self._alive, drawn, -1)
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

    def drawn(self) -> NDArray[np.int64]:
        return self._drawn.cpu().numpy()


def left_padded(prompts: Sequence[Tokens], device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return tokens, mask and positions of prompts, padded so that all continue together."""
    width = max(map(len, prompts))
    tokens = np.zeros((len(prompts), width), dtype=np.int64)
    mask = np.zeros_like(tokens)
    for row, prompt in enumerate(prompts):
        tokens[row, width - len(prompt) :] = prompt
        mask[row, width - len(prompt) :] = 1
    seen = torch.from_numpy(mask).to(device)
    return torch.from_numpy(tokens).to(device), seen, (seen.cumsum(dim=1) - 1).clamp(min=0)


@dataclass(frozen=True)
class Decoding:
    """How tokens are drawn, and where a text ends.

    A text has at least `least` tokens: 1 forbids empty texts.
    """

    end: tuple[int, ...]
    longest: int
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 0.9
    least: int = 0


GROUP = 64
"""Tokens of the vocabulary in a group, in the search for the largest logits.

The tokens of a group are far apart in memory, so that all groups are read in parallel along it,
which is fast.
"""


def largest_logits(logits: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return each row's k largest values and their places, the largest first.

    They lie within the k groups whose maxima are largest, so only those are searched: one pass over
    a large vocabulary instead of several.
    """
    groups = logits.shape[1] // GROUP
    if groups < 2 * k:
        values, places = logits.topk(k, dim=1)
        return values, places
    grouped = logits[:, : groups * GROUP].unflatten(1, (GROUP, groups))
    chosen = grouped.amax(dim=1).topk(k, dim=1).indices
    inside = grouped.gather(2, chosen[:, None].expand(-1, GROUP, -1)).flatten(1)
    left = logits[:, groups * GROUP :]
    values, places = (torch.cat([inside, left], dim=1) if left.shape[1] else inside).topk(k, dim=1)
    within = places.clamp(max=inside.shape[1] - 1)
    member = torch.div(within, k, rounding_mode="floor")
    tokens = member * groups + chosen.gather(1, within - member * k)
    # What no group holds follows all groups.
    beyond = places + (groups * GROUP - inside.shape[1])
    return values, torch.where(places < inside.shape[1], tokens, beyond)


def sample_tokens(logits: Tensor, uniforms: Tensor, decoding: Decoding, length: int) -> Tensor:
    """Return a token for each row of logits; `uniforms[r]` in [0, 1) alone decides which.

    `length` is the number of tokens that each text already has. Logits of forbidden tokens are
    overwritten: a copy for a fleet would take gigabytes.
    """
    if length < decoding.least and decoding.end:
        logits.index_fill_(1, torch.tensor(decoding.end, device=logits.device), -torch.inf)
    best, tokens = largest_logits(logits, min(decoding.top_k, logits.shape[1]))
    share = torch.softmax(best.float() / decoding.temperature, dim=1)
    # A token is kept while those before it add up to less than p: the first is always kept, a
    # forbidden one never.
    kept = (share.cumsum(dim=1) - share < decoding.top_p) & (share > 0)
    mass = (share * kept).cumsum(dim=1)
    pick = torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None], right=True)
    last = kept.sum(dim=1, keepdim=True) - 1
    return tokens.gather(1, torch.minimum(pick, last)).squeeze(1)
